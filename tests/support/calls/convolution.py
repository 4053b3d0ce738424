"""Random convolutions for the kernels, and what they should give by NumPy's integers."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import dmlax
from support import draw, random_calls, requantized, sums_of_products
from support.cases.convolution import LAYOUTS, NARROW, laid_out

BYTES = ("int8", "uint8")
_NARROW_LAST = ("NWC", "WIO", "NWC")


@dataclass(frozen=True)
class Call:
    """One call's operands in NCHW and OIHW, and its options."""

    x: np.ndarray
    w: np.ndarray
    parameters: dict[str, Any]  # dmlax's keywords, and "bias"
    windows: dict[str, tuple[int, ...]]
    groups: int
    layout: tuple[str, str, str]
    output_dtype: str  # int32: convolution_integer
    packing: str  # "": the filter is not prepared

    def __call__(self, implementation: str) -> jax.Array:
        """Outputs by dmlax, in the call's layout."""
        x, w, options = self.arguments()
        if self.output_dtype == "int32":
            return dmlax.convolution_integer(x, w, **options, implementation=implementation)
        bias = options.pop("bias", None)
        return dmlax.quantized_linear_convolution(
            x, w, bias, **options, output_dtype=self.output_dtype, implementation=implementation
        )

    def arguments(self) -> tuple[np.ndarray, Any, dict[str, Any]]:
        """The input and the filter in the call's layout, and all that is by keyword."""
        rank = len(self.layout[0])
        spatial = {4: "NCHW", 3: "NCW"}[rank], {4: "OIHW", 3: "OIW"}[rank]
        x, w = self.x, self.w
        if rank == 3:
            x, w = x[:, :, 0], w[:, :, 0]
        x, w = laid_out(x, spatial[0], self.layout[0]), laid_out(w, spatial[1], self.layout[1])
        layout = {"group_count": self.groups, "dimension_numbers": self.layout}
        options = {
            **self.parameters,
            **{k: v[4 - rank :] for k, v in self.windows.items()},
            **layout,
        }
        if self.packing:
            zero = options.pop("filter_zero_point", None)
            prepared = dmlax.prepare_filter(
                w, filter_zero_point=zero, **layout, packing=self.packing
            )
            return x, prepared, options
        return x, w, options

    def expected(self) -> np.ndarray:
        """Outputs by NumPy's integers and, where quantized, rational numbers."""
        zero = (
            self.parameters.get("input_zero_point", 0),
            self.parameters.get("filter_zero_point", 0),
        )
        sums = sums_of_products(self.x, self.w, *map(_integers, zero), self.groups, **self.windows)
        letters = {4: "NCHW", 3: "NCW"}[len(self.layout[0])]
        if self.output_dtype != "int32":
            sums = self._quantized(sums)
        if len(letters) == 3:
            sums = sums[:, :, 0]
        return laid_out(sums, letters, self.layout[2])

    def _quantized(self, sums: np.ndarray) -> np.ndarray:
        along = (-1, 1, 1)
        given = self.parameters
        if "bias" in given:
            with np.errstate(over="ignore"):
                sums = sums + given["bias"].reshape(along)
        scales = given["input_scale"], given["filter_scale"], given["output_scale"]
        zero = given.get("output_zero_point", np.zeros((), self.output_dtype))
        if given.get("arithmetic") == "float32":
            limits = np.iinfo(self.output_dtype)
            low, high = limits.min - int(zero), limits.max - int(zero)
            with np.errstate(over="ignore", invalid="ignore"):
                multiplier = (scales[0] * scales[1]) / scales[2]
                product = sums.astype(np.float32) * np.reshape(multiplier, along)
            product = np.where(np.isnan(product), low, product)  # 0 times infinity
            return (np.rint(np.clip(product, low, high)) + int(zero)).astype(self.output_dtype)
        per_channel = np.reshape(scales[1], along)
        return requantized(sums, (scales[0], per_channel, scales[2]), zero, self.output_dtype)


def _integers(x: Any) -> Any:
    return np.asarray(x).astype(np.int64)


def call(seed: int) -> Call:
    """A random call; every tenth is wide or deep enough for whole vectors and tiles.

    Every fiftieth is so for a GPU's tiles; one in 25 has few channels under a stride, as a model's
    first layer, and one has whole steps of channels, which are last, under taps: kernels copy and
    pad its images.
    """
    rng = np.random.default_rng(seed)
    rank = 4 if rng.random() < 0.85 else 3
    large = seed % 10 == 0
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    channels = int(rng.choice([1, 2, 3, 4, 5, 8, 17, *([64, 70] if large else [])]))
    rows = int(rng.choice([1, 2, 3, 5, 8, 13, *([32, 37, 50] if large else [])]))
    if seed % 50 == 0:
        groups, channels = 1 + seed // 50 % 2, 48 + seed // 50 % 5 * 24
        rows = (64, 128, 129, 192)[seed // 50 % 4]
    elif rng.random() < 0.2:  # depthwise
        groups, channels, rows = int(rng.choice([3, 8, 33, 40])), 1, int(rng.choice([1, 1, 2, 3]))
    pointwise = rng.random() < 0.2
    kernel = (1, 1) if pointwise else _pair(rng, 1, 4)
    strides = (1, 1) if rng.random() < 0.5 else _pair(rng, 1, 4)
    dilations = (1, 1) if rng.random() < 0.6 else _pair(rng, 1, 4)
    few = seed % 25 == 12
    if few:
        groups, channels, kernel = 1, (1, 3, 4, 8)[seed // 25 % 4], _pair(rng, 2, 8)
        strides = tuple(rng.choice([2, 2, 2, 4, 6, 8], 2).tolist())
        dilations = (1, 1) if seed % 2 else dilations
    padded = seed % 25 == 18
    if padded:
        groups, channels, kernel, strides = 1 + seed // 25 % 2, 64, _pair(rng, 2, 4), (1, 1)
        rank = 4
    start, end = ((0, 0), (0, 0)) if rng.random() < 0.4 else (_pair(rng, 0, 4), _pair(rng, 0, 4))
    if rank == 3:
        kernel, strides, dilations = ((1, pair[1]) for pair in (kernel, strides, dilations))
        start, end = (0, start[1]), (0, end[1])
    room = int(rng.choice([1, 4, 9, *([17, 30] if large or few else [])])) + 20 * few
    image = [
        max((k - 1) * d + 1 - a - b, 1) + int(rng.integers(0, room + 1))
        for k, d, a, b in zip(kernel, dilations, start, end, strict=True)
    ]
    if rank == 3:
        image[0] = 1
    x_dtype, w_dtype = rng.choice(BYTES, 2)
    layouts = [*LAYOUTS.values()] if rank == 4 else [NARROW, _NARROW_LAST]
    output = str(rng.choice(["int32", *BYTES]))
    shape = (groups * rows, channels, *kernel)
    x_shape = (int(rng.choice([0, 1, 1, 2, 3], p=[0.03, 0.47, 0.2, 0.2, 0.1])), groups * channels)
    x, w = draw(seed + 1, x_dtype, (*x_shape, *image)), draw(seed + 2, w_dtype, shape)
    if rng.random() < 0.1:
        x, w = np.full_like(x, np.iinfo(x_dtype).max), np.full_like(w, np.iinfo(w_dtype).min)
    return Call(
        *(x, w),
        _parameters(rng, seed, x_dtype, w_dtype, output, shape),
        {"strides": strides, "dilations": dilations, "start_padding": start, "end_padding": end},
        groups,
        LAYOUTS["NHWC"] if padded else layouts[int(rng.integers(len(layouts)))],
        output,
        random_calls.PACKINGS[int(rng.random() * 4)],
    )


def _pair(rng: np.random.Generator, low: int, high: int) -> tuple[int, ...]:
    return tuple(rng.integers(low, high, 2).tolist())


def _parameters(
    rng: np.random.Generator, seed: int, x: str, w: str, output: str, shape: tuple[int, ...]
) -> dict[str, Any]:
    """Some zero points; scales that spread the outputs, or ties, or wild ones."""
    outputs, depth = shape[0], int(np.prod(shape[1:]))
    found: dict[str, Any] = {
        "input_zero_point": draw(seed + 3, x),
        "filter_zero_point": draw(seed + 4, w, [outputs, ()][int(rng.integers(2))]),
    }
    if output != "int32":
        found["output_zero_point"] = draw(seed + 5, output)
        found["bias"] = draw(seed + 6, np.int32, outputs) >> int(rng.integers(0, 24))
    found = {name: value for name, value in found.items() if rng.random() < 0.7}
    if output == "int32":
        return found
    spread = np.float32(0.01 * 74 * 74 * depth**0.5 / 60)
    kind = rng.random()
    scales = np.float32(0.01), rng.uniform(0.5, 1.5, outputs).astype(np.float32), spread
    if kind < 0.2:  # many exact ties
        scales = np.float32(0.5), np.float32(2.0) ** rng.integers(-12, 2, outputs), np.float32(-1)
    elif kind < 0.3:
        powers = rng.integers(-149, 120, 3)
        scales = tuple(np.ldexp(np.float32(1.5), p).astype(np.float32) for p in powers)
    if rng.random() < 0.3:
        scales = (scales[0], np.asarray(scales[1]).reshape(-1)[0], scales[2])
    names = ("input_scale", "filter_scale", "output_scale")
    found |= dict(zip(names, map(np.float32, scales), strict=True))
    return found | ({"arithmetic": "float32"} if rng.random() < 0.25 else {})


mismatches = functools.partial(random_calls.find_mismatches, call)
