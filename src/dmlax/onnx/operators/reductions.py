"""Reductions, indices of extremes and cumulative sums.

Floats are summed and multiplied in ONNX Runtime's orders (`_core/sums.py`).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.lib.array_utils import normalize_axis_tuple

from dmlax._core import ieee, sums
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.floats import is_float, multiply
from dmlax.onnx.operators.table import INTEGERS, Known, Tensor, operator
from dmlax.onnx.operators.values import device_dtype, integers


def _extreme(name: str, of_infinity: int) -> Callable[..., Any]:
    """The largest or the smallest element; the dtype's limit if there is none."""

    def compute(x: Array, axes: Sequence[int]) -> Any:
        reduce = functools.partial(getattr(jnp, name), x, axis=tuple(axes), keepdims=True)
        if is_float(x):
            return reduce(initial=x.dtype.type(-of_infinity * np.inf))
        if x.dtype == bool:
            return reduce(initial=of_infinity < 0)
        limits = np.iinfo(x.dtype)
        limit = limits.min if of_infinity > 0 else limits.max
        return reduce(initial=x.dtype.type(limit))  # JAX has no Python number of it

    return compute


def _mean(x: Array, axes: Sequence[int]) -> Any:
    """The mean; ONNX Runtime's is 0 where there is no element, and of integers it is truncated."""
    if is_float(x):
        is_empty = any(isinstance(x.shape[axis], int) and not x.shape[axis] for axis in axes)
        return sums.total(x, axes, sums.IN_TURN) if is_empty else sums.mean(x, axes)
    total = sums.total(x, axes, sums.IN_TURN).astype(x.dtype)
    count = jnp.asarray(max(x.size // max(total.size, 1), 1), x.dtype)
    quotient = total // count
    is_low = (quotient < 0) & (quotient * count != total)
    return quotient + is_low.astype(x.dtype)


def _total(x: Any, axes: Sequence[int]) -> Any:
    """The sum in turn, as of ONNX Runtime's norms; of a whole tensor in packets."""
    return sums.total(x, axes, sums.IN_PACKETS if len(axes) == x.ndim else sums.IN_TURN)


def _total_of_squares(x: Array, axes: Sequence[int]) -> Any:
    return _total(multiply(x, x), axes)


def _root_of_squares(x: Array, axes: Sequence[int]) -> Any:
    if is_float(x):
        return sums.root_of_squares(x, functools.partial(_total, axes=axes))
    return jnp.sqrt(_total_of_squares(x, axes))


def _log_of_exponentials(x: Array, axes: Sequence[int]) -> Any:
    x = x if is_float(x) else x.astype(np.float32)
    largest = x.max(tuple(axes), keepdims=True, initial=-np.inf)
    largest = lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0))
    return ieee.add(jnp.log(_total(jnp.exp(ieee.subtract(x, largest)), axes)), largest)


class _Reduction(NamedTuple):
    """A reduction, the opsets whose axes are an attribute, and those whose axes are an input."""

    op: str
    by_attribute: tuple[int, ...]
    by_input: tuple[int, ...]
    function: Callable[[Array, Sequence[int]], Any]


_OLD = (1, 11, 13)
_UNROLLED = 16  # rows of an iteration
_REDUCTIONS = (  # functions of a tensor and axes from 0 on, which they keep
    _Reduction("ReduceL1", _OLD, (18,), lambda x, axes: _total(jnp.abs(x), axes)),
    _Reduction("ReduceL2", _OLD, (18,), _root_of_squares),
    _Reduction("ReduceLogSum", _OLD, (18, 28), lambda x, axes: jnp.log(_total(x, axes))),
    _Reduction("ReduceLogSumExp", _OLD, (18, 28), _log_of_exponentials),
    _Reduction("ReduceMax", (1, 11, 12, 13), (18, 20), _extreme("max", 1)),
    _Reduction("ReduceMean", _OLD, (18,), _mean),
    _Reduction("ReduceMin", (1, 11, 12, 13), (18, 20), _extreme("min", -1)),
    _Reduction("ReduceProd", _OLD, (18,), sums.product),
    _Reduction("ReduceSum", (1, 11), (13,), sums.total_of_last),
    _Reduction("ReduceSumSquare", _OLD, (18,), _total_of_squares),
)


def _reduce(row: _Reduction, x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    axes = range(x.ndim) if axis is None else sorted(normalize_axis_tuple(axis, x.ndim))
    reduced: Array = sums.narrow(row.function(sums.wide(x), axes), x.dtype)
    return reduced if keepdims else reduced.squeeze(tuple(axes))


def _operator_of(row: _Reduction) -> Callable[..., Tensor]:
    """The operator of a row."""

    def compute(
        x: Array, axes: Known | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Array:
        chosen: tuple[int, ...] | None = () if axes is None else tuple(integers(axes))
        # ONNX Runtime computes the square or the logarithm of elements that it does not reduce.
        chosen = chosen or (() if noop_with_empty_axes else None)
        return _reduce(row, x, axis=chosen, keepdims=bool(keepdims))

    return compute


for _row in _REDUCTIONS:
    _function = _operator_of(_row)
    _forms = {"axes": INTEGERS, "noop_with_empty_axes": None}
    operator(_row.op, *_row.by_attribute, attributes=_forms)(_function)
    operator(_row.op, *_row.by_input)(_function)


def _index_of_extreme(x: Array, name: str, axis: int, is_last: bool, **options: Any) -> Any:
    """The first or last index of the "max" or the "min"; NaN wins at index 0, and only there."""
    find = getattr(jnp, f"arg{name}")
    if jnp.issubdtype(x.dtype, jnp.floating):
        worst = x.dtype.type(-np.inf if name == "max" else np.inf)
        numbers = jnp.where(jnp.isnan(x), worst, x)
        is_extreme = x == getattr(jnp, name)(numbers, axis=axis, keepdims=True)
        places = jnp.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
        begins_with_nan = jnp.isnan(jnp.take(x, jnp.arange(1), axis=axis))
        x, find = jnp.where(begins_with_nan, places == 0, is_extreme), jnp.argmax
    place = find(jnp.flip(x, axis) if is_last else x, axis=axis, **options)
    return x.shape[axis] - 1 - place if is_last else place


def _index_of(name: str) -> Callable[..., Any]:
    """The operator of the index of an extreme."""

    def compute(x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        axis += x.ndim if axis < 0 else 0
        if x.shape[axis] == 0:
            shape = (*x.shape[:axis], 1, *x.shape[axis:][1:])
            if 0 not in shape:
                raise ModelError(f"axis {axis} has the size 0")
            x = jnp.zeros(shape, x.dtype)
        is_last = bool(select_last_index)
        place = _index_of_extreme(x, name, axis, is_last, keepdims=bool(keepdims))
        indices: Array = place.astype(device_dtype(np.int64))
        return indices

    return compute


operator("ArgMax", 1, 11, 12, 13)(_index_of("max"))
operator("ArgMin", 1, 11, 12, 13)(_index_of("min"))


def _cumulative(name: str, start: int, combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The operator that reduces all elements up to one; floats in turn."""

    def compute(x: Array, axis: Known, *, exclusive: int = 0, reverse: int = 0) -> Array:
        along = integers(axis)[0]
        x = jnp.flip(x, along) if reverse else x
        if exclusive:
            widths = [(0, 0)] * x.ndim
            widths[along] = (1, 0)
            rows = jnp.pad(x, widths, constant_values=start)
            x = jnp.take(rows, jnp.arange(x.shape[along]), axis=along)
        if not is_float(x):
            totals: Array = getattr(jnp, name)(x, axis=along, dtype=x.dtype)
        else:
            totals = jnp.moveaxis(_accumulate(jnp.moveaxis(x, along, 0), combine, start), 0, along)
        return jnp.flip(totals, along) if reverse else totals

    return compute


def _accumulate(x: Array, combine: Callable[[Any, Any], Any], start: int) -> Array:
    """Combines each row with all before it; floats of 16 bits in float32."""

    def step(total: Array, row: Array) -> tuple[Array, Array]:
        total = combine(total, sums.wide(row))
        return total, sums.narrow(total, row.dtype)

    first = jnp.full(x.shape[1:], start, sums.wide(x).dtype)
    unroll = _UNROLLED if isinstance(x.shape[0], int) else 1
    return lax.scan(step, first, ieee.guard(x), unroll=unroll)[1]


operator("CumSum", 11, 14)(_cumulative("cumsum", 0, jnp.add))
operator("CumProd", 26)(_cumulative("cumprod", 1, jnp.multiply))
