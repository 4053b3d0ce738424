"""Device times of convolutions with a fused addend on an attached GPU, and their table.

The layers are the ones of ResNet-50 that a residual is added to, at batch 128. A bound is the time
of the convolution alone, plus the addend's bytes at the speed of a copy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

import dmlax
from tools.benchmarks import gpu
from tools.benchmarks.cases import Filter
from tools.benchmarks.report import Report, Row

OPTIONS = ()
_BATCH = 128
_LAYERS = {  # the side, the channels and the output channels
    "res2": (56, 64, 256),
    "res3": (28, 128, 512),
    "res4": (14, 256, 1024),
    "res5": (7, 512, 2048),
}
_CACHE = 60e6  # bytes of the second cache
_CALLS = 20  # in one program, if the second cache could hold the layer
_OVER_BOUND = 1.1
SUM: dict[str, Any] = {
    "addend_scale": 0.0123,
    "addend_zero_point": np.uint8(117),
    "sum_scale": 0.0371,
    "sum_zero_point": np.uint8(121),
}


def run() -> list[Report]:
    """Compare and time every layer by both arithmetics."""
    facts = gpu.facts()
    table = gpu.report_of("convolution and addend", facts)
    for name in _LAYERS:
        for arithmetic in ("exact", "float32"):
            row = _row(name, arithmetic, facts["copy_gb_per_s"])
            table.rows.append(row)
            what = f"{name}, {arithmetic}: over its bound"
            table.add_target(what, row["over bound"], _OVER_BOUND)
    return [table]


@dataclass(frozen=True)
class Sum:
    """Functions of an image, an addend and a filter, by the keywords of the convolution."""

    parameters: Mapping[str, Any]

    def convolve(self, x: jax.Array, y: jax.Array, filter: Filter) -> jax.Array:
        """The convolution alone."""
        return dmlax.quantized_linear_convolution(
            x, filter, **self.parameters, implementation="mosaic_gpu"
        )

    def fuse(self, x: jax.Array, y: jax.Array, filter: Filter, by: str = "mosaic_gpu") -> jax.Array:
        """The convolution and the sum in one kernel."""
        parameters = {**self.parameters, **SUM, "implementation": by}
        return dmlax.quantized_linear_convolution_add(x, filter, None, y, **parameters)

    def add_apart(self, x: jax.Array, y: jax.Array, filter: Filter) -> jax.Array:
        """The convolution, and the sum by XLA."""
        return dmlax.element_wise_quantized_linear_add(
            self.convolve(x, y, filter),
            y,
            a_scale=self.parameters["output_scale"],
            a_zero_point=self.parameters["output_zero_point"],
            b_scale=SUM["addend_scale"],
            b_zero_point=SUM["addend_zero_point"],
            output_scale=SUM["sum_scale"],
            output_zero_point=SUM["sum_zero_point"],
            arithmetic=self.parameters["arithmetic"],
        )


def _row(name: str, arithmetic: str, speed: float) -> Row:
    """Times of the fused kernel, of the convolution alone, and with XLA's sum after it."""
    side, channels, outputs = _LAYERS[name]
    addend_bytes = _BATCH * side * side * outputs
    pairs, filter, sums = _draw(side, channels, outputs, arithmetic)
    by_xla = jax.jit(partial(sums.fuse, by="xla"))
    for output, pair in zip(_jitted(sums.fuse)(pairs, filter), pairs, strict=True):
        gpu.assert_equal((output, by_xla(*pair, filter)), name)

    def ms(function: Callable[..., jax.Array]) -> float:
        return gpu.jax_ms(_jitted(function), pairs, filter) / len(pairs)

    convolution, total = ms(sums.convolve), ms(sums.fuse)
    addend_ms = 1e-6 * addend_bytes / speed
    return {
        "layer": name,
        "arithmetic": arithmetic,
        "fused ms": total,
        "convolution ms": convolution,
        "addend ms at copy speed": addend_ms,
        "over bound": total / (convolution + addend_ms),
        "XLA's sum after it ms": ms(sums.add_apart),
    }


def _draw(
    side: int, channels: int, outputs: int, arithmetic: str
) -> tuple[list[tuple[jax.Array, jax.Array]], dmlax.PreparedFilter, Sum]:
    """Images and addends of every call, the filter, and the functions of these."""
    rng = np.random.default_rng(side)
    w = rng.integers(-127, 128, (outputs, channels, 1, 1), np.int8)
    count = 1 if _BATCH * side * side * outputs > _CACHE else _CALLS
    x = rng.integers(0, 256, (count, _BATCH, side, side, channels), np.uint8)
    addend = rng.integers(0, 256, (count, _BATCH, side, side, outputs), np.uint8)
    pairs = [(jax.device_put(image), jax.device_put(y)) for image, y in zip(x, addend, strict=True)]
    parameters = {
        "input_scale": 0.02,
        "filter_scale": rng.uniform(0.005, 0.015, outputs).astype(np.float32),
        "output_scale": 0.02 * 0.01 * 74 * 74 * channels**0.5 / 60,
        "input_zero_point": np.uint8(120),
        "output_zero_point": np.uint8(128),
        "dimension_numbers": gpu.NHWC,
        "arithmetic": arithmetic,
    }
    return pairs, dmlax.prepare_filter(w, dimension_numbers=gpu.NHWC), Sum(parameters)


def _jitted(function: Callable[..., jax.Array]) -> Callable[..., list[jax.Array]]:
    """A program of a call for every image."""
    return jax.jit(lambda pairs, filter: [function(x, y, filter) for x, y in pairs])
