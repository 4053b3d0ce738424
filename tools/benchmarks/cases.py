"""The layers and arrays of layers.json, and the seeded data that fills them."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

import dmlax

INPUT_ZERO_POINT, OUTPUT_ZERO_POINT = 121, 117
INPUT_SCALE = 0.0173
LAYOUTS = ("NHWC", "NCHW")
_FACTS = Path(__file__).with_name("layers.json")
Filter = ArrayLike | dmlax.PreparedFilter


@dataclass(frozen=True)
class Layer:
    """One convolution: square input and kernel, NCHW."""

    name: str
    in_channels: int
    size: int
    out_channels: int
    kernel: int
    stride: int
    padding: int
    groups: int

    @property
    def taps(self) -> int:
        """The number of products of one output."""
        return self.in_channels // self.groups * self.kernel**2


@dataclass(frozen=True)
class Sparse:
    """One array; `density` is the share of its elements that are not zero."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    density: float

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))

    def array(self) -> np.ndarray:
        """The array, the same on every run."""
        rng = np.random.default_rng(0)
        values = rng.integers(1, 100, self.shape)
        return np.where(rng.random(self.shape) < self.density, values, 0).astype(self.dtype)


@dataclass(frozen=True)
class Problem:
    """A layer's operands, the same on every run; the outputs fill most of their range."""

    layer: Layer
    x: np.ndarray
    w: np.ndarray
    bias: np.ndarray
    filter_scale: np.ndarray
    output_scale: float
    layout: str = "NCHW"

    @classmethod
    def of(cls, layer: Layer, batch: int, layout: str = "NCHW", bits: int = 8) -> "Problem":
        """Draw the operands of `batch` images; the filter's elements have `bits` bits."""
        rng = np.random.default_rng(0)
        channels = layer.out_channels
        kernel = (channels, layer.in_channels // layer.groups, layer.kernel, layer.kernel)
        # The deviation of a sum of products.
        deviation = 74.0 * 74.0 * 2.0 ** (bits - 8) * layer.taps**0.5
        x = rng.integers(0, 256, (batch, layer.in_channels, *2 * (layer.size,)), np.uint8)
        return cls(
            layer,
            x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
            rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), kernel, np.int8),
            rng.normal(0, deviation / 4, channels).astype(np.int32),
            rng.uniform(0.5, 1.5, channels).astype(np.float32) / np.float32(128),
            INPUT_SCALE * deviation / 128 / 50,
            layout,
        )

    @property
    def dimension_numbers(self) -> tuple[str, str, str]:
        """Layouts of the input, the filter and the output, in dmlax's words."""
        return self.layout, "OIHW", self.layout

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The output's shape in NCHW."""
        layer = self.layer
        size = (layer.size + 2 * layer.padding - layer.kernel) // layer.stride + 1
        return (self.x.shape[0], layer.out_channels, size, size)

    @property
    def products(self) -> int:
        """The number of byte products of the whole output."""
        return int(np.prod(self.output_shape)) * self.layer.taps

    @property
    def parameters(self) -> dict[str, Any]:
        """The keywords of dmlax's function, except `implementation` and `arithmetic`."""
        layer = self.layer
        return {
            "input_scale": INPUT_SCALE,
            "filter_scale": self.filter_scale,
            "output_scale": self.output_scale,
            "input_zero_point": INPUT_ZERO_POINT,
            "output_zero_point": OUTPUT_ZERO_POINT,
            "strides": 2 * (layer.stride,),
            "start_padding": 2 * (layer.padding,),
            "end_padding": 2 * (layer.padding,),
            "group_count": layer.groups,
            "dimension_numbers": self.dimension_numbers,
        }

    def filter(self, packing: Literal["auto", "panels", "rows"] = "rows") -> dmlax.PreparedFilter:
        """The prepared filter, a pytree that a jitted function takes."""
        prepared: dmlax.PreparedFilter = jax.device_put(
            dmlax.prepare_filter(
                self.w,
                group_count=self.layer.groups,
                dimension_numbers=self.dimension_numbers,
                packing=packing,
            )
        )
        return prepared

    def call(self, x: Array, filter: Filter, **options: Any) -> Array:
        """The layer by dmlax."""
        return dmlax.quantized_linear_convolution(
            x, filter, self.bias, **self.parameters, **options
        )


def layers(pattern: str, kind: str = "convolution") -> list[Layer]:
    """The layers whose names match: "convolution", or "survey" with those of other networks."""
    return [Layer(**facts) for facts in _matching(kind, pattern)]


def arrays(pattern: str, most: int) -> list[Sparse]:
    """The arrays of at most `most` elements whose names match."""
    cases = (
        Sparse(**facts | {"shape": tuple(facts["shape"])})
        for facts in _matching("nonzero", pattern)
    )
    return [case for case in cases if case.size <= most]


def _matching(kind: str, pattern: str) -> list[dict[str, Any]]:
    facts = json.loads(_FACTS.read_text(encoding="utf-8"))[kind]
    return [fact for fact in facts if re.search(pattern, fact["name"])]
