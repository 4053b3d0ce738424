"""Products whose rows and columns end in the midst of tiles, vectors and panels, or do not."""

from collections.abc import Iterator

import numpy as np

import dmlax

_ROWS = (5, 8, 16, 17, 32, 35, 48, 63, 64, 65, 128, 131)
_SIZES = (  # depth and columns
    *((64, 128), (70, 133), (832, 64), (24, 144), (96, 24), (672, 16)),
    *((160, 48), (12, 17), (148, 32), (36, 80), (1160, 33)),
)


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The products from `first` to `last` that are not NumPy's."""
    for seed in range(first, last):
        rows, (depth, columns) = _ROWS[seed % len(_ROWS)], _SIZES[seed % len(_SIZES)]
        rng = np.random.default_rng(seed)
        dtype = np.int8 if seed % 4 == 3 else np.uint8
        a = rng.integers(0, 256, (rows, depth), np.uint8).view(dtype)
        b = rng.integers(-128, 128, (depth, columns), np.int8)
        zero = dtype(117)
        total = (a.astype(np.int32) - int(zero)) @ b.astype(np.int32)
        options = {"a_zero_point": zero, "implementation": implementation}
        panels = dmlax.prepare_matrix(b, packing="panels")
        for matrix in (dmlax.prepare_matrix(b), panels, b):
            sums = dmlax.matrix_multiply_integer(a, matrix, **options)
            if not np.array_equal(sums, total):
                yield f"{seed}: sums of {rows}x{depth}x{columns}"
        scales = {"a_scale": 1.0, "b_scale": 1.0, "output_scale": 2.0**11}
        bytes_ = dmlax.quantized_linear_matrix_multiply(
            a,
            panels if seed % 2 else dmlax.prepare_matrix(b),
            **scales,
            **options,
            output_dtype=np.int8,
        )
        if not np.array_equal(bytes_, np.clip(np.rint(total / 2.0**11), -128, 127)):
            yield f"{seed}: bytes of {rows}x{depth}x{columns}"
