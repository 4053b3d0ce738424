"""Reductions, indices of extremes and cumulative sums; NumPy reduces known values."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.table import INTEGERS, Known, Tensor, operator
from dmlax.onnx.operators.values import (
    as_known,
    device_dtype,
    expect_memory,
    expect_simple_product,
    integers,
    is_known,
    on_host_or_device,
    to_device,
)


def _extreme(name: str, of_infinity: int) -> Callable[..., Any]:
    """The largest or the smallest element; the dtype's limit if there is none."""

    def compute(xp: ModuleType, x: Tensor, **options: Any) -> Any:
        reduce = getattr(xp, name)
        if x.dtype == object:
            return reduce(x, **options)
        if jnp.issubdtype(x.dtype, jnp.floating):
            return reduce(x, initial=x.dtype.type(-of_infinity * np.inf), **options)
        if x.dtype == bool:
            return reduce(x, initial=of_infinity < 0, **options)
        limits = np.iinfo(x.dtype)
        limit = limits.min if of_infinity > 0 else limits.max
        return reduce(x, initial=x.dtype.type(limit), **options)  # JAX has no Python number of it

    return compute


def _mean(xp: ModuleType, x: Tensor, **options: Any) -> Any:
    """The mean; means of integers are truncated, as in ONNX Runtime."""
    if x.dtype == object or jnp.issubdtype(x.dtype, jnp.floating):
        return xp.mean(x, **options)
    total = xp.sum(x, **options).astype(x.dtype)
    count = xp.asarray(max(x.size // max(total.size, 1), 1), x.dtype)
    quotient = total // count
    is_low = (quotient < 0) & (quotient * count != total)
    return quotient + is_low.astype(x.dtype)


class _Reduction(NamedTuple):
    """A reduction, the opsets whose axes are an attribute, and those whose axes are an input."""

    op: str
    by_attribute: tuple[int, ...]
    by_input: tuple[int, ...]
    function: Callable[..., Any]


_OLD = (1, 11, 13)
_REDUCTIONS = (  # functions of NumPy or JAX, a tensor, and the options axis and keepdims
    _Reduction("ReduceL1", _OLD, (18,), lambda xp, x, **to: xp.sum(xp.abs(x), **to)),
    _Reduction("ReduceL2", _OLD, (18,), lambda xp, x, **to: xp.sqrt(xp.sum(x * x, **to))),
    _Reduction("ReduceLogSum", _OLD, (18, 28), lambda xp, x, **to: xp.log(xp.sum(x, **to))),
    _Reduction("ReduceLogSumExp", _OLD, (18, 28), lambda xp, x, **to: logsumexp(x, **to)),
    _Reduction("ReduceMax", (1, 11, 12, 13), (18, 20), _extreme("max", 1)),
    _Reduction("ReduceMean", _OLD, (18,), _mean),
    _Reduction("ReduceMin", (1, 11, 12, 13), (18, 20), _extreme("min", -1)),
    _Reduction("ReduceProd", _OLD, (18,), lambda xp, x, **to: xp.prod(x, **to)),
    _Reduction("ReduceSum", (1, 11), (13,), lambda xp, x, **to: xp.sum(x, **to)),
    _Reduction("ReduceSumSquare", _OLD, (18,), lambda xp, x, **to: xp.sum(x * x, **to)),
)


def _reduce(row: _Reduction, x: Tensor, **options: Any) -> Tensor:
    """Reduces a tensor: a known one on the host."""
    if not is_known(x) or row.op == "ReduceLogSumExp":
        x = to_device(x)
        reduced: Array = row.function(jnp, x, **options).astype(x.dtype)
        return reduced
    expect_memory(x.dtype, x.size)
    if x.dtype == object:
        expect_simple_product(x.ravel())
        return as_known(row.function(np, x, **options), object)
    with np.errstate(all="ignore"):
        return np.asarray(row.function(np, x, **options), x.dtype)


def _operator_of(row: _Reduction) -> Callable[..., Tensor]:
    """The operator of a row."""

    def compute(
        x: Tensor, axes: Known | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
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


def _index_of_extreme(
    xp: ModuleType, x: Tensor, name: str, axis: int, is_last: bool, **options: Any
) -> Any:
    """The first or last index of the "max" or the "min"; NaN wins at index 0, and only there."""
    find = getattr(xp, f"arg{name}")
    if jnp.issubdtype(x.dtype, jnp.floating):
        worst = x.dtype.type(-np.inf if name == "max" else np.inf)
        numbers = xp.where(xp.isnan(x), worst, x)
        is_extreme = x == getattr(xp, name)(numbers, axis=axis, keepdims=True)
        places = xp.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
        begins_with_nan = xp.isnan(xp.take(x, xp.arange(1), axis=axis))
        x, find = xp.where(begins_with_nan, places == 0, is_extreme), xp.argmax
    place = find(xp.flip(x, axis) if is_last else x, axis=axis, **options)
    return x.shape[axis] - 1 - place if is_last else place


def _index_of(name: str) -> Callable[..., Any]:
    """The operator of the index of an extreme."""

    def compute(
        x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Tensor:
        xp, x = on_host_or_device(x)
        axis += x.ndim if axis < 0 else 0
        if x.shape[axis] == 0:
            shape = (*x.shape[:axis], 1, *x.shape[axis:][1:])
            if 0 not in shape:
                raise ModelError(f"axis {axis} has the size 0")
            x = xp.zeros(shape, x.dtype)
        is_last, dtype = bool(select_last_index), np.dtype(np.int64)
        place = _index_of_extreme(xp, x, name, axis, is_last, keepdims=bool(keepdims))
        if xp is np:
            return as_known(place.astype(dtype), dtype)
        indices: Tensor = place.astype(device_dtype(dtype))
        return indices

    return compute


operator("ArgMax", 1, 11, 12, 13)(_index_of("max"))
operator("ArgMin", 1, 11, 12, 13)(_index_of("min"))


def _cumulative(name: str, start: int) -> Callable[..., Any]:
    """The operator that reduces all elements up to one."""

    def compute(x: Tensor, axis: Known, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        along = integers(axis)[0]
        xp, x = on_host_or_device(x)
        x = xp.flip(x, along) if reverse else x
        if exclusive:
            widths = [(0, 0)] * x.ndim
            widths[along] = (1, 0)
            rows = xp.pad(x, widths, constant_values=start)
            x = xp.take(rows, xp.arange(x.shape[along]), axis=along)
        totals: Tensor = getattr(xp, name)(x, axis=along, dtype=x.dtype)
        return xp.flip(totals, along) if reverse else totals

    return compute


operator("CumSum", 11, 14)(_cumulative("cumsum", 0))
operator("CumProd", 26)(_cumulative("cumprod", 1))
