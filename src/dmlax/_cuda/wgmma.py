"""Matrix products of bytes by a Hopper GPU's warpgroups: PTX's `wgmma`.

Registers hold the accumulators, shared memory both matrices: rows of 32, 64 or 128 bytes along the
depth. Their chunks of 16 bytes are swizzled, so that neither copies nor products have bank
conflicts. Rows of 16 bytes are not: a product's second chunk of a row is the row after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dmlax._cuda import cp_async, ir
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Value, constant

ROWS = 64  # one product multiplies this many rows of the left matrix
DEPTH = 32  # bytes of a row, in one product
ALIGNMENT = 1024  # bytes, of a matrix
_SWIZZLE_CODES = {128: 1, 64: 2, 32: 3, 16: 0}  # a descriptor's codes, by the bytes of a row


def swizzle(row: Value, chunk: Value, row_bytes: int) -> Value:
    """The offset of a row's chunk from the matrix's start.

    Chunks of rows of 128 bytes are permuted by the row's last three bits; narrower rows are so as
    they fill 128 bytes.
    """
    rows_of_128 = 128 // row_bytes
    place = chunk ^ ((row // rows_of_128) & (row_bytes // CHUNK - 1))
    return row * row_bytes + place * CHUNK


def descriptor(address: Value, row_bytes: int) -> Value:
    """The descriptor of a matrix in shared memory."""
    code = (_SWIZZLE_CODES[row_bytes] << 62) | ((8 * row_bytes >> 4) << 32) | (1 << 16)
    return ((address & 0x3FFFF) >> 4).extend() | constant(code, 64)


def advance(descriptor: Value, distance: int) -> Value:
    """The descriptor of a matrix `distance` bytes on, in rows or along them."""
    return descriptor + (distance >> 4)


@dataclass(frozen=True)
class Product:
    """A product of two descriptors' matrices, added to the accumulators from the `first` on."""

    first: int
    left: Value
    right: Value
    columns: int

    @property
    def registers(self) -> range:
        """A thread's accumulators."""
        return range(self.first, self.first + self.columns // 2)


def multiply_async(
    accumulators: Sequence[Value], products: Sequence[Product], *, unsigned: bool
) -> list[Value]:
    """Begins to add products to the accumulators; right is int8, left uint8 or int8.

    They are one piece of PTX: an instruction between two products would make the second wait.
    """
    kinds = f"s32.{'u8' if unsigned else 's8'}.s8"
    count, text = len(accumulators), "wgmma.fence.sync.aligned; "
    for i, product in enumerate(products):
        registers = ", ".join(f"${register}" for register in product.registers)
        matrices = f"${2 * (count + i)}, ${2 * (count + i) + 1}"
        shape = f"m64n{product.columns}k32"
        text += f"wgmma.mma_async.sync.aligned.{shape}.{kinds} {{{registers}}}, {matrices}, 1; "
    text += "wgmma.commit_group.sync.aligned;"
    descriptors = [matrix for product in products for matrix in (product.left, product.right)]
    return ir.ptx_values(text, [32] * count, descriptors, changed=accumulators, effects=True)


def wait(accumulators: Sequence[Value], pending: int = 0) -> list[Value]:
    """Waits for all products; only what this gives may be read.

    But the last `pending` groups: then it may only be multiplied into.
    """
    text = f"wgmma.wait_group.sync.aligned {pending};"
    return ir.ptx_values(text, [32] * len(accumulators), [], changed=accumulators, effects=True)


def wait_for_copies(pending: int) -> None:
    """Waits for this thread's commit groups but the last `pending`, so that products may read them.

    A barrier must follow.
    """
    cp_async.wait_group(pending)
    ir.ptx_effect("fence.proxy.async.shared::cta;")
