"""Operators of single elements: sums, products, comparisons, activations, (de)quantizations."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax
from dmlax._core import fixed_point, ieee
from dmlax._core import requantize as core
from dmlax._core.fixed_point import Multiplier
from dmlax._core.quantized_sum import SumRequantization, sum_by_factors, sum_factors
from dmlax.errors import UnsupportedError
from dmlax.litert.operators import requantize
from dmlax.litert.operators.fixed_functions import FixedFunctions
from dmlax.litert.operators.requantize import less_zero
from dmlax.litert.operators.table import Call, Info, Tensor, operator

_EVEN = lax.RoundingMethod.TO_NEAREST_EVEN


@operator("ADD", "SUB")
def add(name: str, call: Call, a: Array, b: Array) -> Array:
    """The sum, or the difference."""
    sign = -1 if name == "SUB" else 1
    if not call.is_quantized:
        return call.activate(a + b if sign == 1 else a - b)
    first, second, output = call.info(0), call.info(1), call.output
    x, y = less_zero(a, first), less_zero(b, second)
    is_wide = output.dtype == np.int16
    if call.resolver == "exact" and sign == 1 and not is_wide:
        return _exact(call, dmlax.element_wise_quantized_linear_add, a, b)
    left = 15 if is_wide else 20
    is_delegated = call.resolver == "xnnpack" and not is_wide and _takes(call)
    if call.resolver == "xnnpack" and not is_wide and not is_delegated and sign == 1:
        return _add_in_vectors(call, x, y)
    mode: SumRequantization = "fixed_point_single" if is_delegated else "fixed_point_double"
    is_once = is_wide and sign == 1 and call.resolver != "reference"
    scale = fixed_point.scale_once if is_once else fixed_point.scale_half_away
    by = sum_factors(mode, first.scale, second.scale, output.scale, left)
    total = sum_by_factors(mode, x, y, by, sign, left, scale)
    return requantize.clamp(total, call, is_delegated=is_delegated)


def _takes(call: Call) -> bool:
    """True for scales of a sum that XNNPACK takes; LiteRT's built-in kernels add others."""
    ratios = (call.info(i).scale / call.output.scale for i in range(2))
    return all(2.0**-10 <= ratio < 2.0**8 for ratio in ratios)


def _add_in_vectors(call: Call, x: Array, y: Array) -> Array:
    """The sum by LiteRT's built-in kernel."""
    first, second = call.info(0).scale, call.info(1).scale
    by = sum_factors("fixed_point_double", first, second, call.output.scale)
    last = sum_by_factors("fixed_point_double", x, y, by)
    once = sum_by_factors("fixed_point_double", x, y, by, scale=fixed_point.scale_once)
    return _by_vectors(call, (x, y), once, last, (8, 8))


def _by_vectors(
    call: Call, operands: tuple[Array, Array], whole: Array, last: Array, of_one: tuple[int, int]
) -> Array:
    """Rounded elements of LiteRT's built-in kernels: whole vectors wrap at 16 bits.

    Vectors have 16 int8 or 8 uint8; beside a single value, `of_one` of them, 0 if not known.
    """
    first, second = (x.size for x in operands)
    is_unsigned, count = call.output.dtype == np.uint8, max(first, second)
    size = ((16, 8) if first == second else of_one)[is_unsigned]
    if (operands[0].shape != operands[1].shape and min(first, second) != 1) or size == 0:
        text = "its scales are far apart, and its tensors broadcast"
        raise UnsupportedError(f'{text}: use arithmetic="reference"')
    rest = requantize.clamp(last, call)
    narrow = (whole + call.output.zero_point).astype(jnp.int16)
    wrapped = jnp.clip(narrow, *call.limits()).astype(rest.dtype)
    places = jnp.arange(count).reshape(rest.shape)
    return jnp.where(places < count - count % size, wrapped, rest)


def _exact(call: Call, function: Callable[..., Array], a: Array, b: Array) -> Array:
    """A sum or a product of bytes, rounded once."""
    zeros = {
        f"{name}_zero_point": np.array(info.zero_point, info.dtype)
        for name, info in (("a", call.info(0)), ("b", call.info(1)), ("output", call.output))
    }
    scales = {"a_scale": call.info(0).scale, "b_scale": call.info(1).scale}
    y = function(a, b, output_scale=call.output.scale, **scales, **zeros)
    return jnp.clip(y, *call.limits())


@operator("MUL")
def multiply(call: Call, a: Array, b: Array) -> Array:
    """The product."""
    if not call.is_quantized:
        return call.activate(a * b)
    first, second, output = call.info(0), call.info(1), call.output
    if call.resolver == "exact" and output.dtype.itemsize == 1:
        return _exact(call, dmlax.element_wise_quantized_linear_multiply, a, b)
    total = less_zero(a, first) * less_zero(b, second)
    factor = first.scale * second.scale / output.scale
    is_delegated = call.resolver == "xnnpack" and output.dtype.itemsize == 1
    if is_delegated and 2.0**-16 <= factor < 2.0**8:
        rounded = requantize.scale_float32(total, factor)
        return requantize.clamp(rounded, call, is_delegated=True)
    rounded = fixed_point.scale_half_away(total, Multiplier.of(float(factor)))
    if is_delegated:
        narrow = jnp.clip(rounded, -(2**15), 2**15 - 1)
        return _by_vectors(call, (a, b), narrow, rounded, (16, 0))
    return requantize.clamp(rounded, call)


@operator(
    "DIV", "FLOOR_DIV", "FLOOR_MOD", "POW", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "ATAN2"
)
def binary(name: str, call: Call, a: Array, b: Array) -> Array:
    """A function of two tensors."""
    if call.is_quantized and name == "SQUARED_DIFFERENCE":
        return _squared_difference(call, a, b)
    if call.is_quantized and name not in ("MAXIMUM", "MINIMUM"):
        raise UnsupportedError("its output has quantized integers, which are not computed")
    if call.is_quantized:
        _expect_equal(call, 2)
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "DIV": lambda x, y: x / y if x.dtype.kind == "f" else lax.div(*jnp.broadcast_arrays(x, y)),
        "FLOOR_DIV": lambda x, y: jnp.floor_divide(x, y),
        "FLOOR_MOD": lambda x, y: jnp.mod(x, y),
        "POW": lambda x, y: jnp.power(x, y),
        "MAXIMUM": jnp.maximum,
        "MINIMUM": jnp.minimum,
        "SQUARED_DIFFERENCE": lambda x, y: (x - y) * (x - y),
        "ATAN2": jnp.arctan2,
    }
    return call.activate(functions[name](a, b))


def _squared_difference(call: Call, a: Array, b: Array) -> Array:
    """The square of a difference of bytes, which a 7-bit shift refines; the same everywhere."""
    infos = call.info(0), call.info(1)
    twice = 2 * max(info.real for info in infos)
    x, y = (
        fixed_point.scale_half_away(less_zero(value, info) << 7, Multiplier.of(info.real / twice))
        for value, info in zip((a, b), infos, strict=True)
    )
    by = Multiplier.of(twice * twice / ((1 << 14) * call.output.real))
    return requantize.clamp(fixed_point.scale_half_away((x - y) * (x - y), by), call)


def _expect_equal(call: Call, count: int) -> None:
    """Refuses operands that are integers of other scales than the output."""
    for place in range(count):
        if not call.info(place).has_parameters_of(call.output):
            raise UnsupportedError(f"its operand {place + 1} has another scale than its output")


@operator("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
def compare(name: str, call: Call, a: Array, b: Array) -> Array:
    """Compares elements; integers of different scales are compared in steps of 1/256."""
    if call.info(0).is_quantized and not call.info(0).has_parameters_of(call.info(1)):
        pairs = ((a, call.info(0)), (b, call.info(1)))
        a, b = (
            fixed_point.scale_half_away(less_zero(x, info) << 8, Multiplier.of(info.real))
            for x, info in pairs
        )
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "LESS": jnp.less,
        "LESS_EQUAL": jnp.less_equal,
        "GREATER": jnp.greater,
        "GREATER_EQUAL": jnp.greater_equal,
        "EQUAL": jnp.equal,
        "NOT_EQUAL": jnp.not_equal,
    }
    return functions[name](a, b)


@operator("LOGICAL_AND", "LOGICAL_OR")
def combine(name: str, call: Call, a: Array, b: Array) -> Array:
    """Combines truth values."""
    return a & b if name == "LOGICAL_AND" else a | b


@operator("SELECT", "SELECT_V2")
def select(name: str, call: Call, condition: Array, a: Array, b: Array) -> Array:
    """Chooses from two tensors; SELECT's condition may be one value for each row."""
    if name == "SELECT" and condition.ndim == 1 < a.ndim:
        condition = condition.reshape(-1, *(1,) * (a.ndim - 1))
    return jnp.where(condition, a, b)


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ABS": jnp.abs,
    "CEIL": jnp.ceil,
    "COS": jnp.cos,
    "ELU": jax.nn.elu,
    "EXP": jnp.exp,
    "FLOOR": jnp.floor,
    "HARD_SWISH": lambda x: x * jnp.clip(x + 3, 0, 6) * jnp.float32(1 / 6),
    "LOG": jnp.log,
    "LOGICAL_NOT": jnp.logical_not,
    "LOGISTIC": jax.nn.sigmoid,
    "NEG": lambda x: -x,
    "ROUND": lambda x: lax.round(x, _EVEN),
    "RSQRT": lambda x: 1 / jnp.sqrt(x),
    "SIGN": jnp.sign,
    "SIN": jnp.sin,
    "SQRT": jnp.sqrt,
    "SQUARE": lambda x: x * x,
    "TANH": jnp.tanh,
    "ZEROS_LIKE": jnp.zeros_like,
}


@operator(*(name for name in _FUNCTIONS if name not in ("HARD_SWISH", "LOGISTIC", "TANH")))
def unary(name: str, call: Call, x: Array) -> Array:
    """A function of floats, or of integers without a scale; a few are of bytes, too."""
    if not call.is_quantized:
        return _FUNCTIONS[name](x)
    if name == "ABS":
        value = jnp.abs(less_zero(x, call.info(0)))
        return requantize.rescale(value, call, call.info(0), is_narrow=True)
    if name not in _OF_BYTES:
        raise UnsupportedError("its output has quantized integers, which are not computed")
    if name == "RSQRT" and call.resolver != "exact":
        return _reciprocal_root(call, x)
    return byte_function(call, x, _OF_BYTES[name], name == "ELU" and call.resolver == "xnnpack")


_OF_BYTES: dict[str, Callable[[Any], Any]] = {
    "ELU": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "EXP": lambda x: np.exp(x),
    "LOG": lambda x: np.log(x),
    "RSQRT": lambda x: 1 / np.sqrt(x),
}


def _reciprocal_root(call: Call, x: Array) -> Array:
    """1 / sqrt(x) of bytes with 20 fractional bits, by Newton steps; 0 gives the greatest byte."""
    source, output = call.info(0), call.output
    real = 1 / (math.sqrt(source.real) * output.real * (1 << 20))
    roots = jnp.asarray([FixedFunctions(32).reciprocal_root(i, 20) for i in range(1, 256)])
    value = less_zero(x, source)
    scaled = fixed_point.scale_half_away(roots[jnp.clip(value, 1) - 1], Multiplier.of(real))
    y = requantize.clamp(scaled, call)
    return jnp.where(value <= 0, jnp.asarray(call.limits()[1], y.dtype), y)


@operator("GELU")
def gelu(call: Call, x: Array) -> Array:
    """GELU, by the error function or by the hyperbolic tangent."""
    if not call.is_quantized:
        return jax.nn.gelu(x, approximate=call.approximate)

    def compute(value: Any) -> Any:
        if call.approximate:
            inner = np.sqrt(2 / np.pi) * (value + 0.044715 * value**3)
            return 0.5 * value * (1 + np.tanh(inner))
        return 0.5 * value * (1 + np.vectorize(math.erf)(value / np.sqrt(2)))

    return byte_function(call, x, compute)


@operator("LOGISTIC", "TANH")
def squash(name: str, call: Call, x: Array) -> Array:
    """A sigmoid; that of bytes is the real number, rounded once."""
    if not call.is_quantized:
        return _FUNCTIONS[name](x)

    def compute(value: np.ndarray) -> np.ndarray:
        return np.tanh(value) if name == "TANH" else 0.5 + 0.5 * np.tanh(0.5 * value)

    return byte_function(call, x, compute)


def byte_function(
    call: Call, x: Array, function: Callable[[np.ndarray], np.ndarray], is_narrow: bool = False
) -> Array:
    """Looks a function of bytes up, computed in float64 and rounded once.

    If narrow, float32 holds every step, and the zero point is added before the rounding.
    """
    source, output = call.info(0), call.output
    if {source.dtype.itemsize, output.dtype.itemsize} != {1}:
        raise UnsupportedError(f"it is computed of int8 and uint8, not of {source.dtype}")
    low = int(np.iinfo(source.dtype).min)
    order = np.arange(low, low + 256, dtype=np.float64)
    zero = np.float32(output.zero_point)
    with np.errstate(all="ignore"):
        value = (order - source.zero_point) * source.real
        if is_narrow:
            real = function(value.astype(np.float32).astype(np.float64)).astype(np.float32)
            real = real * (np.float32(1) / output.scale) + zero
        else:
            real = np.rint(function(value) / output.real) + zero
    rounded = np.rint(np.where(np.isnan(real), -np.inf, real))
    table = np.clip(rounded, *call.limits()).astype(output.dtype)
    return dmlax.quantized_lookup(x, table)


@operator("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def relu(name: str, call: Call, x: Array) -> Array:
    """Clamps elements."""
    if not call.is_quantized:
        limits = {"RELU": (0, None), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}
        return jnp.clip(x, *limits.get(name, (0, 1)))
    value = less_zero(x, call.info(0))
    return requantize.rescale(value, call, call.info(0), activation=name, is_narrow=True)


@operator("LEAKY_RELU")
def leaky_relu(call: Call, x: Array) -> Array:
    """Multiplies negative elements by a factor."""
    if not call.is_quantized:
        return jnp.where(x >= 0, x, x * np.float32(call.alpha))
    source, output = call.info(0), call.output
    value = less_zero(x, source)
    slopes = [source.scale / output.scale]
    slopes.append(source.scale * np.float32(call.alpha) / output.scale)
    if call.resolver == "exact":
        factors = np.float32(1), np.float32(call.alpha)
        y, below = (
            requantize.scale_exactly(value, (source.scale, factor, output.scale), output)
            for factor in factors
        )
        return jnp.where(value >= 0, y, below)
    if call.resolver == "xnnpack" and requantize.has_eight_bits(output, *slopes):
        y, below = (requantize.eight_bits(value, slope) for slope in slopes)
    else:
        y, below = (
            fixed_point.scale_half_away(value, Multiplier.of(float(slope))) for slope in slopes
        )
    return requantize.clamp(jnp.where(value >= 0, y, below), call)


@operator("PRELU")
def prelu(call: Call, x: Array, alpha: Array) -> Array:
    """Multiplies negative elements by factors."""
    if not call.is_quantized:
        return jnp.where(x >= 0, x, x * alpha)
    source, factor, output = call.info(0), call.info(1), call.output
    value = less_zero(x, source)
    product = value * less_zero(alpha, factor)
    if call.resolver == "exact":
        y = requantize.scale_exactly(value, (source.scale, np.float32(1), output.scale), output)
        scales = (source.scale, factor.scale, output.scale)
        return jnp.where(value >= 0, y, requantize.scale_exactly(product, scales, output))
    y = fixed_point.scale_half_away(value, Multiplier.of(float(source.scale / output.scale)))
    by = Multiplier.of(float(source.scale * factor.scale / output.scale))
    return requantize.clamp(
        jnp.where(value >= 0, y, fixed_point.scale_half_away(product, by)), call
    )


@operator("HARD_SWISH")
def hard_swish(call: Call, x: Array) -> Array:
    """x * min(max(x + 3, 0), 6) / 6; of bytes in fixed point of 16 bits."""
    if not call.is_quantized:
        return _FUNCTIONS["HARD_SWISH"](x)
    source, output = call.info(0), call.output
    if call.resolver == "exact":
        return byte_function(call, x, lambda x: x * np.clip(x + 3, 0, 6) / 6)
    fine = source.scale / np.float32(128)
    value = less_zero(x, source) << 7
    first, one = _in_16_bits(fine / output.scale)
    second, exponent = _in_16_bits(fine / np.float32(3 / 32768))
    if not -15 <= one <= 0:
        raise UnsupportedError(f"its scales are {source.scale} and {output.scale}: too different")
    scaled = _doubling_high(value, first)
    gate = value
    if exponent > 0:
        gate = jnp.clip(gate << (exponent - 1), -32768, 32767)
    gate = _doubling_high(gate, second)
    if exponent > 0:
        gate = jnp.clip(gate << 1, -32768, 32767)
    elif exponent < 0:
        gate = fixed_point.divide_half_away(gate, -exponent)
    gate = (gate + (1 << 15)) >> 1
    total = lax.div(gate * scaled, jnp.int32(1 << 15))
    return requantize.clamp(fixed_point.divide_half_away(total, -one), call)


def _in_16_bits(real: np.float32) -> tuple[int, int]:
    """A multiplier cut to 16 bits, and its exponent."""
    by = Multiplier.of(float(real))
    value = (int(by.value) + (1 << 15)) >> 16
    return min(value, 32767), int(by.exponent)


def _doubling_high(x: Array, y: int) -> Array:
    """2 * x * y / 2**16 of 16 bits, rounded half away from zero."""
    product = x * y
    magnitude = (jnp.abs(product) + (1 << 14)) >> 15
    return jnp.where(product < 0, -magnitude, magnitude)


def round_half_away(x: Array) -> Array:
    """Rounds floats, halves away from zero."""
    whole = jnp.trunc(x)
    return whole + jnp.where(jnp.abs(x - whole) >= 0.5, jnp.sign(x), 0)


def _round_last(x: Array, output: Info) -> Array:
    """The real quotient by a scale, rounded half away from zero."""
    if np.frexp(output.scale)[0] == 0.5:  # the quotient is a float32
        return round_half_away(x * (np.float32(1) / output.scale))
    zero = jnp.zeros((), output.dtype)
    scale = jnp.broadcast_to(output.scale, x.shape)
    return core.quantize(x, scale, zero, output.dtype, "exact").astype(jnp.float32)


@operator("QUANTIZE")
def quantize(call: Call, x: Array) -> Array:
    """Rounds floats to integers, or integers to those of another scale."""
    output = call.output
    if not output.is_quantized:
        raise UnsupportedError(f"its output is {output.dtype} without a scale")
    limits = np.iinfo(output.dtype)
    if x.dtype == jnp.float32:
        if call.resolver == "exact":
            zero = np.array(output.zero_point, output.dtype)
            return dmlax.element_wise_quantize_linear(x, output.scale, zero)
        if call.resolver == "xnnpack":
            quotient = ieee.multiply(x, np.float32(1) / output.scale)
            rounded = lax.round(quotient, _EVEN)
            if output.dtype.itemsize > 1:  # whole vectors; the rest is divided in float64
                places = jnp.arange(x.size).reshape(x.shape)
                rounded = jnp.where(places < x.size - x.size % 8, rounded, _round_last(x, output))
        else:
            quotient = ieee.divide(x, jnp.broadcast_to(output.scale, x.shape))
            rounded = round_half_away(quotient)
            rounded = jnp.where(rounded >= 2.0**31, -(2.0**31), rounded)
        offset = output.zero_point
        rounded = jnp.clip(rounded, limits.min - offset, limits.max - offset)
        return (rounded.astype(jnp.int32) + offset).astype(output.dtype)
    if not call.info(0).is_quantized:
        raise UnsupportedError(f"its input is {x.dtype}, expected float32 or integers with a scale")
    source = call.info(0)
    value = less_zero(x, source)
    ratio, is_same = source.scale / output.scale, source.dtype == output.dtype
    if call.resolver == "xnnpack" and is_same and requantize.has_eight_bits(output, ratio):
        return requantize.clamp(requantize.eight_bits(value, ratio), call)
    if call.resolver == "xnnpack" and source.dtype.itemsize == 1:
        by, places = Multiplier.of(source.real / output.real), jnp.arange(x.size).reshape(x.shape)
        return requantize.clamp(requantize.in_vectors(value, by, places, 16, x.size), call)
    return requantize.rescale(value, call, source)


@operator("DEQUANTIZE")
def dequantize(call: Call, x: Array) -> Array:
    """The real numbers of integers, or float16 as float32."""
    source = call.info(0)
    if x.dtype.kind == "f":
        return x.astype(call.output.dtype)
    if not source.is_quantized:
        raise UnsupportedError(f"its input is {x.dtype} without a scale")
    return dequantize_by(source, x).astype(call.output.dtype)


def dequantize_by(source: Info, x: Array) -> Array:
    """The float32 of integers, or floats as they are."""
    if x.dtype.kind == "f":
        return x
    shape = [1] * x.ndim
    if source.scales.size > 1:
        shape[source.axis] = -1
    zero = source.zero_points.astype(np.int32).reshape(shape)
    value = (x.astype(jnp.int32) - zero).astype(jnp.float32)
    return ieee.multiply(value, source.scales.reshape(shape))


@operator("CAST")
def cast(call: Call, x: Tensor) -> Tensor:
    """Converts elements; floats lose their fractions."""
    dtype = call.output.dtype
    if dtype == np.dtype(bool):
        return x != 0
    return x.astype(jax.dtypes.canonicalize_dtype(dtype) if isinstance(x, Array) else dtype)


@operator("SOFTMAX")
def softmax(call: Call, x: Array) -> Array:
    """Softmax over the last axis; that of bytes by tables."""
    if not call.is_quantized:
        return jax.nn.softmax(x * np.float32(call.beta), -1)
    source, output = call.info(0), call.output
    if source.dtype.itemsize > 1:
        raise UnsupportedError(f"its input is {source.dtype}, expected floats, int8 or uint8")
    difference = jnp.max(x, -1, keepdims=True).astype(jnp.int32) - x.astype(jnp.int32)
    if call.resolver == "reference" and output.dtype.itemsize == 1:
        return _fixed_softmax(call, difference)
    steps = np.arange(256, dtype=np.float32)
    exponents = -source.scale * np.float32(call.beta) * steps
    table = np.exp(exponents.astype(np.float64)).astype(np.float32)
    terms = jnp.asarray(table)[difference]
    total = _in_order(terms)
    if output.dtype == np.int16 or call.resolver == "exact":
        quotient = ieee.divide(terms, jnp.broadcast_to(total * output.scale, terms.shape))
    else:
        inverse = ieee.divide(jnp.ones_like(total), ieee.multiply(total, output.scale))
        quotient = ieee.multiply(terms, jnp.broadcast_to(inverse, terms.shape))
    return requantize.clamp(lax.round(quotient, _EVEN).astype(jnp.int32), call)


def _in_order(terms: Array) -> Array:
    """The sums of rows, rounded after every addition."""

    def step(total: Array, column: Array) -> tuple[Array, None]:
        return ieee.add(total, column), None

    total, _ = lax.scan(step, jnp.zeros_like(terms[..., 0]), jnp.moveaxis(terms, -1, 0))
    return total[..., None]


def _fixed_softmax(call: Call, difference: Array) -> Array:
    """Exponentials and a reciprocal in fixed point, as microcontrollers compute them."""
    source, output = call.info(0), call.output
    real = min(source.real * call.beta * (1 << 26), 2.0**31 - 1)
    by = Multiplier.of(real)
    # Differences beyond the range of 5 integer bits add nothing.
    radius = math.floor(31.0 * (1 << 26) / 2.0 ** int(by.exponent)) if real > 1 else 255
    scaled = fixed_point.scale_half_away(-difference, by)
    functions, is_near = FixedFunctions(32), difference <= radius
    terms = functions.exp(scaled, 5)
    total = jnp.where(is_near, fixed_point.divide_half_away(terms, 12), 0).sum(-1, keepdims=True)
    headroom = lax.clz(total)
    inverse = functions.inverse((total << headroom) ^ np.int32(-1 << 31))
    product = functions.multiply(terms, jnp.broadcast_to(inverse, terms.shape))
    mask = (jnp.int32(1) << (12 - headroom + 31 - 8)) - 1
    rest = product & mask
    rounded = (product >> (12 - headroom + 31 - 8)) + (rest > mask >> 1).astype(jnp.int32)
    low, high = np.iinfo(output.dtype).min, np.iinfo(output.dtype).max
    y = jnp.clip(rounded + low, low, high)
    return jnp.where(is_near, y, low).astype(output.dtype)
