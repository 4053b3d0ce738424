"""Device times of convolutions with a fused addend on an attached GPU, and their table.

    python -m benchmarks.gpu_convolution_add

The layers are those of ResNet-50 that a residual is added to, at batch 128. A bound is the time of
the convolution alone, plus the addend's bytes at the speed of a copy. Writes results/.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from rich.console import Console

import dmlax
from benchmarks import device_timing, report

BATCH = 128
LAYERS = {  # the side, the channels and the output channels
    "res2": (56, 64, 256),
    "res3": (28, 128, 512),
    "res4": (14, 256, 1024),
    "res5": (7, 512, 2048),
}
CACHE = 60e6  # bytes of the second cache
CALLS = 20  # in one program, of a layer that it could hold
OVER_BOUND = 1.1
LAYOUT = ("NHWC", "OIHW", "NHWC")
ARITHMETICS = ("exact", "float32")


def main() -> None:
    """Compare and time every layer by both arithmetics."""
    ceilings = device_timing.ceilings()
    environment = report.environment()
    found = report.Report(f"convolution and addend on an {report.chip_of(environment)}")
    for name in LAYERS:
        for arithmetic in ARITHMETICS:
            found.rows.append(
                {"layer": name, "arithmetic": arithmetic}
                | _row(name, arithmetic, ceilings["copy_gb_per_s"])
            )
    for row in found.rows:
        what = f"{row['layer']}, {row['arithmetic']}: over its bound"
        found.targets.append(report.Target(what, row["over bound"], OVER_BOUND))
    found.show(Console())
    facts = environment | ceilings | {"times": device_timing.TIMES}
    report.write_of_gpu("convolution-add", [found], facts)


def _row(name: str, arithmetic: str, speed: float) -> dict[str, Any]:
    """Times of the fused kernel, of the convolution alone, and of it with XLA's sum after it."""
    side, channels, outputs = LAYERS[name]
    addend_bytes = BATCH * side * side * outputs
    calls = 1 if addend_bytes > CACHE else CALLS
    rng = np.random.default_rng(side)
    w = rng.integers(-127, 128, (outputs, channels, 1, 1), np.int8)
    filter = dmlax.prepare_filter(w, dimension_numbers=LAYOUT)
    x = rng.integers(0, 256, (calls, BATCH, side, side, channels), np.uint8)
    addend = rng.integers(0, 256, (calls, BATCH, side, side, outputs), np.uint8)
    inputs, addends = (list(map(jax.device_put, each)) for each in (x, addend))
    scales: dict[str, Any] = {
        "input_scale": 0.02,
        "filter_scale": rng.uniform(0.005, 0.015, outputs).astype(np.float32),
        "output_scale": 0.02 * 0.01 * 74 * 74 * channels**0.5 / 60,
        "input_zero_point": np.uint8(120),
        "output_zero_point": np.uint8(128),
        "dimension_numbers": LAYOUT,
        "arithmetic": arithmetic,
    }
    sums: dict[str, Any] = {
        "addend_scale": 0.0123,
        "addend_zero_point": np.uint8(117),
        "sum_scale": 0.0371,
        "sum_zero_point": np.uint8(121),
    }
    alone = partial(dmlax.quantized_linear_convolution, **scales, implementation="mosaic_gpu")
    fused = partial(dmlax.quantized_linear_convolution_add, **scales, **sums)

    def convolve(inputs: Any, addends: Any, filter: Any) -> Any:
        return [alone(x, filter) for x in inputs]

    def convolve_and_add(implementation: str, inputs: Any, addends: Any, filter: Any) -> Any:
        call = partial(fused, implementation=implementation)
        return [call(x, filter, None, y) for x, y in zip(inputs, addends, strict=True)]

    def add_apart(inputs: Any, addends: Any, filter: Any) -> Any:
        return [
            dmlax.element_wise_quantized_linear_add(
                *(alone(x, filter), y),
                a_scale=scales["output_scale"],
                a_zero_point=scales["output_zero_point"],
                b_scale=sums["addend_scale"],
                b_zero_point=sums["addend_zero_point"],
                output_scale=sums["sum_scale"],
                output_zero_point=sums["sum_zero_point"],
                arithmetic=scales["arithmetic"],
            )
            for x, y in zip(inputs, addends, strict=True)
        ]

    in_kernel = partial(convolve_and_add, "mosaic_gpu")
    by_xla = jax.jit(lambda x, filter, y: fused(x, filter, None, y, implementation="xla"))
    got = jax.jit(in_kernel)(inputs, addends, filter)
    for found, x, y in zip(got, inputs, addends, strict=True):
        np.testing.assert_array_equal(found, by_xla(x, filter, y), strict=True)

    def ms(call: Callable[..., Any]) -> float:
        return device_timing.jax_ms(jax.jit(call), inputs, addends, filter) / calls

    convolution, addend_ms = ms(convolve), 1e-6 * addend_bytes / speed
    total = ms(in_kernel)
    return {
        "fused ms": total,
        "convolution ms": convolution,
        "addend ms at copy speed": addend_ms,
        "over bound": total / (convolution + addend_ms),
        "XLA's sum after it ms": ms(add_apart),
    }


if __name__ == "__main__":
    main()
