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
