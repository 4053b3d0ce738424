"""Resize and Upsample, in ONNX Runtime's float32 arithmetic."""

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Annotated, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from dmlax._core import ieee
from dmlax._core.fixed_point import round_half_away
from dmlax.errors import UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.table import Known, Tensor, operator
from dmlax.onnx.operators.values import expect_memory, integers, is_known, to_device

_MOST_PARTS = 1 << 10  # the largest denominator of a symbolic size's scale
_FIXED_POINT = 1 << 10  # ONNX Runtime's unit of weights of channels-last bytes
_BYTE_BITS = 22  # the bits of ONNX Runtime's byte weights in a resize with antialias
_SIMPLE = "simple"  # the rounding of opset 10


_Number = np.floating | Array


class _Scale(NamedTuple):
    """The float32 numbers of an axis, on the host or on the device."""

    size: _Number
    new: _Number
    scale: _Number
    start: _Number
    end: _Number


class _Axis(NamedTuple):
    """One axis: its sizes, the scale, and the part of the input that an output shows."""

    number: int
    size: int
    new: int
    scale: _Number
    start: float
    end: float

    @property
    def is_static(self) -> bool:
        """True for sizes that are known while a program is traced."""
        return isinstance(self.size, int) and isinstance(self.new, int)

    @property
    def numpy(self) -> ModuleType:
        """NumPy for static sizes, else JAX's."""
        return np if self.is_static else jnp

    def coordinates(self, transformation: str) -> Tensor:
        """The positions of the outputs in the input: on the host for static sizes."""
        transform, numbers = _TRANSFORMATIONS[transformation], self[1:]
        if self.is_static:
            expect_memory(np.float32, 8, self.new)  # the indices and weights of the axis
            x = np.arange(self.new, dtype=np.float32)
            with np.errstate(all="ignore"):
                return transform(np, x, _Scale(*map(np.float32, numbers))).astype(np.float32)
        symbolic = _Scale(*(jnp.asarray(number).astype(np.float32) for number in numbers))
        return transform(_DEVICE, jnp.arange(self.new).astype(np.float32), symbolic)


_DEVICE = SimpleNamespace(  # the functions of NumPy that a transformation calls
    add=ieee.add,
    subtract=ieee.subtract,
    multiply=ieee.multiply,
    divide=ieee.divide,
    maximum=jnp.maximum,
    where=jnp.where,
)
_HALF = np.float32(0.5)
_ONE = np.float32(1)
_Functions = ModuleType | SimpleNamespace


def _half_pixel(f: _Functions, x: Tensor, to: _Scale) -> Tensor:
    position: Tensor = f.subtract(f.divide(f.add(x, _HALF), to.scale), _HALF)
    return position


def _half_pixel_symmetric(f: _Functions, x: Tensor, to: _Scale) -> Tensor:
    margin = _ONE - to.new / (to.scale * to.size)
    x = x.astype(np.float64) if f is np else x
    half = x.dtype.type(0.5)
    shift = f.divide(f.add(x, half), to.scale)
    position: Tensor = f.subtract(f.add(to.size / 2 * margin, shift), half)
    return position


def _crop(f: _Functions, x: Tensor, to: _Scale) -> Tensor:
    start, end, last = to.start, to.end, to.size - 1
    step = f.divide(f.multiply(f.multiply(x, end - start), last), f.maximum(to.new - 1, _ONE))
    middle = _HALF * (start + end) * last
    position: Tensor = f.where(to.new > 1, f.add(f.multiply(start, last), step), middle)
    return position


_CROP = "tf_crop_and_resize"
_TRANSFORMATIONS: dict[str, Callable[[_Functions, Tensor, _Scale], Tensor]] = {
    "align_corners": lambda f, x, to: f.divide(
        f.multiply(x, to.size - 1), f.maximum(to.new - 1, _ONE)
    ),
    "asymmetric": lambda f, x, to: f.divide(x, to.scale),
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": lambda f, x, to: f.where(
        to.new > 1, _half_pixel(f, x, to), np.float32(0)
    ),
    _CROP: _crop,
    "tf_half_pixel_for_nn": lambda f, x, to: f.divide(f.add(x, _HALF), to.scale),
}
_ROUNDINGS: dict[str, Callable[[ModuleType, Tensor, _Number], Tensor]] = {
    "ceil": lambda xp, x, scale: xp.ceil(x),
    "floor": lambda xp, x, scale: xp.floor(x),
    "round_prefer_ceil": lambda xp, x, scale: xp.floor(2 * x) - xp.floor(x),
    "round_prefer_floor": lambda xp, x, scale: xp.ceil(x - _HALF),
    _SIMPLE: lambda xp, x, scale: xp.where(scale < 1, xp.ceil(x), xp.trunc(x)),
}


_Mode = Annotated[str, ("nearest", "linear", "cubic")]


class Method(NamedTuple):
    """The attributes that say how elements are interpolated."""

    mode: _Mode = "nearest"
    coordinate_transformation_mode: Annotated[str, _TRANSFORMATIONS] = "half_pixel"
    nearest_mode: Annotated[str, _ROUNDINGS] = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    antialias: Annotated[int, (0, 1)] = 0

    def resize(self, x: Tensor, axes: Sequence[_Axis]) -> Tensor:
        """Resizes the axes of a tensor."""
        interpolations = {"nearest": self._nearest, "linear": self._linear, "cubic": self._cubic}
        scaled = [axis for axis in axes if self._changes(axis)]
        if not scaled:
            return x
        interpolate = interpolations[self.mode]
        if self.antialias and self.mode != "nearest":  # a crop of the same size is a copy
            scaled = [axis for axis in scaled if not (axis.is_static and axis.scale == 1)]
            interpolate = self._antialiased
        y = interpolate(x, scaled, axes)
        return self._extrapolate(y, scaled) if self.coordinate_transformation_mode == _CROP else y

    def _changes(self, axis: _Axis) -> bool:
        """True for an axis whose elements move, or of which a crop shows a part."""
        is_whole = self.coordinate_transformation_mode != _CROP or (axis.start, axis.end) == (0, 1)
        return not (is_whole and isinstance(axis.scale, np.floating) and axis.scale == 1)

    def _nearest(self, x: Tensor, scaled: Sequence[_Axis], axes: Sequence[_Axis]) -> Tensor:
        for axis in scaled:
            coordinates = axis.coordinates(self.coordinate_transformation_mode)
            rounded = _ROUNDINGS[self.nearest_mode](axis.numpy, coordinates, axis.scale)
            places = axis.numpy.clip(rounded, 0, axis.size - 1).astype(np.int32)
            x = _take(x, places, axis.number)
        return x

    def _linear(self, x: Tensor, scaled: Sequence[_Axis], axes: Sequence[_Axis]) -> Array:
        x = to_device(x)
        is_integer = jnp.issubdtype(x.dtype, jnp.integer)
        chosen = _spatial(axes, scaled) if is_integer else scaled
        is_fixed = x.dtype.itemsize == 1 and [axis.number for axis in chosen] == [1, 2]
        parts: list[Tensor] = [x]
        weights: list[list[Array]] = []
        for axis in chosen:
            places, shares = self._line(axis, axis not in scaled, is_fixed)
            parts = [_take(part, place, axis.number) for part in parts for place in places]
            weights.append([_along(share, axis.number, x.ndim) for share in shares])
        multiply, add = (jnp.multiply, jnp.add) if is_fixed else (ieee.multiply, ieee.add)
        dtype = np.int32 if is_fixed else _float_of(x)
        terms = []
        for place, part in enumerate(parts):
            bits = [place >> i & 1 for i in range(len(weights))]  # the last axis first
            shares = [pair[bit] for pair, bit in zip(weights[::-1], bits, strict=True)]
            terms.append(multiply(functools.reduce(multiply, shares), part.astype(dtype)))
        total = functools.reduce(add, terms)
        if is_fixed:
            return lax.div(total, np.int32(_FIXED_POINT**2)).astype(x.dtype)
        return (jnp.trunc(total) if is_integer else total).astype(x.dtype)

    def _line(
        self, axis: _Axis, is_copied: bool, is_fixed: bool
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Both elements between which an output lies, and their weights."""
        xp, last = axis.numpy, axis.size - 1
        if is_copied:
            position: Tensor = np.arange(axis.new, dtype=np.float32)
        else:
            position = axis.coordinates(self.coordinate_transformation_mode)
        position = xp.clip(position, 0, np.float32(last) if axis.is_static else last)
        first = xp.minimum(position.astype(np.int32), last)
        second = xp.minimum(first + 1, last)
        if is_fixed:
            position = (position * _FIXED_POINT).astype(np.int32)
            distances = [abs(position - place * _FIXED_POINT) for place in (first, second)]
            half: np.number = np.int32(_FIXED_POINT // 2)
        else:
            distances = [abs(position - place.astype(np.float32)) for place in (first, second)]
            half = _HALF
        weights = [xp.where(first == second, half, share) for share in distances[::-1]]
        return (first, second), weights

    def _cubic(self, x: Tensor, scaled: Sequence[_Axis], axes: Sequence[_Axis]) -> Array:
        x = to_device(x)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise UnsupportedError(f"mode is 'cubic' and its input is {x.dtype}, expected a float")
        dtype = _float_of(x)
        y = x.astype(dtype)
        for axis in reversed(scaled):
            xp = axis.numpy
            position = axis.coordinates(self.coordinate_transformation_mode)
            start = xp.floor(position)
            weights = cubic_weights(position - start, np.float32(self.cubic_coeff_a))
            places = [start.astype(np.int32) + offset for offset in (-1, 0, 1, 2)]
            if self.exclude_outside:
                inside = [(place >= 0) & (place < axis.size) for place in places]
                weights = [xp.where(*pair, 0) for pair in zip(inside, weights, strict=True)]
                total = functools.reduce(lambda a, b: a + b, weights)
                weights = [weight / total for weight in weights]
            terms = [
                ieee.multiply(
                    _take(y, xp.clip(place, 0, axis.size - 1), axis.number),
                    _along(weight, axis.number, x.ndim).astype(dtype),
                )
                for place, weight in zip(places, weights, strict=True)
            ]
            y = functools.reduce(ieee.add, terms)
        return y.astype(x.dtype)

    def _antialiased(self, x: Tensor, scaled: Sequence[_Axis], axes: Sequence[_Axis]) -> Array:
        """Interpolates along one axis after the other; bytes are rounded after each."""
        if jnp.issubdtype(x.dtype, jnp.integer) and x.dtype.itemsize > 1:
            raise UnsupportedError(f"antialias is 1 and its input is {x.dtype}, expected 8 bits")
        if not all(axis.is_static for axis in scaled):
            text = "antialias is 1, and a size is symbolic"
            raise UnsupportedError(f"{text}: give input_shapes static sizes")
        return functools.reduce(self._smooth, reversed(scaled), to_device(x))

    def _smooth(self, x: Array, axis: _Axis) -> Array:
        """Adds the weighted elements of the window of every output along an axis."""
        starts, shares = self._smooth_windows(axis)
        is_byte = x.dtype.itemsize == 1
        if is_byte:
            shares = round_half_away(shares * 2.0**_BYTE_BITS)
        weights = jnp.asarray(shares.astype(np.int32 if is_byte else np.float32))
        multiply, add = (jnp.multiply, jnp.add) if is_byte else (ieee.multiply, ieee.add)
        wide = x.astype(weights.dtype)

        def add_tap(tap: Array, total: Array) -> Array:
            rows = jnp.take(wide, starts + tap, axis=axis.number, mode="clip")
            return add(total, multiply(rows, _along(weights[tap], axis.number, x.ndim)))

        shape = (*x.shape[: axis.number], axis.new, *x.shape[axis.number + 1 :])
        start = jnp.full(shape, 1 << _BYTE_BITS - 1 if is_byte else 0, weights.dtype)
        total: Array = lax.fori_loop(0, len(shares), add_tap, start)
        # ONNX Runtime's bytes are not below 0, those of int8 too.
        return (jnp.clip(total >> _BYTE_BITS, 0, 255) if is_byte else total).astype(x.dtype)

    def _smooth_windows(self, axis: _Axis) -> tuple[np.ndarray, np.ndarray]:
        """Where the window of every output begins, and its weights `[tap, output]`."""
        wide, radius = _ONE / np.float32(axis.scale), 1 if self.mode == "linear" else 2
        support = np.float32(radius) * max(wide, _ONE)
        center = _HALF + np.asarray(axis.coordinates(self.coordinate_transformation_mode))
        ends = [np.floor(center + side + _HALF).astype(int) for side in (-support, support)]
        inner = np.maximum(ends[0], 0), np.minimum(ends[1], axis.size)
        first, last = inner if self.exclude_outside else ends
        taps = np.arange((last - first).max())[:, None]
        distance = ((taps + first).astype(np.float32) - center + _HALF) * (_ONE / max(wide, _ONE))
        weights = np.where(taps < last - first, self._smooth_weight(abs(distance)), np.float32(0))
        total = np.add.reduce(weights, 0, dtype=np.float32)
        is_cut = ((first < inner[0]) | (last > inner[1])) & (inner[0] < inner[1])
        for i in np.flatnonzero(is_cut):
            column, skipped, count = weights[:, i], inner[0][i] - first[i], inner[1][i] - first[i]
            for tap in range(skipped):
                column[skipped] += column[tap]
            for tap in range(count, last[i] - first[i]):
                column[count - 1] += column[tap]
            column[: count - skipped] = column[skipped:count].copy()
            column[count - skipped :] = 0
        return inner[0].astype(np.int32), weights * (_ONE / np.where(total == 0, _ONE, total))

    def _smooth_weight(self, distance: np.ndarray) -> np.ndarray:
        """The weight of an element at a distance."""
        if self.mode == "linear":
            return np.maximum(_ONE - distance, 0)
        a = np.float32(self.cubic_coeff_a)
        near = ((a + 2) * distance - (a + 3)) * distance * distance + _ONE
        far = (((distance - 5) * distance + 8) * distance - 4) * a
        return np.where(distance < 1, near, np.where(distance < 2, far, np.float32(0)))

    def _extrapolate(self, y: Tensor, axes: Sequence[_Axis]) -> Array:
        """Fills the elements that lie outside of the input."""
        y = to_device(y)
        for axis in axes:
            place = axis.coordinates(self.coordinate_transformation_mode)
            outside = (place < 0) | (place > axis.size - 1)
            fill = jnp.asarray(self.extrapolation_value).astype(y.dtype)
            y = jnp.where(_along(outside, axis.number, y.ndim), fill, y)
        return y


def _take(x: Tensor, places: Tensor, axis: int) -> Tensor:
    """Takes elements along an axis; whole repetitions need no gather."""
    if not is_known(places):
        return jnp.take(to_device(x), places, axis=axis, mode="clip")
    size = x.shape[axis]
    count = len(places) // size if isinstance(size, int) and size else 0
    if count and np.array_equal(places, np.repeat(np.arange(size), count)):
        return jnp.repeat(to_device(x), count, axis=axis)
    return jnp.take(to_device(x), places, axis=axis, mode="clip")


def _float_of(x: Array) -> DTypeLike:
    """The dtype in which a tensor is interpolated."""
    return np.float64 if x.dtype == np.float64 else np.float32


def _along(values: Tensor, axis: int, rank: int) -> Array:
    """A vector along one axis of a tensor, on the device."""
    return jnp.asarray(values).reshape((-1,) + (1,) * (rank - 1 - axis))[(None,) * axis]


def _spatial(axes: Sequence[_Axis], scaled: Sequence[_Axis]) -> Sequence[_Axis]:
    """The axes along which ONNX Runtime interpolates, some with the weights 1 and 0."""
    rank = len(axes)
    first = {4: 2, 5: 2}.get(rank, 0)
    if rank == 4 and axes[1] in scaled:  # channels are last
        return axes[1:3]
    return axes[first:] if all(axis.number >= first for axis in scaled) else scaled


def cubic_weights(s: Tensor, a: np.float32) -> list[Tensor]:
    """The weights of four neighbours, in ONNX Runtime's order of operations."""
    far, near = s + _ONE, _ONE - s
    farther = np.float32(2) - s
    return [
        ((a * far - 5 * a) * far + 8 * a) * far - 4 * a,
        ((a + 2) * s - (a + 3)) * s * s + _ONE,
        ((a + 2) * near - (a + 3)) * near * near + _ONE,
        ((a * farther - 5 * a) * farther + 8 * a) * farther - 4 * a,
    ]


def _scaled_size(size: int, scale: np.float32) -> int:
    """The output's size; a symbolic size needs a scale that is a fraction of small integers."""
    if isinstance(size, int):
        return int(scale * np.float32(size))
    fraction = Fraction(float(scale))
    if fraction.denominator > _MOST_PARTS:
        text = f"its scale of the size {size} is {scale}, no fraction of small integers"
        raise UnsupportedError(f"{text}: give input_shapes static sizes")
    return size * fraction.numerator // fraction.denominator


def _axes_of(
    x: Tensor,
    roi: np.ndarray | None = None,
    scales: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
    chosen: Sequence[int] | None = None,
    policy: str = "stretch",
) -> list[_Axis]:
    """The axes of a tensor; those that the node does not name keep their sizes."""
    rank = len(x.shape)
    numbers = list(range(rank)) if chosen is None else [axis % rank for axis in chosen]
    count = sizes.size if sizes is not None else 0 if scales is None else scales.size
    if count != len(numbers):
        raise ModelError(f"it has {count} scales or sizes, expected {len(numbers)}, one per axis")
    bounds = [0.0] * count + [1.0] * count if roi is None else roi.ravel().tolist()
    if len(bounds) != 2 * count:
        raise ModelError(f"its roi has {len(bounds)} numbers, expected {2 * count}")
    axes = [_Axis(i, size, size, _ONE, 0.0, 1.0) for i, size in enumerate(x.shape)]
    factors: list[_Number]
    if sizes is not None:
        news = integers(sizes)
        factors = [_factor(x.shape[i], new) for i, new in zip(numbers, news, strict=True)]
        if policy != "stretch":
            common = _of_policy(policy, factors)
            factors = [common] * count
            news = [int(np.floor(common * x.shape[i] + _HALF)) for i in numbers]
    else:
        assert scales is not None
        scaled = [np.float32(scale) for scale in scales.ravel()]
        if not all(0 < scale < math.inf for scale in scaled):
            raise ModelError(f"its scales are {scales.tolist()}, expected positive numbers")
        news = [_scaled_size(x.shape[i], scale) for i, scale in zip(numbers, scaled, strict=True)]
        factors = [*scaled]
    parts = zip(numbers, news, factors, bounds[:count], bounds[count:], strict=True)
    for i, new, factor, start, end in parts:
        axes[i] = _Axis(i, x.shape[i], new, factor, start, end)
    return axes


def _factor(size: int, new: int) -> _Number:
    """The scale of one size to another: on the device if one of them is symbolic."""
    if isinstance(size, int) and isinstance(new, int):
        return np.float32(new) / np.float32(size) if size else _ONE
    if new is size:
        return _ONE
    dividend, divisor = (jnp.asarray(number).astype(np.float32) for number in (new, size))
    factor: Array = ieee.divide(dividend, divisor)
    return factor


def _of_policy(policy: str, factors: Sequence[_Number]) -> np.float32:
    """The one scale that keeps the aspect ratio."""
    if not all(isinstance(factor, np.floating) for factor in factors):
        text = f"keep_aspect_ratio_policy is {policy!r}, and a size is symbolic"
        raise UnsupportedError(f"{text}: give input_shapes static sizes")
    return np.float32(_POLICIES[policy](factors))


_POLICIES = {"not_larger": min, "not_smaller": max}


@operator("Upsample", 9, 10)
@operator("Resize", 10)
@operator("Upsample", 7, attributes={"scales": tuple[float, ...]})
def resize_by_scales(x: Tensor, scales: Known, *, mode: _Mode = "nearest") -> Tensor:
    """Resizes a tensor by scales."""
    return Method(mode, "asymmetric", _SIMPLE).resize(x, _axes_of(x, scales=scales))


@operator("Resize", 11, 13, 18, 19)
def resize(
    x: Tensor,
    roi: Known | None = None,
    scales: Known | None = None,
    sizes: Known | None = None,
    *,
    axes: tuple[int, ...] | None = None,
    keep_aspect_ratio_policy: Annotated[str, ("stretch", *_POLICIES)] = "stretch",
    method: Method,
) -> Tensor:
    """Resizes a tensor by scales or to sizes."""
    sizes = None if sizes is None or sizes.size == 0 else sizes
    roi = roi if method.coordinate_transformation_mode == _CROP else None
    chosen = _axes_of(x, roi, scales, sizes, axes or None, keep_aspect_ratio_policy)
    return method.resize(x, chosen)
