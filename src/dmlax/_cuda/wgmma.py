"""Matrix products of bytes by a Hopper GPU's warpgroups.

Registers hold sums, shared memory holds both matrices: rows of 32, 64 or 128 bytes of the sum,
their chunks of 16 bytes swizzled so that neither copies nor products meet a bank twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dmlax._cuda import cp_async, ir
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Value, constant

ROWS = 64  # of the left matrix, in one product
DEPTH = 32  # bytes of a row that one product sums
ALIGNMENT = 1024  # bytes, of a matrix
_SWIZZLES = {128: 1, 64: 2, 32: 3}  # by bytes of a row: the descriptor's code


def swizzled(row: Value, chunk: Value, row_bytes: int) -> Value:
    """Where a row's chunk lies, from the matrix's start.

    Rows of 128 bytes change places by their last three bits, narrower ones as these fill 128.
    """
    rows_of_128 = 128 // row_bytes
    moved = chunk ^ ((row // rows_of_128) & (row_bytes // CHUNK - 1))
    return row * row_bytes + moved * CHUNK


def describe(address: Value, row_bytes: int) -> Value:
    """The descriptor of a matrix in shared memory, as the product takes it."""
    code = (_SWIZZLES[row_bytes] << 62) | ((8 * row_bytes >> 4) << 32) | (1 << 16)
    return ((address & 0x3FFFF) >> 4).wide() | constant(code, 64)


def moved(described: Value, distance: int) -> Value:
    """The descriptor of a matrix so many bytes on, in rows or along them."""
    return described + (distance >> 4)


@dataclass(frozen=True)
class Product:
    """What is added to the sums from the `first` on: left * right, both described."""

    first: int
    left: Value
    right: Value
    columns: int

    @property
    def registers(self) -> range:
        """The sums of a thread."""
        return range(self.first, self.first + self.columns // 2)


def multiply(sums: Sequence[Value], products: Sequence[Product], *, unsigned: bool) -> list[Value]:
    """The sums with products added, asked for; right is int8, left uint8 or int8.

    One piece, as whatever stood between two products would have the second wait for the first.
    """
    kinds = f"s32.{'u8' if unsigned else 's8'}.s8"
    count, text = len(sums), "wgmma.fence.sync.aligned; "
    for i, product in enumerate(products):
        registers = ", ".join(f"${register}" for register in product.registers)
        matrices = f"${2 * (count + i)}, ${2 * (count + i) + 1}"
        shape = f"m64n{product.columns}k32"
        text += f"wgmma.mma_async.sync.aligned.{shape}.{kinds} {{{registers}}}, {matrices}, 1; "
    text += "wgmma.commit_group.sync.aligned;"
    described = [matrix for product in products for matrix in (product.left, product.right)]
    return ir.assemble(text, [32] * count, described, changed=sums, effects=True)


def finish(sums: Sequence[Value]) -> list[Value]:
    """Waits for all groups; the sums are read only through what this gives."""
    text = "wgmma.wait_group.sync.aligned 0;"
    return ir.assemble(text, [32] * len(sums), [], changed=sums, effects=True)


def await_copies(later: int) -> None:
    """Waits for this thread's copies, but the last groups; products of all threads may read them.

    A barrier has to follow.
    """
    cp_async.wait_group(later)
    ir.effect("fence.proxy.async.shared::cta;")
