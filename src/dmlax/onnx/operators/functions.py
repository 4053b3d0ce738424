"""Element-wise functions in one table."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import exact, float_functions, ieee, rational, sums
from dmlax._core.requantize import Arithmetic
from dmlax._fused.rows import call as rows
from dmlax.errors import UnsupportedError
from dmlax.onnx.operators.floats import (
    BINARY,
    add,
    align,
    binary,
    cast,
    is_float,
    maximum,
    minimum,
    multiply,
)
from dmlax.onnx.operators.table import Parameter, Tensor, operator
from dmlax.onnx.operators.values import DTYPES, to_device

_Function = Callable[[Array], Array]


class _Unary(NamedTuple):
    """A function of one tensor.

    Attributes:
      function: takes the attributes as keywords, with their defaults.
    """

    op: str
    versions: tuple[int, ...]
    function: Callable[..., Array]


def filled(x: Array, value: float | np.floating) -> Array:
    """A tensor of one value with the shape and the dtype of x, which no compiler folds."""
    return jnp.full_like(x, value)


def _exp_less_1(x: Array) -> Array:
    """exp(min(x, 0)) - 1, subtracted as ONNX Runtime does."""
    return jnp.exp(jnp.minimum(x, 0)) - 1


def _shrink(x: Array, *, bias: float = 0.0, lambd: float = 0.5) -> Array:
    shift = jnp.asarray(bias).astype(x.dtype)
    low = jnp.where(x < -lambd, x + shift, jnp.zeros_like(x))
    return jnp.where(x > lambd, x - shift, low)


def _scaled_elu(
    x: Array, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Array:
    return gamma * jnp.where(x >= 0, x, alpha * _exp_less_1(x))


def _is_infinite(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    is_wanted = jnp.where(x > 0, bool(detect_positive), bool(detect_negative))
    return jnp.isinf(x) & is_wanted


def _soft_sign(x: Array) -> Array:
    """X times the reciprocal of 1 + |x|, in ONNX Runtime's order."""
    one = filled(x, 1)
    return ieee.multiply(ieee.divide(one, ieee.add(one, jnp.abs(x))), x)


def _rational(of_float32: Callable[..., Array], other: Callable[..., Array]) -> _Function:
    """A function for whose float32 values ONNX Runtime has a rational function."""
    return lambda x: ieee.guard(of_float32(x)) if x.dtype == np.float32 else other(x)


_LARGE = np.float32(2.0**30)  # its square and that square plus 1 are one float32


def _arc_sinh(x: Array) -> Array:
    size = jnp.minimum(jnp.abs(x), _LARGE.astype(x.dtype))
    square = size * size
    usual = jnp.log1p(size + square / (1 + jnp.sqrt(square + 1)))
    value = jnp.where(jnp.abs(x) < _LARGE, usual, jnp.log(jnp.abs(x)) + math.log(2))
    return jnp.where(jnp.abs(x) < 2.0**-12, x, jnp.where(x < 0, -value, value))


def _arc_cosh(x: Array) -> Array:
    less = jnp.minimum(x, _LARGE.astype(x.dtype)) - 1
    usual = jnp.log1p(less + jnp.sqrt(less * (less + 2)))
    value = jnp.where(x > _LARGE, jnp.log(x) + math.log(2), usual)
    return jnp.where(x < 1, jnp.nan, value)


def _alike(function: _Function) -> _Function:
    """A function by a fixed sequence: XLA's bits of a float32 depend on the element's place."""
    return lambda x: exact.of(function)(x) if x.dtype == np.float32 else function(x)


_UNARY = (
    _Unary("Abs", (6, 13), jnp.abs),
    _Unary("Acos", (7, 22), jnp.arccos),
    _Unary("Acosh", (9, 22), _alike(_arc_cosh)),
    _Unary("Asin", (7, 22), jnp.arcsin),
    _Unary("Asinh", (9, 22), _alike(_arc_sinh)),
    _Unary("Atan", (7, 22), _alike(jnp.arctan)),
    _Unary("Atanh", (9, 22), jnp.arctanh),
    _Unary("BitwiseNot", (18,), jnp.bitwise_not),
    _Unary("Ceil", (6, 13), jnp.ceil),
    _Unary(
        "Celu", (12, 28), lambda x, *, alpha=1.0: jnp.maximum(x, 0) + alpha * _exp_less_1(x / alpha)
    ),
    _Unary("Cos", (7, 22), jnp.cos),
    _Unary("Cosh", (9, 22), jnp.cosh),
    _Unary("Elu", (6, 22), lambda x, *, alpha=1.0: _scaled_elu(x, alpha=alpha, gamma=1.0)),
    _Unary("Exp", (6, 13), jnp.exp),
    _Unary("Floor", (6, 13), jnp.floor),
    _Unary("IsInf", (10, 20), _is_infinite),
    _Unary("IsNaN", (9, 13, 20), jnp.isnan),
    _Unary("Log", (6, 13), jnp.log),
    _Unary("Mish", (18, 22), lambda x: x * jnp.tanh(jax.nn.softplus(x))),
    _Unary("Neg", (6, 13), jnp.negative),
    _Unary("Not", (1,), jnp.logical_not),
    _Unary("Reciprocal", (6, 13), lambda x: ieee.divide(filled(x, 1), x)),
    _Unary(
        "Relu",
        (6, 13, 14),
        lambda x: jnp.where(x <= 0, jnp.zeros_like(x), x),  # a NaN stays
    ),
    _Unary("Round", (11, 22), jnp.round),
    _Unary("Selu", (6, 22), _scaled_elu),
    _Unary("Shrink", (9,), _shrink),
    _Unary("Sigmoid", (6, 13), _rational(rational.logistic, jax.nn.sigmoid)),
    _Unary("Sign", (9, 13), jnp.sign),
    _Unary("Sin", (7, 22), jnp.sin),
    _Unary("Sinh", (9, 22), jnp.sinh),
    _Unary("Softplus", (1, 22), jax.nn.softplus),
    _Unary("Softsign", (1, 22), _soft_sign),
    _Unary("Swish", (24,), lambda x, *, alpha=1.0: x * jax.nn.sigmoid(alpha * x)),
    _Unary("Tan", (7, 22), jnp.tan),
    _Unary("Tanh", (6, 13), _rational(rational.tanh, jnp.tanh)),
    _Unary("ThresholdedRelu", (10, 22), lambda x, *, alpha=1.0: jnp.where(x > alpha, x, 0)),
)


def _widened(row: _Unary, x: Array, attributes: Mapping[str, float]) -> Array:
    """Computes on the device; float16 and bfloat16 are rounded once, at the end."""
    if not is_float(x) or x.dtype.itemsize != 2:
        return row.function(x, **attributes)
    y = row.function(x.astype(np.float32), **attributes)
    return y.astype(x.dtype) if is_float(y) else y


_EXACT = {
    "Sigmoid": float_functions.sigmoid,
    "Softplus": float_functions.softplus,
    "Tanh": float_functions.tanh,
}
"""Operators that are no single operation of JAX, or have ONNX Runtime's bits."""


def _unary(row: _Unary) -> Callable[..., Tensor]:
    """The operator of a row."""

    def compute(x: Tensor, *, arithmetic: Arithmetic, **attributes: float) -> Tensor:
        x = to_device(x)
        if arithmetic == "exact" and row.op in _EXACT:
            return exact.apply(_EXACT[row.op], x)
        return _widened(row, x, attributes)

    tensor = inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Tensor)
    of_context = inspect.signature(compute).parameters["arithmetic"]
    parameters = inspect.signature(row.function).parameters.values()
    named = [x.replace(annotation=type(x.default)) for x in parameters if x.kind == x.KEYWORD_ONLY]
    attributes = [x for x in named if x.annotation in (int, float)]
    compute.__signature__ = inspect.Signature([tensor, of_context, *attributes])  # type: ignore[attr-defined]
    return compute


for _row in _UNARY:
    operator(_row.op, *_row.versions)(_unary(_row))


_SHIFTS = {"LEFT": binary(jnp.left_shift), "RIGHT": binary(jnp.right_shift)}


@operator("BitShift", 11, 28)
def shift(x: Tensor, count: Tensor, *, direction: Annotated[str, _SHIFTS]) -> Tensor:
    """Shifts bits to the left or to the right."""
    return _SHIFTS[direction](x, count)


@operator("PRelu", 7, 9, 16)
def parametric_relu(x: Tensor, slope: Tensor) -> Array:
    """X, or the slope times x below 0."""
    x, slope = align(x, slope)
    is_below, product, x = jnp.broadcast_arrays(x < 0, multiply(x, slope), x)
    return jnp.where(is_below, product, x)


@operator("Sum", 6, 8, 13)
def total(*inputs: Tensor) -> Tensor:
    """Adds tensors from the first to the last."""
    return functools.reduce(binary(add), inputs)


@operator("Mean", 6, 8, 13)
def mean(*inputs: Tensor) -> Array:
    """Adds tensors, and multiplies by the reciprocal of their number, as ONNX Runtime."""
    x = to_device(total(*inputs))
    return ieee.multiply(x, filled(x, np.float32(1) / np.float32(len(inputs))))


ELEMENT_WISE = {row.op for row in _UNARY} | {op for op, *_ in BINARY}
ELEMENT_WISE |= {"Cast", "Max", "Mean", "Min", "Mod", "PRelu", "Sum", "Where"}
operator("Max", 6)(maximum)
operator("Min", 6)(minimum)


@operator("CastLike", 15, 19, 21, 23, 24, 25)
def cast_like(x: Tensor, like: Parameter, *, saturate: int = 1, round_mode: str = "up") -> Any:
    """Converts to the dtype of another tensor."""
    numbers = {dtype: number for number, dtype in DTYPES.items()}
    dtype = np.dtype(like.dtype)
    if dtype not in numbers:
        raise UnsupportedError(f"its data type {dtype} is not known")
    return cast(x, to=numbers[dtype], saturate=saturate)


def _along(function: _Function) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """A function of the last axis as two: along an axis, and over all axes from one on."""

    def compute(x: Array, arithmetic: Arithmetic) -> Array:
        y = function(x)  # the kernels and XLA differ in subnormal numbers
        return exact.settle(y) if arithmetic == "exact" else y

    def along_axis(x: Array, *, axis: int = -1, arithmetic: Arithmetic) -> Array:
        moved = compute(jnp.moveaxis(x, axis, -1), arithmetic)
        return jnp.moveaxis(moved, -1, axis)

    def over_matrix(x: Array, *, axis: int = 1, arithmetic: Arithmetic) -> Array:
        first = axis % x.ndim if axis < 0 else axis
        matrix = x.reshape((math.prod(x.shape[:first]), math.prod(x.shape[first:])))
        return compute(matrix, arithmetic).reshape(x.shape)

    return along_axis, over_matrix


def _hardmax(x: Array) -> Array:
    if x.shape[-1] == 0:
        return x
    ordered = jnp.where(jnp.isnan(x), -jnp.inf, x)  # ONNX Runtime's NaN wins at index 0 alone
    places = jnp.argmax(ordered, axis=-1, keepdims=True)
    is_largest = (jnp.arange(x.shape[-1]) == places) & ~jnp.isnan(x[..., :1])
    return is_largest.astype(x.dtype)


def _log_softmax(x: Array) -> Array:
    wide = sums.wide(x)
    largest = jax.lax.stop_gradient(wide.max(-1, keepdims=True, initial=-np.inf))
    distance = ieee.subtract(wide, largest)
    total = sums.total(jnp.exp(distance), [x.ndim - 1], sums.IN_ROWS)
    return sums.narrow(ieee.subtract(distance, jnp.log(total)), x.dtype)


for _op, _function in (
    ("Hardmax", _hardmax),
    ("LogSoftmax", _log_softmax),
    ("Softmax", rows.softmax),
):
    _along_axis, _over_matrix = _along(_function)
    operator(_op, 13)(_along_axis)
    operator(_op, 1, 11)(_over_matrix)
