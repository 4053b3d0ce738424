"""Random calls of the pools, and what they should give by fractions or NumPy's float32."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import numpy as np

import dmlax
from support import draw, random_calls

AVERAGE = "quantized_linear_average_pooling"
GLOBAL = "quantized_linear_global_average_pooling"
MAX = "max_pooling"
LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}


@dataclass(frozen=True)
class Call:
    """One call; `x` has its channels next, and the call has them last if `is_last`."""

    operator: str
    x: np.ndarray
    windows: dict[str, tuple[int, ...]]
    parameters: dict[str, Any]
    options: dict[str, Any]
    is_last: bool

    def __call__(self, implementation: str) -> jax.Array:
        """Outputs by dmlax."""
        x, options = self.x, dict(self.options)
        if self.is_last:
            x, options["dimension_numbers"] = np.moveaxis(x, 1, -1), LAST[x.ndim]
        windows = {} if self.operator == GLOBAL else self.windows
        function = getattr(dmlax, self.operator)
        result: jax.Array = function(
            x, **windows, **self.parameters, **options, implementation=implementation
        )
        return result

    def expected(self) -> np.ndarray:
        """One window after another."""
        rows = zip(self.x.shape[2:], *self.windows.values(), strict=True)
        axes = [axis_windows(*row) for row in rows]
        dtype = self.options.get("output_dtype", self.x.dtype)
        result = np.zeros((*self.x.shape[:2], *map(len, axes)), dtype)
        for index in np.ndindex(*result.shape):
            places = [axis[at] for axis, at in zip(axes, index[2:], strict=True)]
            window = [int(self.x[(*index[:2], *at)]) for at in itertools.product(*places)]
            result[index] = self._pool(window, index[1], result.dtype)
        return np.moveaxis(result, 1, -1) if self.is_last else result

    def _pool(self, window: list[int], channel: int, dtype: np.dtype) -> int:
        limits = np.iinfo(dtype)
        if self.operator == MAX:
            return max(window, default=limits.min)
        sx, sy, zx, zy = (
            each.ravel()[channel if each.size > 1 else 0] for each in self.parameters.values()
        )
        zero, differences = int(zy), [x - int(zx) for x in window]
        count = len(window)
        if self.options.get("include_padding"):
            count = int(np.prod(self.windows["window_size"]))
        if count == 0:
            return zero
        if self.options["arithmetic"] == "float32":
            return _average_float32(self.operator, differences, count, sx, sy, zero, limits)
        mean = Fraction(sum(differences), count) * Fraction(float(sx)) / Fraction(float(sy))
        return min(max(round(mean) + zero, limits.min), limits.max)


def _average_float32(
    operator: str, differences: list[int], count: int, sx: Any, sy: Any, zero: int, limits: Any
) -> int:
    """ONNX Runtime's recipes."""
    with np.errstate(all="ignore"):
        if operator == GLOBAL:
            value = np.float32(sum(differences)) * (sx / (sy * np.float32(count)))
            low, high, after = limits.min - zero, limits.max - zero, zero
        else:
            total = np.float32(0)
            for difference in differences:
                total = total + np.float32(difference) * sx
            value = total / np.float32(count) / sy + np.float32(zero)
            low, high, after = limits.min, limits.max, 0
    return int(np.rint(np.clip(value, np.float32(low), np.float32(high)))) + after


def axis_windows(
    size: int, window: int, stride: int, dilation: int, start: int, end: int
) -> list[list[int]]:
    """The pixels of each window along an axis that are inside the image."""
    count = (size + start + end - (window - 1) * dilation - 1) // stride + 1
    places = ([at * stride + k * dilation - start for k in range(window)] for at in range(count))
    return [[place for place in each if 0 <= place < size] for each in places]


def call(seed: int) -> Call:
    """A random call of a few hundred elements."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    dtype, output = rng.choice(["int8", "uint8"], 2)
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 5)), *rng.integers(1, 9, rank).tolist())
    if rng.random() < 0.2:  # rows that vectors hold
        shape = (*shape[:-1], int(rng.integers(60, 150)))
    operator = str(rng.choice([AVERAGE, GLOBAL, MAX]))
    windows = _whole(shape) if operator == GLOBAL else _windows(rng, shape)
    x = draw(seed + 1, dtype, shape)
    is_last = bool(rng.integers(2))
    if operator == MAX:
        return Call(operator, x, windows, {}, {}, is_last)
    options: dict[str, Any] = {"output_dtype": np.dtype(output)}
    options["arithmetic"] = str(rng.choice(["exact", "exact", "float32"]))
    if operator == AVERAGE:
        options["include_padding"] = bool(rng.integers(2))
    sizes = [shape[1] if each else 1 for each in rng.integers(0, 2, 4)]
    scales = _scales(rng, sizes[0], sizes[1])
    zero_points = draw(seed + 2, dtype, sizes[2]), draw(seed + 3, output, sizes[3])
    names = ("input_scale", "output_scale", "input_zero_point", "output_zero_point")
    parameters = dict(zip(names, (*scales, *zero_points), strict=True))
    return Call(operator, x, windows, parameters, options, is_last)


def _whole(shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    ones, zeros = (1,) * len(shape[2:]), (0,) * len(shape[2:])
    return _named([shape[2:], ones, ones, zeros, zeros])


def _named(values: Any) -> dict[str, tuple[int, ...]]:
    names = ("window_size", "strides", "dilations", "start_padding", "end_padding")
    return {name: tuple(map(int, each)) for name, each in zip(names, values, strict=True)}


def _windows(rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return _named(zip(*(next(_fitting(rng, size)) for size in shape[2:]), strict=True))


def _fitting(rng: np.random.Generator, size: int) -> Iterator[tuple[int, ...]]:
    """Window, stride, dilation and padding of an axis."""
    while True:
        window, stride, dilation = (int(rng.integers(1, most)) for most in (6, 4, 4))
        start, end = rng.integers(0, 4, 2).tolist()
        if (window - 1) * dilation + 1 <= size + start + end:
            yield window, stride, dilation, start, end


def _scales(rng: np.random.Generator, *sizes: int) -> list[np.ndarray]:
    """Ordinary ones, powers of two or extreme ones, the two near each other."""
    base = rng.choice([1.0, 1.0, 1.0, 2.0**-140, 2.0**-126, 2.0**110])
    kind = rng.integers(3)
    return [
        np.asarray(
            (2.0 ** rng.integers(-2, 3, size) if kind == 0 else rng.uniform(0.1, 3, size))
            * base
            * rng.choice([1, 1, -1], size),
            np.float32,
        )
        for size in sizes
    ]


mismatches = functools.partial(random_calls.find_mismatches, call)
