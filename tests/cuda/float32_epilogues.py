"""Convolutions and their sums in ONNX Runtime's float32 on an NVIDIA GPU, of scales at every end.

    PYTHONPATH=src:tests:conformance/src python3 tests/cuda/float32_epilogues.py 0 24

compares the kernel with plain XLA in these of the 24 cases, and prints how many calls there were.
"""

import itertools
import sys
from typing import Any

import jax
import numpy as np

import dmlax
from support import draw

DTYPES = ("uint8", "int8")
CASES = list(itertools.product(DTYPES, DTYPES, DTYPES, (64, 24, 256)))
"""The dtypes of the result, of the addend and of the sum; output channels."""
SCALES = [  # scales of input, filter, result, addend and sum
    (0.02, 0.01, 0.5, 0.0123, 0.03),
    (0.5, 0.5, 0.25, 0.5, 1.0),
    (-0.02, 0.01, 0.5, -0.0123, 0.03),
    (1e30, 1e30, 1e-3, 0.5, 0.3),  # an infinite multiplier
    (1e-30, 1e-30, 1.0, 0.5, 0.3),
    (0.02, 0.01, 1e38, 2.0, 1e-3),
    (0.02, 0.01, 3e38, 1e-4, 1e-5),
    (0.02, 0.01, 0.5, 3e38, 1e-38),  # infinite ratios of the sum
    (0.02, 0.01, 0.5, 1e-38, 3e38),
    (0.02, 0.01, 1e-3, 1e-44, 1e-42),
]
LAYOUT = ("NHWC", "OIHW", "NHWC")
ZERO = np.uint8(7)  # the input's zero point


def main() -> None:
    """Compare, and stop where the kernel is wrong."""
    first, last = map(int, sys.argv[1:])
    calls = sum(map(_compare, range(first, min(last, len(CASES)))))
    print(f"{jax.devices()[0]}: {calls} calls, 0 mismatches")


def _compare(case: int) -> int:
    """Compare the calls of a case: random images, the lowest zero points, and images of zeros."""
    *dtypes, outputs = CASES[case]
    channels = 128 if case % 2 else 32
    x, addend = draw(case, "uint8", (3, 9, 11, channels)), draw(1, dtypes[1], (3, 9, 11, outputs))
    bias = np.random.default_rng(case).integers(-9999, 9999, outputs).astype(np.int32)
    w = draw(2, "int8", (outputs, channels, 1, 1))
    filter = dmlax.prepare_filter(w, dimension_numbers=LAYOUT)
    inputs = [(x, bias), (x, bias), (np.full_like(x, ZERO), 0 * bias)]
    points = [[draw(case + i, dtype, ())[()] for i, dtype in enumerate(dtypes)]]
    points += 2 * [[np.dtype(dtype).type(np.iinfo(dtype).min) for dtype in dtypes]]
    calls = 0
    for scales, ((image, added), zeros) in itertools.product(
        SCALES, zip(inputs, points, strict=True)
    ):
        operands = image, filter, added, addend, list(map(np.float32, scales)), zeros
        for first in (False, True):
            found, wanted = (
                _CALL(*operands, first, implementation) for implementation in ("mosaic_gpu", "xla")
            )
            for got, expected in zip(found, wanted, strict=True):
                text = f"{CASES[case]}, scales {scales}, zero points {zeros}, {first}"
                np.testing.assert_array_equal(got, expected, text, strict=True)
                calls += 1
    return calls


def _convolve(
    x: Any,
    filter: Any,
    bias: Any,
    addend: Any,
    scales: Any,
    zero_points: Any,
    addend_first: bool,
    implementation: Any,
) -> tuple[Any, Any]:
    """A convolution alone, and with its sum."""
    options: dict[str, Any] = {
        "input_scale": scales[0],
        "filter_scale": scales[1],
        "output_scale": scales[2],
        "input_zero_point": ZERO,
        "output_zero_point": zero_points[0],
        "dimension_numbers": LAYOUT,
        "arithmetic": "float32",
        "implementation": implementation,
    }
    total = dmlax.quantized_linear_convolution_add(
        *(x, filter, bias, addend),
        **options,
        addend_scale=scales[3],
        addend_zero_point=zero_points[1],
        sum_scale=scales[4],
        sum_zero_point=zero_points[2],
        addend_first=addend_first,
    )
    return dmlax.quantized_linear_convolution(x, filter, bias, **options), total


_CALL = jax.jit(_convolve, static_argnums=(6, 7))

if __name__ == "__main__":
    main()
