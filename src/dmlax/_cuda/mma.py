"""Matrix products of bytes by one warp: PTX's `mma`, and the loads of its matrices.

Lane l holds words of rows l / 4 and, of four bytes, l % 4 of both matrices, whose rows lie along
the depth; of the sums those of columns 2 (l % 4) and the next one, in rows l / 4 and 8 on.
"""

from collections.abc import Sequence

from dmlax._cuda import ir
from dmlax._cuda.ir import Value

ROWS = 16  # the rows of a left tile
COLUMNS = 8  # rows of right
DEPTH = 32  # bytes


def load_matrices(row: Value) -> list[Value]:
    """Loads four matrices of eight rows of 16 bytes; lane l has the address of row l % 8 of l / 8.

    A lane gets a word of every matrix.
    """
    text = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4];"
    return ir.ptx_values(text, [32] * 4, [row], effects=True)


def multiply(
    sums: Sequence[Value], left: Sequence[Value], right: Sequence[Value], *, unsigned: bool
) -> list[Value]:
    """Adds products to four sums; right is int8, left uint8 or int8.

    Left's words are of the first 16 bytes, rows l / 4 and 8 on, then of the others. All lanes must
    run it: without effects the compiler could move it to where its results are stored.
    """
    kinds = f"s32.{'u8' if unsigned else 's8'}.s8.s32"
    text = (
        f"mma.sync.aligned.m16n8k32.row.col.{kinds} "
        "{$0, $1, $2, $3}, {$8, $9, $10, $11}, {$12, $13}, {$0, $1, $2, $3};"
    )
    return ir.ptx_values(text, [32] * 4, [*left, *right], changed=sums, effects=True)


def multiply_tiles(
    sums: Sequence[Value],
    *,
    loads: Sequence[tuple[Value, Value]],
    left_distance: int,
    right_distance: int,
    tiles: tuple[int, int],
    unsigned: bool,
    sums_rows: bool,
) -> list[Value]:
    """Adds the products of several left tiles and several eights of columns, a pair at a time.

    They are one piece of PTX: the assembler then mixes loads and products.

    Args:
      sums: four for every left tile and eight columns, then four for the rows of every left tile
        if `sums_rows`.
      loads: addresses, as `load_matrices` takes them, of a left tile and of two eights of right,
        for every 32 bytes of the depth.
      left_distance: bytes from one left tile to the next.
      right_distance: bytes from two eights to the next two.
      tiles: left tiles, and eights of right.
      unsigned: left is uint8, else int8; right is int8.
      sums_rows: the rows of left are summed.
    """
    (rows, eights), count = tiles, len(sums)
    kinds = f"s32.{'u8' if unsigned else 's8'}.s8.s32"
    load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"

    def four(name: str, first: int) -> str:
        return "{" + ", ".join(f"{name}{first + i}" for i in range(4)) + "}"

    def multiply(first: int, left: int, right: str) -> str:
        to = four("$", first)
        shape = f"mma.sync.aligned.m{ROWS}n{COLUMNS}k{DEPTH}.row.col"
        return f"{shape}.{kinds} {to}, {four('a', 4 * left)}, {{{right}}}, {to}; "

    text = f"{{ .reg .b32 a<{4 * rows}>; .reg .b32 b<4>; .reg .b32 one; mov.b32 one, 0x01010101; "
    for pair in range(len(loads)):
        a, b = (f"${2 * (count + pair) + side}" for side in range(2))
        for i in range(rows):
            text += f"{load} {four('a', 4 * i)}, [{a}+{i * left_distance}]; "
        for j in range(0, eights, 2):
            text += f"{load} {four('b', 0)}, [{b}+{j // 2 * right_distance}]; "
            for i in range(rows):
                first = 4 * (i * eights + j)
                text += multiply(first, i, "b0, b1") + multiply(first + 4, i, "b2, b3")
        if sums_rows:
            for i in range(rows):
                text += multiply(4 * (rows * eights + i), i, "one, one")
    addresses = [address for pair in loads for address in pair]
    return ir.ptx_values(text + "}", [32] * count, addresses, changed=sums, effects=True)
