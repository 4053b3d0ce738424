"""Operators on floats, integers and booleans.

Sums, products, quotients and square roots of normal floats are IEEE's on every backend, since a
quantization that follows rounds them. Exponentials and matrix products are XLA's.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from dmlax._core import compat, exact, float_bits, float_functions, ieee, sums
from dmlax._core.arguments import expand_rank
from dmlax._core.requantize import Arithmetic
from dmlax._fused.rows import call as rows
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import MICROSOFT, OWN
from dmlax.onnx.operators import error_function
from dmlax.onnx.operators.float64 import fits_float32
from dmlax.onnx.operators.table import Parameter, Tensor, operator
from dmlax.onnx.operators.values import (
    DTYPES,
    Float64,
    by_channel,
    convert,
    device_dtype,
    expect_broadcast,
    expect_memory,
    expect_product,
    has_x64,
    is_known,
    to_device,
)

_Pair = Callable[..., Array]
_ARITHMETIC = (7, 13, 14)
_LIMITS = {"min": float, "max": float}
_BLOCK, _FEWEST = 128, 16  # depth and width of a block of ONNX Runtime's products; columns


def align(a: Tensor, b: Tensor) -> tuple[Array, Array]:
    """Both operands on the device, with one rank, as JAX's strict modes want.

    Raises:
      UndecidedSizes: symbolic sizes may not broadcast.
    """
    expect_broadcast(a.shape, b.shape)
    rank = max(a.ndim, b.ndim)
    return expand_rank(to_device(a), rank, scalars=True), expand_rank(
        to_device(b), rank, scalars=True
    )


def binary(function: Callable[..., Array]) -> Callable[[Tensor, Tensor], Array]:
    """A function of two broadcast operands."""
    return lambda a, b: function(*align(a, b))


def is_float(x: Tensor) -> bool:
    """True for a tensor of floats."""
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def on_floats(of_floats: Callable[..., Array], otherwise: Callable[..., Array]) -> _Pair:
    """A function of two tensors that treats floats apart."""
    return lambda a, b: (of_floats if is_float(a) else otherwise)(a, b)


add = on_floats(ieee.add, jnp.add)
multiply = on_floats(ieee.multiply, jnp.multiply)


def _truncated_quotient(a: Array, b: Array) -> Array:
    return lax.div(*jnp.broadcast_arrays(a, b))


BINARY: tuple[tuple[str, tuple[int, ...], _Pair], ...] = (
    ("Add", _ARITHMETIC, add),
    ("And", (7,), jnp.logical_and),
    ("BitwiseAnd", (18,), jnp.bitwise_and),
    ("BitwiseOr", (18,), jnp.bitwise_or),
    ("BitwiseXor", (18,), jnp.bitwise_xor),
    ("Div", _ARITHMETIC, on_floats(ieee.divide, _truncated_quotient)),
    ("Equal", (7, 11, 13, 19), jnp.equal),
    ("Greater", (7, 9, 13), jnp.greater),
    ("GreaterOrEqual", (12, 16), jnp.greater_equal),
    ("Less", (7, 9, 13), jnp.less),
    ("LessOrEqual", (12, 16), jnp.less_equal),
    ("Mul", _ARITHMETIC, multiply),
    ("Or", (7,), jnp.logical_or),
    ("Sub", _ARITHMETIC, on_floats(ieee.subtract, jnp.subtract)),
    ("Xor", (7,), jnp.logical_xor),
)
for _op, _versions, _device in BINARY:
    operator(_op, *_versions)(binary(_device))


@operator("Erf", 9, 13)
def erf(x: Tensor, *, arithmetic: Arithmetic) -> Tensor:
    """The error function: with "float32" XLA's, and ONNX Runtime's bits of known values."""
    if arithmetic == "exact":
        if not is_known(x):
            return exact.apply(float_functions.erf, to_device(x))
        with compat.on_cpu_at_once():
            return np.asarray(exact.apply(float_functions.erf, jnp.asarray(x)))
    if is_known(x) and x.dtype == np.float32:
        expect_memory(np.float64, 8, x.size)  # intermediate values
        return error_function.erf(x)
    return jnp.asarray(jax.scipy.special.erf(to_device(x)))


@operator("Mod", 10, 13, 28)
def remainder(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """The remainder, with the divisor's sign; fmod keeps the dividend's sign."""
    return binary(jnp.fmod if fmod else jnp.mod)(a, b)


@operator("Sqrt", 6, 13)
def sqrt(x: Array) -> Array:
    """The square root."""
    root: Array = ieee.sqrt(x)
    return root


@operator("Pow", 7, 12, 13, 15)
def power(x: Tensor, exponent: Parameter) -> Tensor:
    """Raises to a power; a square is a product."""
    if np.dtype(x.dtype).kind in "iu":
        powers: Array = compat.in_64_bits(lambda pair: _integer_power(*pair), align(x, exponent))
        return powers
    if is_known(exponent) and exponent.size == 1 and float(exponent.ravel()[0]) == 2.0:
        return multiply(to_device(x), to_device(x))
    base, other = align(x, exponent)
    dtypes = {base.dtype, other.dtype} if is_float(other) else {base.dtype}
    common = base.dtype if len(dtypes) == 1 else max(np.dtype(np.float32), *dtypes, key=_size)
    raised_on_device = jnp.power(base.astype(common), other.astype(common))
    if other.dtype.kind in "iu":  # a float of it may have lost the last bit
        size, is_odd = abs(raised_on_device), other % 2 == 1
        signed = jnp.where(is_odd, -size, size)
        raised_on_device = jnp.where(jnp.signbit(base), signed, raised_on_device)
    return convert(raised_on_device, base.dtype)


def _size(dtype: np.dtype) -> int:
    return dtype.itemsize


def _integer_power(x: Array, exponent: Array) -> Array:
    """The float64 power, truncated; what does not fit is the lowest integer, as on an x86-64.

    ONNX Runtime multiplies along an axis that shares the exponent 2 or 3, and products wrap.
    """
    limits = np.iinfo(x.dtype)
    power = jnp.trunc(jnp.power(x.astype(np.float64), exponent.astype(np.float64)))
    fits = (power >= float(limits.min)) & (power < float(limits.max) + (limits.bits < 64))
    power = jnp.where(fits, jnp.where(fits, power, 0).astype(x.dtype), x.dtype.type(limits.min))
    sizes = itertools.zip_longest(x.shape[::-1], exponent.shape[::-1], fillvalue=1)
    last, of_exponent = next((pair for pair in sizes if pair != (1, 1)), (1, 1))
    if of_exponent == 1 != last:
        power = jnp.where(exponent == 2, x * x, power)
        power = jnp.where(exponent == 3, x * x * x, power)
    return power


@operator("HardSigmoid", 6, 22)
def hard_sigmoid(
    x: Array, *, alpha: float = 0.2, beta: float = 0.5, arithmetic: Arithmetic
) -> Array:
    """max(min(alpha x + beta, 1), 0), rounded once; "float32" rounds the product, too."""
    slope, start = x.dtype.type(alpha), x.dtype.type(beta)
    if arithmetic == "exact" and x.dtype == np.float32:
        factors = jnp.full(x.shape, slope), jnp.full(x.shape, start)
        return jnp.clip(float_bits.fma(x, *factors), 0, 1)
    return jnp.clip(ieee.add(ieee.multiply(x, slope), start), 0, 1)


@operator("HardSwish", 14, 22)
def hard_swish(x: Array, *, arithmetic: Arithmetic) -> Array:
    """X times its hard sigmoid of slope 1/6."""
    return ieee.multiply(x, hard_sigmoid(x, alpha=1 / 6, beta=0.5, arithmetic=arithmetic))


@operator("LeakyRelu", 6, 16)
def leaky_relu(x: Array, *, alpha: float = 0.01) -> Array:
    """X, or alpha x below 0."""
    return jnp.where(x >= 0, x, ieee.multiply(x, x.dtype.type(alpha)))


@operator("Gelu", 20)
@operator("Gelu", 1, domain=MICROSOFT)
def gelu(x: Array, *, approximate: str = "none", arithmetic: Arithmetic) -> Array:
    """The Gaussian error linear unit."""
    if arithmetic == "exact":
        is_by_tanh = approximate == "tanh"
        return exact.apply(float_functions.gelu_tanh if is_by_tanh else float_functions.gelu, x)
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@operator("Clip", 11, 12, 13)
@operator("Clip", 6, attributes=_LIMITS)
@operator("Clip", 1, attributes=_LIMITS, ignores=["consumed_inputs"])
def clip(x: Tensor, min: Parameter | None = None, max: Parameter | None = None) -> Tensor:
    """Limits values from below, then from above: floats to finite ones; NaN is no limit."""
    if is_float(x):
        most = np.asarray(jnp.finfo(x.dtype).max)  # type: ignore[no-untyped-call]
        min, max = -most if min is None else min, most if max is None else max
    if min is not None:
        x = maximum(x, _limit(min, -np.inf))
    return x if max is None else minimum(x, _limit(max, np.inf))


def _limit(limit: Parameter, none: float) -> Tensor:
    if not is_float(limit):
        return limit
    library = np if is_known(limit) else jnp
    limiting: Tensor = library.where(limit == limit, limit, limit.dtype.type(none))
    return limiting


def _reduced(function: _Pair) -> Callable[..., Tensor]:
    """A function of one or more tensors."""

    def compute(*inputs: Tensor) -> Tensor:
        return functools.reduce(binary(function), inputs)

    return compute


minimum = _reduced(jnp.minimum)
maximum = _reduced(jnp.maximum)
operator("Min", 8, 12, 13)(minimum)
operator("Max", 8, 12, 13)(maximum)


@operator("Where", 9, 16)
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Chooses elements."""
    expect_broadcast(condition.shape, x.shape, y.shape)
    chosen, one, other = jnp.broadcast_arrays(*map(to_device, (condition, x, y)))
    return jnp.where(chosen, one, other)


@operator("Cast", 6, 9, 13, 19, 21, 23, 24, 25, 28, ignores=["round_mode"])
def cast(x: Tensor, *, to: int, saturate: int = 1) -> Any:
    """Converts to another dtype; floats are truncated towards zero."""
    if to not in DTYPES:
        raise UnsupportedError(f"its data type {to} is not known")
    dtype = DTYPES[to]
    x = to_device(x)
    if dtype == np.float64 and not has_x64() and fits_float32(x):
        return Float64(x.astype(np.float32))
    return convert(x, device_dtype(dtype), bool(saturate))


@operator("MatMul", 1, 9, 13)
def matrix_product(a: Array, b: Array) -> Array:
    """Multiplies matrices, in float32 throughout."""
    expect_product(a, b)
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


@operator("Einsum", 12, 28)
def einstein_sum(*inputs: Array, equation: str, arithmetic: Arithmetic) -> Array:
    """Multiplies along the axes of an equation, and adds; "exact" from the first to the last."""
    first_to_last: list[tuple[int, ...]] = [(0, 1)] * (len(inputs) - 1) or [(0,)]
    path: Any = first_to_last if arithmetic == "exact" else "auto"
    return jnp.einsum(equation, *inputs, optimize=path, precision=lax.Precision.HIGHEST)


class GemmFactors(NamedTuple):
    """The attributes of a Gemm."""

    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0


@operator("Gemm", 7, 9, 11, 13)
def gemm(a: Array, b: Array, c: Array | None = None, *, factors: GemmFactors) -> Array:
    """Multiplies matrices and adds a third."""
    left, right = a.T if factors.transA else a, b.T if factors.transB else b
    product = factors.alpha * matrix_product(left, right)
    return product if c is None else jnp.add(*align(product, factors.beta * c))


@operator("MatMul", 1, domain=OWN)
def ordered_product(a: Array, b: Array) -> Array:
    """Multiplies matrices of floats in ONNX Runtime's order of sums."""
    is_plain = a.ndim < 2 or b.ndim != 2 or not isinstance(b.shape[0], int)
    return matrix_product(a, b) if is_plain else multiply_in_order(a, b)


@operator("Gemm", 1, domain=OWN)
def ordered_gemm(a: Array, b: Array, c: Array | None = None, *, factors: GemmFactors) -> Array:
    """Multiplies matrices of floats in ONNX Runtime's order of sums, which begin with the bias."""
    return multiply_in_order(a.T if factors.transA else a, b.T if factors.transB else b, c)


def multiply_in_order(a: Array, b: Array, start: Array | None = None) -> Array:
    """A sum of products of parts of the depth; XLA on a CPU adds up a part element by element."""
    expect_product(a, b)
    depth, width = b.shape[-2:]
    size, columns = _BLOCK, _BLOCK
    while isinstance(width, int) and columns > _FEWEST and columns // 2 >= width:
        size, columns = size * 2, columns // 2

    def add_part(place: ArrayLike, total: Array | None, count: int = size) -> Array:
        left = lax.dynamic_slice_in_dim(a, place, count, a.ndim - 1)
        part = matrix_product(left, lax.dynamic_slice_in_dim(b, place, count, b.ndim - 2))
        return part if total is None else ieee.add(*align(total, part))

    total = add_part(0, start, min(size, depth))
    whole = depth // size
    if whole > 1:
        total = lax.fori_loop(1, whole, lambda i, total: add_part(i * size, total), total)
    return add_part(whole * size, total, depth % size) if whole and depth % size else total


def are_columns(x: Tensor, *parameters: Tensor | None) -> bool:
    """True if each parameter that is there has a value for every column of rows."""
    return all(values is None or values.shape == x.shape[-1:] for values in parameters)


def normalize(
    x: Array,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    epsilon: float,
    axis: int = -1,
    is_centred: bool = True,
) -> tuple[Array, Array, Array]:
    """Normalizes the axes from `axis` on.

    Args:
      x: a tensor of floats.
      scale: a factor that broadcasts to those axes, of the dtype of `x`.
      bias: an addend that broadcasts to those axes, or None.
      epsilon: added to the variance.
      axis: the first axis to normalize.
      is_centred: False to divide by the root mean square, without a mean.

    Returns:
      The result, the mean and 1 / deviation.
    """
    axes = tuple(range(axis % x.ndim, x.ndim))
    zero = jnp.zeros((1,) * x.ndim, x.dtype)
    mean = sums.mean(x, axes, sums.IN_ROWS) if is_centred else zero
    centred = ieee.subtract(x, mean)
    variance = sums.mean(ieee.multiply(centred, centred), axes, sums.IN_ROWS)
    deviation = ieee.sqrt(ieee.add(variance, x.dtype.type(epsilon)))
    if axes == (x.ndim - 1,) and are_columns(x, scale, bias):
        y = rows.normalize(x, scale, bias, epsilon, is_centred=is_centred)
    else:
        y = ieee.multiply(*align(ieee.divide(centred, deviation), scale))
        y = y if bias is None else ieee.add(*align(y, bias))
    return y, mean, ieee.divide(jnp.ones_like(deviation), deviation)


@operator("LayerNormalization", 1, domain=MICROSOFT, ignores=["stash_type"])
@operator("LayerNormalization", *range(1, 18), ignores=["stash_type"])
def layer_normalization(
    x: Array, scale: Tensor, bias: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> tuple[Array, Array, Array]:
    """Normalizes the axes from `axis` on; returns the mean and 1 / deviation too.

    A narrow float, such as float16, is widened to float32, the dtype of the mean and the deviation.
    """
    dtype = x.dtype
    if dtype.itemsize < 4:
        x, scale = x.astype(np.float32), scale.astype(np.float32)
        bias = None if bias is None else bias.astype(np.float32)
    y, mean, inverse = normalize(x, scale, bias, epsilon=epsilon, axis=axis)
    return y.astype(dtype), mean, inverse


@operator("RootMeanSquareNormalization", 1, domain=OWN)
def root_mean_square_normalization(
    x: Array, scale: Tensor, bias: Tensor | None = None, *, epsilon: float
) -> Array:
    """Divides the last axis by the root of its mean square."""
    return normalize(x, scale, bias, epsilon=epsilon, is_centred=False)[0]


class ChannelStatistics(NamedTuple):
    """The inputs of a normalization of channels."""

    scale: Tensor
    bias: Tensor
    mean: Tensor
    variance: Tensor


@operator("BatchNormalization", 14, 15)
def batch_normalization(
    x: Array,
    of: ChannelStatistics,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Array, ...]:
    """Normalizes channels by a factor and an offset, which it computes as ONNX Runtime does.

    In training the statistics are the batch's. The other outputs are the mean and the variance that
    follow them, the batch's mean and the reciprocal of its deviation.
    """
    scale, bias, mean, variance = (by_channel(values, x.ndim) for values in of)
    followed = mean, variance
    if training_mode:
        axes = (0, *range(2, x.ndim))
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    deviation = ieee.sqrt(ieee.add(variance, variance.dtype.type(epsilon)))
    inverse = ieee.divide(jnp.ones_like(deviation), deviation)
    factor = ieee.multiply(inverse, scale)
    offset = ieee.subtract(bias, ieee.multiply(mean, factor))
    y = ieee.add(ieee.multiply(x, factor), offset)
    if not training_mode:
        return (y,)
    pairs = zip(followed, (mean, variance), strict=True)
    moved = (old * momentum + new * (1 - momentum) for old, new in pairs)
    return y, *(values.ravel() for values in (*moved, mean, inverse))


@operator("BatchNormalization", 7, 9)
def batch_normalization_by_outputs(
    x: Array,
    of: ChannelStatistics,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: Annotated[int, (1,)] = 1,
    output_count: int,
) -> tuple[Array, ...]:
    """Normalizes as the later forms do; a node of several outputs is one in training."""
    is_training = int(output_count > 1)
    return batch_normalization(x, of, epsilon=epsilon, momentum=momentum, training_mode=is_training)
