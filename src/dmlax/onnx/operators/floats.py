"""Operators on floats, integers and booleans.

Sums, products, quotients and square roots of normal floats are IEEE's on every backend, since a
quantization that follows rounds them. Exponentials, reductions and matrix products are XLA's.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dmlax._core import compat, float_bits, ieee
from dmlax._core.arguments import expand_rank
from dmlax._core.requantize import Arithmetic
from dmlax._rows import call as rows
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import OWN
from dmlax.onnx.operators import error_function
from dmlax.onnx.operators.table import Parameter, Tensor, operator
from dmlax.onnx.operators.values import (
    DTYPES,
    FloatSizes,
    as_known,
    convert,
    device_dtype,
    expect_broadcast,
    expect_room,
    is_known,
    to_device,
)
from dmlax.onnx.operators.windows import Windows

_BINARY = (7, 13, 14)
_MOST_TAPS = 64  # of a depthwise convolution that a CPU computes as a sum of shifted images


def _binary(on_host: Callable[..., Any], on_device: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two broadcast operands, NumPy's and JAX's."""

    def compute(a: Tensor, b: Tensor, /) -> Any:
        if is_known(a) and is_known(b):
            expect_room(np.result_type(a, b), *np.broadcast_shapes(a.shape, b.shape))
            with np.errstate(all="ignore"):
                return as_known(on_host(a, b), np.result_type(a.dtype, b.dtype))
        return on_device(*_align(to_device(a), to_device(b)))

    return compute


def _align(a: Any, b: Any) -> tuple[Any, Any]:
    """Gives both one rank, as JAX's strict modes want."""
    expect_broadcast(a, b)
    rank = max(a.ndim, b.ndim)
    return expand_rank(a, rank, scalars=True), expand_rank(b, rank, scalars=True)


def _of_numbers(of_floats: Callable[..., Any], of_integers: Callable[..., Any]) -> Any:
    """The arithmetic of floats, or that of integers."""

    def compute(a: Any, b: Any) -> Any:
        return of_floats(a, b) if jnp.issubdtype(a.dtype, jnp.floating) else of_integers(a, b)

    return compute


multiply = _of_numbers(ieee.multiply, jnp.multiply)


def _integer_quotient(a: Any, b: Any) -> Any:
    """ONNX's quotient of integers, towards zero; of sizes, which are positive, the floor."""
    if np.asarray(a).dtype == object or np.asarray(b).dtype == object:
        return a // b
    if np.dtype(a.dtype).kind == "f":
        return a / b
    return np.trunc(np.true_divide(a, b)).astype(a.dtype)


def _truncated_quotient(a: Any, b: Any) -> Any:
    return lax.div(*jnp.broadcast_arrays(a, b))


_ARITHMETIC: tuple[tuple[str, Any, Any], ...] = (
    ("Add", np.add, _of_numbers(ieee.add, jnp.add)),
    ("Sub", np.subtract, _of_numbers(ieee.subtract, jnp.subtract)),
    ("Mul", np.multiply, multiply),
    ("Div", _integer_quotient, _of_numbers(ieee.divide, _truncated_quotient)),
)
_COMPARISONS: tuple[tuple[str, tuple[int, ...], Any, Any], ...] = (
    ("Equal", (7, 11, 13, 19), np.equal, jnp.equal),
    ("Greater", (7, 9, 13), np.greater, jnp.greater),
    ("GreaterOrEqual", (12, 16), np.greater_equal, jnp.greater_equal),
    ("Less", (7, 9, 13), np.less, jnp.less),
    ("LessOrEqual", (12, 16), np.less_equal, jnp.less_equal),
    ("And", (7,), np.logical_and, jnp.logical_and),
    ("Or", (7,), np.logical_or, jnp.logical_or),
    ("Xor", (7,), np.logical_xor, jnp.logical_xor),
)
for _op, _host, _device in _ARITHMETIC:
    operator(_op, *_BINARY)(_binary(_host, _device))
for _op, _versions, _host, _device in _COMPARISONS:
    operator(_op, *_versions)(_binary(_host, _device))


@operator("Erf", 9, 13)
def erf(x: Tensor, /) -> Any:
    """The error function: XLA's, and of known values ONNX Runtime's bits."""
    if is_known(x) and x.dtype == np.float32:
        expect_room(np.float64, 8, x.size)  # of what it computes on the way
        return error_function.erf(x)
    return jax.scipy.special.erf(to_device(x))


@operator("Mod", 10, 13, 28)
def remainder(a: Tensor, b: Tensor, /, *, fmod: int = 0) -> Any:
    """The remainder of the divisor's sign; with fmod, of the dividend's."""
    pair = _binary(np.fmod, jnp.fmod) if fmod else _binary(np.mod, jnp.mod)
    return pair(a, b)


@operator("Sqrt", 6, 13)
def sqrt(x: Tensor, /) -> Any:
    """The square root."""
    if is_known(x):
        expect_room(np.float64, x.size)
        with np.errstate(all="ignore"):
            return np.sqrt(x)
    return ieee.sqrt(x)


@operator("Pow", 7, 12, 13, 15)
def power(x: Tensor, exponent: Parameter, /) -> Any:
    """Raises to a power; a square is a product."""
    if is_known(x) and is_known(exponent):
        expect_room(np.result_type(x, exponent), *np.broadcast_shapes(x.shape, exponent.shape))
        return np.power(x, exponent).astype(x.dtype)
    if is_known(exponent) and exponent.size == 1 and float(exponent.ravel()[0]) == 2.0:
        return multiply(to_device(x), to_device(x))
    x, exponent = _align(to_device(x), to_device(exponent))
    return jnp.power(x, exponent.astype(x.dtype))


@operator("HardSigmoid", 6, 22)
def hard_sigmoid(
    x: Tensor, /, *, alpha: float = 0.2, beta: float = 0.5, arithmetic: Arithmetic
) -> Any:
    """max(min(alpha x + beta, 1), 0), rounded once; "float32" rounds the product, too."""
    x = to_device(x)
    slope, start = (x.dtype.type(each) for each in (alpha, beta))
    if arithmetic == "exact" and x.dtype == np.float32:
        slope, start = (jnp.full(x.shape, each) for each in (slope, start))
        return jnp.clip(float_bits.fma(jnp.asarray(x), slope, start), 0, 1)
    return jnp.clip(ieee.add(ieee.multiply(x, slope), start), 0, 1)


@operator("HardSwish", 14, 22)
def hard_swish(x: Tensor, /, *, arithmetic: Arithmetic) -> Any:
    """X times its hard sigmoid of slope 1/6."""
    x = to_device(x)
    return ieee.multiply(x, hard_sigmoid(x, alpha=1 / 6, beta=0.5, arithmetic=arithmetic))


@operator("LeakyRelu", 6, 16)
def leaky_relu(x: Tensor, /, *, alpha: float = 0.01) -> Any:
    """X, or alpha x below 0."""
    x = to_device(x)
    return jnp.where(x >= 0, x, ieee.multiply(x, x.dtype.type(alpha)))


@operator("Gelu", 20)
@operator("Gelu", 1, domain="com.microsoft")
def gelu(x: Tensor, /, *, approximate: str = "none") -> Any:
    """The Gaussian error linear unit."""
    return jax.nn.gelu(to_device(x), approximate=approximate == "tanh")


@operator("Clip", 11, 12, 13)
def clip(x: Tensor, lowest: Parameter | None = None, highest: Parameter | None = None, /) -> Any:
    """Limits values from below, then from above."""
    if lowest is not None:
        x = maximum(x, lowest)
    return x if highest is None else minimum(x, highest)


@operator("Clip", 6)
def clip_by_attribute(x: Tensor, /, *, max: float = math.inf, min: float = -math.inf) -> Any:
    """Limits values."""
    return jnp.clip(to_device(x), min, max)


def _reduced(on_host: Any, on_device: Any) -> Callable[..., Any]:
    pair = _binary(on_host, on_device)

    def compute(*inputs: Tensor) -> Any:
        return functools.reduce(pair, inputs)

    return compute


def _of_sizes(of_numbers: Any, of_sizes: Any) -> Callable[..., Any]:
    """A function of two known operands: JAX's for symbolic sizes."""
    extreme = np.frompyfunc(of_sizes, 2, 1)
    return lambda a, b: (extreme if object in (a.dtype, b.dtype) else of_numbers)(a, b)


minimum = _reduced(_of_sizes(np.minimum, jax.core.min_dim), jnp.minimum)
maximum = _reduced(_of_sizes(np.maximum, jax.core.max_dim), jnp.maximum)
operator("Min", 8, 12, 13)(minimum)
operator("Max", 8, 12, 13)(maximum)


@operator("Where", 9, 16)
def where(condition: Tensor, x: Tensor, y: Tensor, /) -> Any:
    """Chooses elements."""
    if all(map(is_known, (condition, x, y))):
        shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
        expect_room(np.result_type(x, y), *shape)
        return np.where(condition, x, y)
    arrays = [to_device(each) for each in (condition, x, y)]
    expect_broadcast(*arrays)
    return jnp.where(*jnp.broadcast_arrays(*arrays))


@operator("Cast", 6, 9, 13, 19, 21, 23, 24, 25, 28)
def cast(x: Tensor, /, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """Converts to another dtype; floats are truncated towards zero."""
    if to not in DTYPES:
        raise UnsupportedError(f"its data type {to} is not known")
    dtype = DTYPES[to]
    has_symbols = x.dtype == object
    if is_known(x) and (not has_symbols or dtype.kind in "iu"):
        expect_room(dtype, x.size)
        return x if has_symbols else convert(x, dtype, bool(saturate))
    if has_symbols and dtype == np.float32:
        return x.view(FloatSizes)
    return convert(to_device(x), device_dtype(dtype), bool(saturate))


@operator("MatMul", 1, 9, 13)
def matrix_product(a: Tensor, b: Tensor, /) -> Any:
    """Multiplies matrices, in float32 throughout."""
    return jnp.matmul(to_device(a), to_device(b), precision=lax.Precision.HIGHEST)


@operator("Einsum", 12, 28)
def einstein_sum(*inputs: Tensor, equation: str) -> Any:
    """Multiplies along the axes of an equation, and adds."""
    operands = [to_device(x) for x in inputs]
    return jnp.einsum(equation, *operands, precision=lax.Precision.HIGHEST)


@operator("Gemm", 7, 9, 11, 13)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    """Multiplies matrices and adds a third."""
    a, b = to_device(a), to_device(b)
    left, right = a.T if transA else a, b.T if transB else b
    product = alpha * jnp.matmul(left, right, precision=lax.Precision.HIGHEST)
    if c is None:
        return product
    return jnp.add(*_align(product, beta * to_device(c)))


@operator("Conv", 1, 11, 22)
def convolution(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Any:
    """Convolves floats."""
    image, filter = to_device(x), to_device(w)
    count = image.ndim - 2
    sizes, kernel = list(image.shape[2:]), filter.shape[2:]
    start, end = Windows(auto_pad, dilations, kernel, pads, strides).padding(sizes, kernel)
    padding = list(zip(start, end, strict=True))
    strides, dilations = (each or (1,) * count for each in (strides, dilations))

    def convolve(operands: Any) -> Any:
        image, filter = operands
        return lax.conv_general_dilated(
            image,
            filter,
            strides,
            padding,
            rhs_dilation=dilations,
            feature_group_count=group,
            precision=lax.Precision.HIGHEST,
        )

    is_depthwise = group == image.shape[1] == filter.shape[0]
    if is_depthwise and math.prod(kernel) <= _MOST_TAPS:
        result = jax.eval_shape(convolve, (image, filter))
        add_taps = functools.partial(_add_taps, result.shape[2:], padding, strides, dilations)
        result = compat.by_platform((image, filter), result, convolve, {"cpu": add_taps})
    else:
        result = convolve((image, filter))
    return result if bias is None else result + to_device(bias).reshape(1, -1, *(1,) * count)


def _add_taps(sizes: Any, padding: Any, strides: Any, dilations: Any, operands: Any) -> Any:
    """A depthwise convolution as a sum of shifted images, for which XLA has one loop on a CPU."""
    image, filter = operands
    padded = jnp.pad(image, [(0, 0), (0, 0), *padding])
    total = None
    for tap in np.ndindex(filter.shape[2:]):
        starts = [index * step for index, step in zip(tap, dilations, strict=True)]
        axes = [
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size, stride in zip(starts, sizes, strides, strict=True)
        ]
        factor = filter[(slice(None), 0, *tap)].reshape(-1, *(1,) * len(sizes))
        term = padded[(..., *axes)] * factor
        total = term if total is None else total + term
    return total


@operator("Softmax", 13)
def softmax(x: Tensor, /, *, axis: int = -1) -> Any:
    """The exponentials divided by their sum."""
    x = to_device(x)
    return jnp.moveaxis(rows.softmax(jnp.moveaxis(x, axis, -1)), -1, axis)


@operator("Softmax", 1, 11)
def softmax_of_matrix(x: Tensor, /, *, axis: int = 1) -> Any:
    """Softmax over all axes from `axis` on, flattened."""
    x = to_device(x)
    flat = x.reshape((math.prod(x.shape[:axis]), -1))
    return rows.softmax(flat).reshape(x.shape)


def normalize(
    x: Any, scale: Any, bias: Any = None, *, epsilon: float, axis: int = -1, is_centred: bool = True
) -> tuple[Any, Any, Any]:
    """Normalizes the axes from `axis` on.

    Args:
      x: a tensor of floats.
      scale: a factor that broadcasts to those axes, of the dtype of `x`.
      bias: an addend that broadcasts likewise, or None.
      epsilon: added to the variance.
      axis: the first axis to normalize.
      is_centred: False to divide by the root mean square, without a mean.

    Returns:
      The result, the mean and 1 / deviation.
    """
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True) if is_centred else jnp.zeros((1,) * x.ndim, x.dtype)
    centred = ieee.subtract(x, mean)
    variance = ieee.multiply(centred, centred).mean(axes, keepdims=True)
    deviation = ieee.sqrt(ieee.add(variance, x.dtype.type(epsilon)))
    if axes == (x.ndim - 1,) and scale.shape == x.shape[-1:]:
        y = rows.normalize(x, scale, bias, epsilon, is_centred=is_centred)
    else:
        y = ieee.multiply(*_align(ieee.divide(centred, deviation), to_device(scale)))
        y = y if bias is None else ieee.add(*_align(y, to_device(bias)))
    return y, mean, ieee.divide(jnp.ones_like(deviation), deviation)


@operator("LayerNormalization", 17)
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    """Normalizes the axes from `axis` on; returns the mean and 1 / deviation too."""
    return normalize(to_device(x), scale, bias, epsilon=epsilon, axis=axis)


@operator("RootMeanSquareNormalization", 1, domain=OWN)
def root_mean_square_normalization(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, /, *, epsilon: float
) -> Any:
    """Divides the last axis by the root of its mean square."""
    return rows.normalize(to_device(x), scale, bias, epsilon, is_centred=False)


@operator("BatchNormalization", 9, 14, 15)
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    /,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:
    """Normalizes channels by statistics of the file: a factor and an offset, as ONNX Runtime's."""
    if training_mode:
        raise UnsupportedError("training_mode is 1, expected 0")
    x, shape = to_device(x), (1, -1) + (1,) * (x.ndim - 2)
    scale, bias, mean, variance = (
        jnp.asarray(each).reshape(shape) for each in (scale, bias, mean, variance)
    )
    deviation = ieee.sqrt(ieee.add(variance, variance.dtype.type(epsilon)))
    factor = ieee.multiply(ieee.divide(jnp.ones_like(deviation), deviation), scale)
    offset = ieee.subtract(bias, ieee.multiply(mean, factor))
    return ieee.add(ieee.multiply(x, factor), offset)
