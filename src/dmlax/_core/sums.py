"""Sums of floats in orders that the summed length alone decides.

XLA chooses another order of a reduction for each shape, program and platform. Here every addition
is an element-wise operation of slices, which no compiler reorders. Floats of 16 bits are summed in
float32, and their sum is rounded once. A sum of nothing is 0, and a sum that is zero is positive.
NumPy sums NumPy's arrays, in the same order.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import ieee
from dmlax._core.arguments import is_static

_UNROLLED = 32  # terms of an iteration
_LANES = 16  # the lanes of the kernel of rows, `_fused/rows/cpu/rows_kernels.cc`
_SUMS = 4  # the kernel of rows adds this many sums in parallel
_PACKET = 16  # bytes of the vectors in which ONNX Runtime sums

Floats = Any  # an Array or np.ndarray


class Order(NamedTuple):
    """An order in which an axis is reduced.

    Attributes:
      reduce: reduces an axis, which it keeps with size 1; gives None for nothing.
      of_nothing: the result for no terms.
    """

    reduce: Callable[[Any, int], Any]
    of_nothing: float = 0.0


def fold(
    term: Callable[[Any], Any],
    start: int,
    stop: int,
    total: Any = None,
    combine: Callable[[Any, Any], Any] = operator.add,
    on_host: bool = False,
) -> Any:
    """Combines a total with the terms of indices from `start` to `stop`, one after another.

    Without a total it begins with the first term. Terms of NumPy are `on_host`.
    """

    def some(count: int, first: Any, turn: Any, value: Any) -> Any:
        for i in range(count):
            value = combine(value, term(first + count * turn + i))
        return value

    if not is_static((start, stop)):
        return lax.fori_loop(start, stop, functools.partial(some, 1, 0), total)
    if total is None:
        total, start = term(start), start + 1
    turns = 0 if on_host else (stop - start) // _UNROLLED
    if turns > 1:
        total = lax.fori_loop(0, turns, functools.partial(some, _UNROLLED, start), total)
        start += turns * _UNROLLED
    return some(stop - start, start, 0, total)


def _slices(x: Any, axis: int, width: int) -> Callable[[Any], Any]:
    """Gives the i-th slice of a width along an axis."""

    def slice_of(i: Any) -> Any:
        if isinstance(x, np.ndarray):
            return x[(slice(None),) * axis + (slice(width * i, width * (i + 1)),)]
        if isinstance(i, int):
            return lax.slice_in_dim(x, width * i, width * (i + 1), axis=axis)
        return lax.dynamic_slice_in_dim(x, width * i, width, axis)

    return slice_of


def _fold_slices(
    x: Any,
    axis: int,
    width: int,
    start: int,
    stop: int,
    total: Any,
    combine: Callable[[Any, Any], Any] = operator.add,
) -> Any:
    """Combines a total with slices of a width; None stands for a total of nothing."""
    is_known = is_static((start, stop))
    if is_known and start >= stop:
        return total
    if not is_known:  # a slice lies in any symbolic size, and a total has to exist
        x = _pad(x, axis, width)
        if total is None:
            total = jnp.full_like(_slices(x, axis, width)(0), combine is operator.mul)
    on_host = isinstance(x, np.ndarray)
    return fold(_slices(x, axis, width), start, stop, total, combine, on_host)


def _pad(x: Any, axis: int, count: int) -> Any:
    """Appends zeros."""
    widths = [(0, count if i == axis else 0) for i in range(x.ndim)]
    return (np if isinstance(x, np.ndarray) else jnp).pad(x, widths)


def _halve(x: Any, axis: int, width: int) -> Any:
    """Adds halves until a slice of `width` is left."""
    while x is not None and x.shape[axis] > width:
        halves = _slices(x, axis, x.shape[axis] // 2)
        x = halves(0) + halves(1)
    return x


def _in_turn(x: Any, axis: int) -> Any:
    """One after another."""
    return _fold_slices(x, axis, 1, 0, x.shape[axis], None)


def _product(x: Any, axis: int) -> Any:
    """The product, one factor after another."""
    return _fold_slices(x, axis, 1, 0, x.shape[axis], None, operator.mul)


def _in_packets(turns: int, x: Any, axis: int) -> Any:
    """In vectors of 16 bytes, `turns` of which take turns; the rest one after another."""
    size, lanes = x.shape[axis], _PACKET // x.dtype.itemsize
    packets = size // lanes
    rounds = packets // turns
    total = _fold_slices(x, axis, turns * lanes, 0, rounds, None)
    total = _halve(total, axis, lanes)
    total = _fold_slices(x, axis, lanes, turns * rounds, packets, total)
    total = _halve(total, axis, 1)
    return _fold_slices(x, axis, 1, lanes * packets, size, total)


def _in_rows(x: Any, axis: int) -> Any:
    """In four vectors of 16 lanes, as the kernels of rows."""
    size, width = x.shape[axis], _SUMS * _LANES
    if not is_static((size,)):
        blocks = (size + width - 1) // width
    else:
        blocks, x = -(-size // width), _pad(x, axis, -size % width) if size % width else x
    total = _fold_slices(x, axis, width, 0, blocks, None)
    if total is None:
        return total
    vectors = _slices(total, axis, _LANES)
    four = (vectors(0) + vectors(1)) + (vectors(2) + vectors(3))
    return _halve(four, axis, 1)


IN_TURN = Order(_in_turn)
IN_PACKETS = Order(functools.partial(_in_packets, 2))
IN_ONE_PACKET = Order(functools.partial(_in_packets, 1))
IN_ROWS = Order(_in_rows)
_FACTORS = Order(_product, 1.0)


NAME, IN_ROWS_NAME = "_on_device", "_in_rows_on_device"  # programs' names of sums


def of_terms(x: Array, term: Callable[[Array, Any], Array], count: int) -> Array:
    """The sum of `term(x, i)` in turn, in a program whose partial sums `exact.py` keeps apart."""

    def add(x: Array) -> Any:
        return fold(functools.partial(term, x), 0, count)

    add.__name__ = NAME
    total: Array = ieee.guard(jax.jit(add)(x))
    return total


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
@functools.partial(jax.jit, static_argnums=(1, 2))  # traced once for each shape
def _on_device(x: Array, order: Order, axis: int) -> Array:
    total = order.reduce(ieee.guard(x), axis)  # no product before becomes part of the sum
    if total is None:
        return jnp.full_like(x, order.of_nothing, shape=_kept(x, [axis]))
    if order.of_nothing == 0:
        total = jnp.where(total == 0, jnp.zeros_like(total), total)
    return ieee.guard(total)


def _in_rows_on_device(x: Array, axis: int) -> Array:
    summed: Array = _on_device(x, IN_ROWS, axis)
    return summed


_shared_in_rows = jax.jit(_in_rows_on_device, static_argnums=1)  # `exact.py` knows its name


@_on_device.defjvp
def _tangent(
    order: Order, axis: int, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    reduce = jnp.prod if order == _FACTORS else jnp.sum
    of_axis = functools.partial(reduce, axis=axis, keepdims=True)
    return _on_device(*primals, order, axis), jax.jvp(of_axis, primals, tangents)[1]


def _on_host(x: np.ndarray, order: Order, axis: int) -> np.ndarray:
    total = order.reduce(x, axis)
    if total is None:
        return np.full(_kept(x, [axis]), order.of_nothing, x.dtype)
    return np.asarray(total + np.zeros((), x.dtype) if order.of_nothing == 0 else total)


def _kept(x: Any, axes: Sequence[int]) -> tuple[int, ...]:
    """The shape of a reduction that keeps its axes."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))


def _is_float(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def wide(x: Floats) -> Floats:
    """Floats of 16 bits as float32, in which they are summed."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 and _is_float(x) else x


def narrow(x: Array, dtype: np.dtype) -> Array:
    """Floats in another dtype, to which they are rounded once."""
    if x.dtype == dtype:
        return x
    return ieee.narrow(x, dtype) if jnp.issubdtype(dtype, jnp.floating) else x.astype(dtype)


def total(x: Floats, axes: Sequence[int], order: Order) -> Floats:
    """The sum along axes in ascending order, from 0 on, which it keeps with size 1.

    Integers have one sum, whatever the order.
    """
    if not _is_float(x):
        return (x.prod if order == _FACTORS else x.sum)(tuple(axes), keepdims=True)
    if not axes:
        return x
    sizes, shape = [x.shape[axis] for axis in axes], _kept(x, axes)
    first, merged = axes[0], wide(x)
    if len(axes) > 1:
        if list(axes) != list(range(first, first + len(axes))):
            others = [axis for axis in range(x.ndim) if axis not in axes]
            merged, first = merged.transpose([*axes, *others]), 0
        kept = list(merged.shape)
        kept[first : first + len(axes)] = [math.prod(sizes)]
        merged = merged.reshape(tuple(kept))
    if isinstance(x, np.ndarray):
        return _on_host(merged, order, first).reshape(shape).astype(x.dtype)
    if order == IN_ROWS:
        return narrow(_shared_in_rows(merged, first).reshape(shape), x.dtype)
    return narrow(_on_device(merged, order, first).reshape(shape), x.dtype)


def product(x: Floats, axes: Sequence[int]) -> Floats:
    """The product along axes, which it keeps with size 1: one factor after another."""
    return total(x, axes, _FACTORS)


def total_of_last(x: Floats, axes: Sequence[int]) -> Floats:
    """The sum along axes in the order of ONNX Runtime's sums and means.

    Last axes are summed in packets, and then first axes in turn. If other axes are among them, all
    are summed in turn.
    """
    last = x.ndim
    while last - 1 in axes:
        last -= 1
    first = [axis for axis in axes if axis < last]
    if last == x.ndim or first != list(range(len(first))):
        return total(x, axes, IN_TURN)
    return total(total(x, range(last, x.ndim), IN_PACKETS), first, IN_TURN)


def root_of_squares(x: Array, total: Callable[[Array], Array]) -> Array:
    """The root of a sum of squares; 0 has the gradient 0.

    Squares of tiny numbers would be subnormal, which XLA takes for 0: they are scaled by a power
    of 2, which changes no bit of other results.
    """
    power = 1 - int(np.finfo(x.dtype).minexp) // 2
    scale, least = x.dtype.type(2.0**power), 2.0 ** (-5 * power // 8)

    def root(y: Array) -> Array:
        found = total(ieee.multiply(y, y))
        is_zero = found == 0
        return jnp.where(is_zero, found, ieee.sqrt(jnp.where(is_zero, jnp.ones_like(found), found)))

    found = root(x)
    of_tiny = ieee.multiply(root(ieee.multiply(x, scale)), 1 / scale)
    return jnp.where(found < least, of_tiny, found)


def mean(x: Floats, axes: Sequence[int], order: Order | None = None) -> Floats:
    """The mean along axes, which it keeps with size 1, by default of `total_of_last`."""
    count = math.prod(x.shape[axis] for axis in axes)
    summed = total_of_last(wide(x), axes) if order is None else total(wide(x), axes, order)
    xp: ModuleType = np if isinstance(x, np.ndarray) else jnp
    divisor = xp.asarray(count, summed.dtype)
    if xp is np:
        return (summed / divisor).astype(x.dtype)
    return narrow(ieee.divide(summed, divisor), x.dtype)
