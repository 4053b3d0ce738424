"""Pooling of floats; max pooling of bytes, too."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax
from dmlax._core import ieee, sums
from dmlax._core.arguments import is_static
from dmlax._core.windows import dilated_size, output_size, tap_slices, taps
from dmlax._fused.rows.call import AVERAGE
from dmlax.onnx.operators.table import Tensor, operator
from dmlax.onnx.operators.values import device_dtype, expect_memory
from dmlax.onnx.operators.windows import PoolWindows

_FORMS = (1, 8, 10, 11, 12, 22)
_MOST_TAPS = 64  # windows of more are left to XLA
_MOST_COLUMNS = 2  # between windows whose rows ONNX Runtime adds first
_WINDOWS = {"window_size": 1, "strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0}
_Images = TypeVar("_Images")


@operator("MaxPool", *_FORMS)
def max_pool(
    x: Array,
    *,
    windows: PoolWindows,
    channels_last: int = 0,
    storage_order: int = 0,
    output_count: int,
) -> Array | tuple[Array, Array]:
    """Takes the largest element of every window, and its place in the tensor."""
    options = windows.options(x, bool(channels_last))
    if output_count != 1:
        return _max_pool_with_places(x, options, storage_order)
    if x.dtype.name in ("int8", "uint8"):
        return dmlax.max_pooling(x, **options)
    if channels_last and is_static(x.shape) and math.prod(windows.kernel_shape) <= _MOST_TAPS:
        return _largest_of_shifted(x, options)
    first = jnp.moveaxis(x, -1, 1) if channels_last else x
    reduced = _reduce_windows(first, options, lax.max, _lowest(x))
    return jnp.moveaxis(reduced, 1, -1) if channels_last else reduced


def _largest_of_shifted(x: Array, options: Mapping[str, Any]) -> Array:
    """The largest element of every window, channels last: one loop of shifted images."""
    size = tuple(options["window_size"])
    ones = (1,) * len(size)
    strides, dilations = (options[name] or ones for name in ("strides", "dilations"))
    pads = [
        (start, end, 0)
        for start, end in zip(options["start_padding"], options["end_padding"], strict=True)
    ]
    padded = lax.pad(x, np.asarray(_lowest(x), x.dtype), [(0, 0, 0), *pads, (0, 0, 0)])
    steps = zip(padded.shape[1:-1], size, strides, dilations, strict=True)
    sizes = tuple(max(0, output_size(n, dilated_size(k, d), s)) for n, k, s, d in steps)
    if 0 in sizes:
        return jnp.zeros((x.shape[0], *sizes, x.shape[-1]), x.dtype)
    terms = [padded[:, *tap_slices(tap, sizes, strides, dilations)] for tap in taps(size)]
    return functools.reduce(jnp.maximum, terms)


def _lowest(x: Array) -> float:
    return -math.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)


def _max_pool_with_places(
    x: Array, options: Mapping[str, Any], storage_order: int
) -> tuple[Array, Array]:
    """The largest element of every window, and its index in the flat tensor."""
    lowest, none = _lowest(x), np.iinfo(np.int32).max
    indices = jnp.arange(x.size, dtype=np.int32).reshape(x.shape)

    def larger(a: Sequence[Array], b: Sequence[Array]) -> tuple[Array, ...]:
        is_nan, is_second_nan = a[0] != a[0], b[0] != b[0]  # the first NaN wins
        is_equal = (is_nan & is_second_nan) | (b[0] == a[0])
        is_larger = (b[0] > a[0]) | (is_second_nan & ~is_nan)
        is_second = is_larger | (is_equal & (b[1] < a[1]))
        pairs = zip(a, b, strict=True)
        return tuple(jnp.where(is_second, second, first) for first, second in pairs)

    fixed = lax.stop_gradient(x)  # gradients go through the elements that are taken
    _, places = _reduce_windows((fixed, indices), options, larger, (lowest, none))
    if 0 in places.shape:
        return jnp.zeros(places.shape, x.dtype), places.astype(device_dtype(np.int64))
    values = jnp.take(x.ravel(), places, mode="fill", fill_value=lowest)
    if storage_order:  # columns before rows
        order = (0, 1, *range(2, x.ndim)[::-1])
        columns = indices.reshape([x.shape[axis] for axis in order]).transpose(np.argsort(order))
        places = jnp.where(places == none, none, jnp.take(columns.ravel(), places, mode="clip"))
    return values, jnp.where(places == none, -1, places).astype(device_dtype(np.int64))


def _lp_pool(x: Array, p: float, total: Callable[[Array], Array]) -> Array:
    """The root of sums of powers."""
    wide = sums.wide(x)
    if p == 1:
        return sums.narrow(total(jnp.abs(wide)), x.dtype)
    if p == 2:
        return sums.narrow(sums.root_of_squares(wide, total), x.dtype)
    return sums.narrow(total(jnp.abs(wide) ** p) ** (1 / p), x.dtype)


@operator("LpPool", 1, 2, 11, 18, 22)
def lp_pool(x: Array, *, windows: PoolWindows, p: float = 2) -> Array:
    """The p-norm of every window."""
    options = windows.options(x)
    return _lp_pool(x, p, lambda y: _add_windows(y, options))


@operator("GlobalLpPool", 1, 2, 22)
def global_lp_pool(x: Array, *, p: float = 2) -> Array:
    """The p-norm of every channel."""
    axes = tuple(range(2, x.ndim))
    return _lp_pool(x, p, lambda y: sums.total(y, axes, sums.IN_TURN))


@operator("AveragePool", 19, 22)
def average_pool(x: Array, *, windows: PoolWindows, count_include_pad: int = 0) -> Array:
    """Averages windows of floats, whose elements it adds in turn."""
    return _average(x, windows, count_include_pad, _add_windows)


@operator("AveragePool", 1, 7, 10, 11)
def average_pool_by_rows(x: Array, *, windows: PoolWindows, count_include_pad: int = 0) -> Array:
    """Averages windows of floats; ONNX Runtime adds in other orders up to opset 18."""
    return _average(x, windows, count_include_pad, _add_rows_first)


def _average(
    x: Array,
    windows: PoolWindows,
    count_include_pad: int,
    add: Callable[[Array, Mapping[str, Any]], Array],
) -> Array:
    """Adds the elements of windows, and divides by the number of those that count."""
    options = windows.options(x)
    total, kernel_shape = add(sums.wide(x), options), windows.kernel_shape
    margins = ((0,) * len(kernel_shape),) * 2
    if count_include_pad:  # ceil_mode's part of the padding does not count
        margins = windows.padding(list(x.shape[2:]))
    divisor: Tensor = np.ones((), total.dtype)
    for axis, kernel in enumerate(kernel_shape):
        size, count = x.shape[2 + axis], total.shape[2 + axis]
        stride, step = (
            steps[axis] if steps else 1 for steps in (windows.strides, windows.dilations)
        )
        xp: ModuleType = np if isinstance(size, int) else jnp
        expect_memory(np.int64, 8, count)
        start = xp.arange(count) * stride - options["start_padding"][axis]
        first = xp.maximum(-((start + margins[0][axis]) // step), 0)
        last = xp.minimum((size + margins[1][axis] - 1 - start) // step, kernel - 1)
        divisor = divisor[..., None] * xp.maximum(last - first + 1, 1).astype(total.dtype)
    divisor = jnp.broadcast_to(jnp.asarray(divisor), total.shape)
    return sums.narrow(ieee.divide(total, divisor), x.dtype)


def _reduce_windows(
    x: _Images,
    options: Mapping[str, Any],
    way: Callable[..., Any],
    start: float | tuple[float, ...],
) -> _Images:
    """Reduces windows of one or several images, channels first."""
    ones = (1,) * len(options["window_size"])
    pads = [*zip(options["start_padding"], options["end_padding"], strict=True)]
    reduced: _Images = lax.reduce_window(
        x,
        jax.tree.map(lambda image, value: np.asarray(value, image.dtype), x, start),
        way,
        (1, 1, *options["window_size"]),
        (1, 1, *(options["strides"] or ones)),
        [(0, 0), (0, 0), *pads],
        window_dilation=(1, 1, *(options["dilations"] or ones)),
    )
    return reduced


def _add_rows_first(x: Array, options: Mapping[str, Any]) -> Array:
    """Adds the elements of windows in the orders of ONNX Runtime up to opset 18.

    It adds a whole image as `GlobalAveragePool` does. Otherwise it adds rows before columns if a
    window has several axes and moves by one or two columns.
    """
    size, strides = tuple(options["window_size"]), options["strides"]
    is_dense = all(step == 1 for step in options["dilations"] or ())
    is_padded = any((*options["start_padding"], *options["end_padding"]))
    if is_dense and not is_padded and size == x.shape[2:]:
        total: Array = sums.total(x, range(2, x.ndim), sums.IN_ONE_PACKET)
        return total
    if len(size) == 1 or not is_dense or (strides and strides[-1] > _MOST_COLUMNS):
        return _add_windows(x, options)
    for is_of_columns in (False, True):
        part = {
            name: tuple(
                value if (axis == len(size) - 1) == is_of_columns else default
                for axis, value in enumerate(options[name] or (default,) * len(size))
            )
            for name, default in _WINDOWS.items()
        }
        x = _add_windows(x, part)
    return x


def _add_windows(x: Array, options: Mapping[str, Any]) -> Array:
    """Adds the elements of windows, one row after another."""
    size = tuple(options["window_size"])
    strides, dilations = (options[name] or (1,) * len(size) for name in ("strides", "dilations"))
    output = jax.eval_shape(lambda x: _reduce_windows(x, options, lax.add, 0.0), x).shape
    if any(isinstance(count, int) and count == 0 for count in output):
        return jnp.zeros(output, x.dtype)
    pads = zip(options["start_padding"], options["end_padding"], strict=True)
    zero = np.zeros((), x.dtype)
    padded = lax.pad(ieee.guard(x), zero, [(0, 0, 0)] * 2 + [(*pad, 0) for pad in pads])
    spans = [(n - 1) * step + 1 for n, step in zip(output[2:], strides, strict=True)]

    def term(padded: Array, i: Any) -> Array:
        places = (np if isinstance(i, int) else jnp).unravel_index(i, size)
        starts = [place * step for place, step in zip(places, dilations, strict=True)]
        window = lax.dynamic_slice(padded, [0, 0, *starts], [*x.shape[:2], *spans])
        return window[(..., *(slice(None, None, step) for step in strides))]

    return sums.of_terms(padded, term, math.prod(size))


@operator("GlobalAveragePool", 1, 22)
def global_average_pool(x: Array, *, channels_last: int = 0) -> Array:
    """Averages every channel of floats, in ONNX Runtime's order of sums."""
    if channels_last:
        pixels = x.reshape(x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1])
        averages = AVERAGE.call(*AVERAGE.plan(pixels))
        return averages.reshape(x.shape[0], *(1,) * (x.ndim - 2), x.shape[-1])
    mean: Array = sums.mean(x, range(2, x.ndim), sums.IN_ONE_PACKET)
    return mean


@operator("GlobalMaxPool", 1, 22)
def global_max_pool(x: Array) -> Array:
    """Takes the largest element of every channel."""
    return x.max(tuple(range(2, x.ndim)), keepdims=True)
