"""Element-wise functions in one table; NumPy computes those of known integers."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dmlax._core import ieee
from dmlax._core.arguments import expand_rank
from dmlax.errors import UnsupportedError
from dmlax.onnx.operators.floats import cast, clip_by_attribute, maximum, minimum
from dmlax.onnx.operators.table import Parameter, Tensor, operator
from dmlax.onnx.operators.values import DTYPES, as_known, expect_room, is_known, to_device


class _Unary(NamedTuple):
    """A function of one tensor.

    Attributes:
      attributes: names and defaults, which `on_device` takes as keywords.
      on_host: computes known values, if shapes may depend on them.
    """

    op: str
    versions: tuple[int, ...]
    on_device: Callable[..., Any]
    on_host: Callable[..., Any] | None = None
    attributes: Mapping[str, float] = {}


def is_float(x: Any) -> bool:
    """True for a tensor of floats."""
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def on_floats(of_floats: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two tensors: IEEE's for floats."""

    def compute(a: Any, b: Any) -> Any:
        return (of_floats if is_float(a) else otherwise)(a, b)

    return compute


add = on_floats(ieee.add, jnp.add)


def filled(x: Any, value: Any) -> Any:
    """A tensor of one value with the shape and the dtype of x, which no compiler folds."""
    return jnp.full_like(x, value)


def _exp_less_1(x: Any) -> Any:
    """The exponential of elements below 0 less 1, as ONNX Runtime subtracts it."""
    return jnp.exp(jnp.minimum(x, 0)) - 1


def _shrink(x: Any, bias: float, lambd: float) -> Any:
    shift = jnp.asarray(bias).astype(x.dtype)
    low = jnp.where(x < -lambd, x + shift, jnp.zeros_like(x))
    return jnp.where(x > lambd, x - shift, low)


def _elu(x: Any, alpha: float, gamma: float = 1.0) -> Any:
    return gamma * jnp.where(x >= 0, x, alpha * _exp_less_1(x))


def _is_infinite(x: Any, detect_negative: int, detect_positive: int) -> Any:
    is_wanted = jnp.where(x > 0, bool(detect_positive), bool(detect_negative))
    return jnp.isinf(x) & is_wanted


def _soft_sign(x: Any) -> Any:
    """X times the reciprocal of 1 + |x|, in ONNX Runtime's order."""
    one = filled(x, 1)
    return ieee.multiply(ieee.divide(one, ieee.add(one, jnp.abs(x))), x)


_UNARY = (
    _Unary("Abs", (6, 13), jnp.abs, np.abs),
    _Unary("Acos", (7, 22), jnp.arccos),
    _Unary("Acosh", (9, 22), jnp.arccosh),
    _Unary("Asin", (7, 22), jnp.arcsin),
    _Unary("Asinh", (9, 22), jnp.arcsinh),
    _Unary("Atan", (7, 22), jnp.arctan),
    _Unary("Atanh", (9, 22), jnp.arctanh),
    _Unary("BitwiseNot", (18,), jnp.bitwise_not, np.bitwise_not),
    _Unary("Ceil", (6, 13), jnp.ceil, np.ceil),
    _Unary(
        "Celu",
        (12, 28),
        lambda x, alpha: jnp.maximum(x, 0) + alpha * _exp_less_1(x / alpha),
        None,
        {"alpha": 1.0},
    ),
    _Unary("Cos", (7, 22), jnp.cos),
    _Unary("Cosh", (9, 22), jnp.cosh),
    _Unary("Elu", (6, 22), _elu, None, {"alpha": 1.0}),
    _Unary("Exp", (6, 13), jnp.exp),
    _Unary("Floor", (6, 13), jnp.floor, np.floor),
    _Unary("IsInf", (10, 20), _is_infinite, None, {"detect_negative": 1, "detect_positive": 1}),
    _Unary("IsNaN", (9, 13, 20), jnp.isnan, np.isnan),
    _Unary("Log", (6, 13), jnp.log),
    _Unary("Mish", (18, 22), lambda x: x * jnp.tanh(jax.nn.softplus(x))),
    _Unary("Neg", (6, 13), jnp.negative, np.negative),
    _Unary("Not", (1,), jnp.logical_not, np.logical_not),
    _Unary("Reciprocal", (6, 13), lambda x: ieee.divide(filled(x, 1), x)),
    _Unary(
        "Relu",
        (6, 13, 14),
        lambda x: jnp.where(x > 0, x, jnp.zeros_like(x)),
        lambda x: np.where(x > 0, x, np.zeros_like(x)),
    ),
    _Unary("Round", (11, 22), jnp.round, np.round),
    _Unary(
        "Selu",
        (6, 22),
        _elu,
        None,
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    ),
    _Unary("Shrink", (9,), _shrink, None, {"bias": 0.0, "lambd": 0.5}),
    _Unary("Sigmoid", (6, 13), jax.nn.sigmoid),
    _Unary("Sign", (9, 13), jnp.sign, np.sign),
    _Unary("Sin", (7, 22), jnp.sin),
    _Unary("Sinh", (9, 22), jnp.sinh),
    _Unary("Softplus", (1, 22), jax.nn.softplus),
    _Unary("Softsign", (1, 22), _soft_sign),
    _Unary("Swish", (24,), lambda x, alpha: x * jax.nn.sigmoid(alpha * x), None, {"alpha": 1.0}),
    _Unary("Tan", (7, 22), jnp.tan),
    _Unary("Tanh", (6, 13), jnp.tanh),
    _Unary(
        "ThresholdedRelu",
        (10, 22),
        lambda x, alpha: jnp.where(x > alpha, x, jnp.zeros_like(x)),
        None,
        {"alpha": 1.0},
    ),
)


def _widened(row: _Unary, x: Any, attributes: Mapping[str, float]) -> Any:
    """A function on the device, which rounds a float16 or bfloat16 once."""
    if not is_float(x) or x.dtype.itemsize != 2:
        return row.on_device(x, **attributes)
    y = row.on_device(x.astype(np.float32), **attributes)
    return y.astype(x.dtype) if is_float(y) else y


def _unary(row: _Unary) -> Callable[..., Any]:
    """The operator of a row, whose signature names its attributes."""

    def compute(x: Tensor, /, **attributes: float) -> Any:
        # NumPy computes symbolic sizes as Python objects, and only the negative of one is a size.
        is_size = is_known(x) and x.dtype == object
        if row.on_host is None or not is_known(x) or (is_size and row.op != "Neg"):
            return _widened(row, to_device(x), {**row.attributes, **attributes})
        expect_room(x.dtype, x.size)
        with np.errstate(all="ignore"):
            return as_known(row.on_host(x), x.dtype)

    kind = inspect.Parameter.KEYWORD_ONLY
    described: Any = compute
    described.__signature__ = inspect.Signature(
        [
            inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY, annotation=Tensor),
            *(
                inspect.Parameter(name, kind, default=default, annotation=type(default))
                for name, default in row.attributes.items()
            ),
        ]
    )
    return compute


for _row in _UNARY:
    operator(_row.op, *_row.versions)(_unary(_row))


def align(a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands on the device, with one rank, as JAX's strict modes want."""
    a, b = to_device(a), to_device(b)
    rank = max(a.ndim, b.ndim)
    return expand_rank(a, rank, scalars=True), expand_rank(b, rank, scalars=True)


def binary(on_host: Callable[..., Any], on_device: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two broadcast tensors."""

    def compute(a: Tensor, b: Tensor, /) -> Any:
        if not (is_known(a) and is_known(b)):
            return on_device(*align(a, b))
        dtype = np.result_type(a, b)
        expect_room(dtype, *np.broadcast_shapes(a.shape, b.shape))
        with np.errstate(all="ignore"):
            return as_known(on_host(a, b), dtype)

    return compute


for _op, _host, _device in (
    ("BitwiseAnd", np.bitwise_and, jnp.bitwise_and),
    ("BitwiseOr", np.bitwise_or, jnp.bitwise_or),
    ("BitwiseXor", np.bitwise_xor, jnp.bitwise_xor),
):
    operator(_op, 18)(binary(_host, _device))
_SHIFTS = {
    "LEFT": binary(np.left_shift, jnp.left_shift),
    "RIGHT": binary(np.right_shift, jnp.right_shift),
}


@operator("BitShift", 11, 28)
def shift(x: Tensor, count: Tensor, /, *, direction: str) -> Any:
    """Shifts bits to the left or to the right."""
    if direction not in _SHIFTS:
        raise UnsupportedError(f"direction is {direction!r}, expected 'LEFT' or 'RIGHT'")
    return _SHIFTS[direction](x, count)


@operator("PRelu", 7, 9, 16)
def parametric_relu(x: Tensor, slope: Tensor, /) -> Any:
    """X, or the slope times x below 0."""
    x, slope = align(x, slope)
    product = on_floats(ieee.multiply, jnp.multiply)(x, slope)
    return jnp.where(*jnp.broadcast_arrays(x < 0, product, x))


_plus = binary(np.add, add)


@operator("Sum", 6, 8, 13)
def total(*inputs: Tensor) -> Any:
    """Adds tensors from the first to the last."""
    return functools.reduce(_plus, inputs)


@operator("Mean", 6, 8, 13)
def mean(*inputs: Tensor) -> Any:
    """Adds tensors, and multiplies by the reciprocal of their number, as ONNX Runtime."""
    x = to_device(total(*inputs))
    return ieee.multiply(x, filled(x, np.float32(1) / np.float32(len(inputs))))


operator("Max", 6)(maximum)
operator("Min", 6)(minimum)


@operator("Clip", 1)
def clip_1(
    x: Tensor,
    /,
    *,
    consumed_inputs: tuple[int, ...] = (),
    max: float = math.inf,
    min: float = -math.inf,
) -> Any:
    """Limits values."""
    return clip_by_attribute(x, max=max, min=min)


@operator("CastLike", 15, 19, 21, 23, 24, 25)
def cast_like(x: Tensor, like: Parameter, /, *, saturate: int = 1, round_mode: str = "up") -> Any:
    """Converts to the dtype of another tensor."""
    numbers = {dtype: number for number, dtype in DTYPES.items()}
    dtype = np.dtype(like.dtype)
    if dtype not in numbers:
        raise UnsupportedError(f"its data type {dtype} is not known")
    return cast(x, to=numbers[dtype], saturate=saturate)


def _along(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function along the last axis as one along any axis, and as one over all axes from one."""

    def along_axis(x: Tensor, /, *, axis: int = -1) -> Any:
        moved = function(jnp.moveaxis(to_device(x), axis, -1))
        return jnp.moveaxis(moved, -1, axis)

    def over_matrix(x: Tensor, /, *, axis: int = 1) -> Any:
        x = to_device(x)
        first = axis % x.ndim if axis < 0 else axis
        matrix = x.reshape((math.prod(x.shape[:first]), math.prod(x.shape[first:])))
        return function(matrix).reshape(x.shape)

    return along_axis, over_matrix


def _hardmax(x: Any) -> Any:
    places = jnp.argmax(x, axis=-1, keepdims=True)
    return (jnp.arange(x.shape[-1]) == places).astype(x.dtype)


for _op, _function in (("Hardmax", _hardmax), ("LogSoftmax", jax.nn.log_softmax)):
    _along_axis, _over_matrix = _along(_function)
    operator(_op, 13)(_along_axis)
    operator(_op, 1, 11)(_over_matrix)
