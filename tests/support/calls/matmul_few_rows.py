"""Products of one to nine rows: every dtype, zero point and form of the right matrix."""

from collections.abc import Iterator

import numpy as np

import dmlax

_SIZES = (  # depth and columns: short, beside steps of a depth, and beside panels
    *((1, 1), (3, 65), (64, 64), (65, 63), (130, 129), (256, 1088), (1003, 9)),
    *((31, 200), (515, 70), (2048, 130), (127, 1100), (4099, 67)),
)
_ZERO_POINTS = ("none", "one", "many")


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The products from `first` to `last` that are not NumPy's."""
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        rows, (depth, columns) = 1 + seed % 9, _SIZES[seed % len(_SIZES)]
        a, b = (_draw(rng, shape) for shape in ((rows, depth), (depth, columns)))
        a_zero, b_zero = _zero_point(rng, a, (rows, 1)), _zero_point(rng, b, (columns,))
        left = a.astype(np.int32) - (0 if a_zero is None else a_zero.astype(np.int32))
        total = left @ (b.astype(np.int32) - (0 if b_zero is None else b_zero.astype(np.int32)))
        scales = {"a_scale": 1.0, "b_scale": 1.0, "output_scale": 2.0**11}
        for packing in (None, "rows", "panels"):
            options = {"a_zero_point": a_zero, "implementation": implementation}
            matrix: np.ndarray | dmlax.PreparedMatrix = b
            if packing is None:
                options["b_zero_point"] = b_zero
            else:
                matrix = dmlax.prepare_matrix(b, b_zero_point=b_zero, packing=packing)
            what = f"{seed}: {a.dtype} {rows}x{depth}x{columns} {b.dtype} {packing}"
            if not np.array_equal(dmlax.matrix_multiply_integer(a, matrix, **options), total):
                yield f"{what}: sums"
            found = dmlax.quantized_linear_matrix_multiply(
                a, matrix, **scales, **options, output_dtype=np.int8
            )
            if not np.array_equal(found, np.clip(np.rint(total / 2.0**11), -128, 127)):
                yield f"{what}: bytes"


def _draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes of either kind; one array in four has only the two largest magnitudes."""
    values = rng.integers(0, 256, shape, np.uint8)
    if rng.integers(4) == 0:
        values = np.where(values % 2, np.uint8(127), np.uint8(128))
    return values.view(np.int8) if rng.integers(2) else values


def _zero_point(
    rng: np.random.Generator, matrix: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray | None:
    """No zero point, one, or one for every row or column."""
    kind = _ZERO_POINTS[rng.integers(len(_ZERO_POINTS))]
    if kind == "none":
        return None
    return rng.integers(0, 256, shape if kind == "many" else (), np.uint8).view(matrix.dtype)
