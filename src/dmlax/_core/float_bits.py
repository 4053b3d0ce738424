"""Numbers taken apart: zero tests, mantissas and wide products in 32-bit integers.

Nothing here does float arithmetic on a value that matters, because backends flush
subnormals, contract products and divide inexactly; bits they leave alone.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from dmlax._core import compat

_UNSIGNED = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


class FloatFormat(NamedTuple):
    """An IEEE binary format: `fraction` stored bits, and the unbiased exponent of one unit."""

    bits: int
    fraction: int
    unit_exponent: int  # value of a subnormal's last bit is 2**unit_exponent

    @property
    def infinity(self) -> int:
        """The bits of +infinity, which is also the all-ones exponent field."""
        return (1 << (self.bits - 1)) - (1 << self.fraction)

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)

    @property
    def exponent_limit(self) -> int:
        """An exponent field no finite value reaches."""
        return 1 << (self.bits - self.fraction - 1)


FLOAT32 = FloatFormat(32, 23, -149)
FLOAT16 = FloatFormat(16, 10, -24)
BFLOAT16 = FloatFormat(16, 7, -133)


def float_format(dtype: DTypeLike) -> FloatFormat:
    """The format of a float32, float16 or bfloat16 dtype."""
    return {"float32": FLOAT32, "float16": FLOAT16, "bfloat16": BFLOAT16}[jnp.dtype(dtype).name]


Wide = tuple[Array, Array]  # (high, low) uint32 limbs of a 64-bit integer


class WideFloat(NamedTuple):
    """A number as `magnitude * 2**exponent`, with the magnitude below 2**62."""

    negative: Array
    magnitude: Wide
    exponent: Array


class Unpacked(NamedTuple):
    """A float as `mantissa * 2**exponent`, with the mantissa in [2**23, 2**24) or 0."""

    negative: Array
    mantissa: Array
    exponent: Array


def bitcast(x: Array, dtype: DTypeLike) -> Array:
    """The bytes of `x` as another dtype, also if `x` is a constant that XLA folds."""
    is_integer = x.dtype.kind in "iu" and jnp.issubdtype(dtype, jnp.integer)
    if is_integer and x.dtype.itemsize == jnp.dtype(dtype).itemsize:
        return x.astype(dtype)  # integers wrap
    return lax.bitcast_convert_type(compat.hide_constant(x), dtype)  # noqa: TID251


def bitcast_apart(x: Array, dtype: DTypeLike) -> Array:
    """Bitcasts an array in memory that several fusions read: `bitcast` would copy it."""
    return lax.bitcast_convert_type(lax.optimization_barrier(x), dtype)  # noqa: TID251


def raw_bits(x: Array) -> Array:
    """The bits of any array, as unsigned integers of its width."""
    if x.dtype == jnp.bool_:
        return x.astype(jnp.uint8)
    return bitcast(x, _UNSIGNED[x.dtype.itemsize])


def is_nonzero(x: Array) -> Array:
    """True where `x` is not +0 or -0; subnormals and NaN count, on every backend."""
    bits = raw_bits(x)
    if jnp.issubdtype(x.dtype, jnp.floating):
        bits = bits << bits.dtype.type(1)
    return bits != 0


def split(x: Array) -> Unpacked:
    """Takes a finite float32 or float16 apart; the mantissa of a subnormal is smaller."""
    layout = float_format(x.dtype)
    bits = raw_bits(x).astype(jnp.uint32)
    magnitude = bits & ((1 << (layout.bits - 1)) - 1)
    field = magnitude >> layout.fraction
    implicit = jnp.where(field > 0, jnp.uint32(1 << layout.fraction), jnp.uint32(0))
    mantissa = (magnitude & ((1 << layout.fraction) - 1)) | implicit
    exponent = jnp.maximum(field, 1).astype(jnp.int32) - 1 + layout.unit_exponent
    return Unpacked(bits >> (layout.bits - 1) != 0, mantissa, exponent)


@compat.shared()
def unpack(x: Array) -> Unpacked:
    """Takes a finite float32 or float16 apart, subnormals included."""
    negative, mantissa, exponent = split(x)
    shift = lax.clz(mantissa) - 8
    return Unpacked(negative, mantissa << shift, exponent - shift.astype(jnp.int32))


def power_of_two(exponent: Array) -> Array:
    """float32 2**exponent for exponents in -126..127, without float arithmetic."""
    return bitcast((exponent + 127) << 23, jnp.float32)


def multiply_wide(a: Array, b: Array) -> Wide:
    """The 64-bit product of two uint32 arrays as (high, low)."""
    a_high, a_low = a >> 16, a & 0xFFFF
    b_high, b_low = b >> 16, b & 0xFFFF
    cross = a_high * b_low + (a_low * b_low >> 16)
    middle = (cross & 0xFFFF) + a_low * b_high
    return a_high * b_high + (cross >> 16) + (middle >> 16), a * b


def shift_left_wide(a: Wide, count: Array) -> Wide:
    """a << count modulo 2**64, for counts 0..31."""
    return (a[0] << count) | ((a[1] >> 1) >> (31 - count)), a[1] << count


def shift_right_sticky(a: Wide, count: Array) -> Wide:
    """a >> count for any a below 2**63; the last bit is set if a bit was lost."""
    count = jnp.clip(count, 0, 63).astype(jnp.uint32)
    whole, part = count >= 32, count & 31
    high, low = jnp.where(whole, 0, a[0]), jnp.where(whole, a[0], a[1])
    lost = (low & ((jnp.uint32(1) << part) - 1)) | jnp.where(whole, a[1], 0)
    low = (low >> part) | ((high << 1) << (31 - part))
    return high >> part, low | (lost != 0).astype(jnp.uint32)


def add_wide(a: WideFloat, b: WideFloat) -> WideFloat:
    """a + b below 2**63 of the greater exponent's units; the last bit is set if a bit was lost."""
    x, y = _exponent_of_addend(a), _exponent_of_addend(b)
    a_high, a_low = shift_right_sticky(a.magnitude, y - x)
    b_high, b_low = shift_right_sticky(b.magnitude, x - y)
    # A difference is a + ~b + 1; where b is greater, its complement's.
    differs = a.negative ^ b.negative
    flip = jnp.where(differs, jnp.uint32(0xFFFFFFFF), jnp.uint32(0))
    low = a_low + (b_low ^ flip) + (flip & 1)
    carry = jnp.where(differs, a_low >= b_low, low < a_low).astype(jnp.uint32)
    high = a_high + (b_high ^ flip) + carry
    below = high >> 31 != 0
    high = jnp.where(below, ~high + (low == 0).astype(jnp.uint32), high)
    low = jnp.where(below, ~low + 1, low)
    return WideFloat(a.negative ^ below, (high, low), jnp.maximum(x, y))


def _exponent_of_addend(a: WideFloat) -> Array:
    """The exponent; of 0, one below all others, so that it costs the other addend no bits."""
    high, low = a.magnitude
    return jnp.where((high | low) != 0, a.exponent, -4096)


def quotient_digit(remainder: Array, inverse: Array) -> Array:
    """The largest digit, or the one before it, that leaves a positive rest.

    Args:
      remainder: int32, not negative: the leading bits of what is divided.
      inverse: float32, what the digit is per unit of it, 2**-20 of itself off at most.
    """
    below = inverse * (1 - 2.0**-18)
    return (remainder.astype(jnp.float32) * below).astype(jnp.int32)


@compat.shared()
def quotient_twice(leading: Array, following: Array, divisor: Array) -> Array:
    """uint32 twice the whole quotient; its last bit is set if there is a rest, or nothing.

    Args:
      leading: int32 below 2**24, the dividend without its last 28 bits.
      following: int32, these bits.
      divisor: a mantissa in [2**23, 2**24).
    """
    divisor = divisor.astype(jnp.int32)
    rest, inverse = leading, 128 / divisor.astype(jnp.float32)
    quotient = jnp.zeros_like(rest)
    for shift in (21, 14, 7, 0):  # 28 bits, 7 at a time
        digit = quotient_digit(rest, inverse)
        rest = (rest << 7) + ((following >> shift) & 127) - digit * divisor
        quotient = (quotient << 7) + digit
    quotient = quotient + (rest >= divisor).astype(jnp.int32)
    return ((quotient << 1) | (rest != divisor).astype(jnp.int32)).astype(jnp.uint32)


@compat.shared()
def multiply(x: Array, y: Array) -> Array:
    """The IEEE float32 product of finite values, subnormals kept."""
    a, b = unpack(x), unpack(y)
    product = multiply_wide(a.mantissa, b.mantissa)
    return pack(a.negative ^ b.negative, product, a.exponent + b.exponent, jnp.float32)


@compat.shared()
def fma(x: Array, y: Array, z: Array) -> Array:
    """The IEEE float32 value of x * y + z, rounded once, for any operands."""
    a, b, c = unpack(x), unpack(y), unpack(z)
    product = WideFloat(
        a.negative ^ b.negative,
        shift_left_wide(multiply_wide(a.mantissa, b.mantissa), jnp.uint32(14)),
        a.exponent + b.exponent - 14,
    )
    value = _round_sum(product, addend(c))
    return _with_special_operands(value, (x, y, z), (a, b, c))


def addend(a: Unpacked) -> WideFloat:
    """A float32 with as many bits after the last one as a sum needs."""
    return WideFloat(a.negative, (a.mantissa << 6, jnp.zeros_like(a.mantissa)), a.exponent - 38)


def _round_sum(a: WideFloat, b: WideFloat) -> Array:
    """The float32 value of a + b, rounded once; -0 of two negative zeros."""
    total = add_wide(a, b)
    value = pack(total.negative, total.magnitude, total.exponent, jnp.float32)
    high, low = total.magnitude
    is_negative_zero = ((high | low) == 0) & a.negative & b.negative
    return jnp.where(is_negative_zero, jnp.float32(-0.0), value)


def _with_special_operands(
    value: Array, operands: tuple[Array, Array, Array], parts: tuple[Unpacked, Unpacked, Unpacked]
) -> Array:
    """x * y + z where one of them is an infinity or NaN, elsewhere the value."""
    x, y, z = map(is_infinite, operands)
    a, b, c = parts
    negative = jnp.where(x | y, a.negative ^ b.negative, c.negative)
    infinite = jnp.where(negative, jnp.float32(-jnp.inf), jnp.float32(jnp.inf))
    undefined = (x & (b.mantissa == 0)) | (y & (a.mantissa == 0))
    undefined |= (x | y) & z & (negative ^ c.negative)
    for operand in operands:
        undefined |= is_nan(operand)
    value = jnp.where(x | y | z, infinite, value)
    return jnp.where(undefined, jnp.float32(jnp.nan), value)


@compat.shared()
def add(x: Array, y: Array) -> Array:
    """The IEEE float32 sum of any values, subnormals kept."""
    value = _round_sum(addend(unpack(x)), addend(unpack(y)))
    value = jnp.where(is_infinite(y), y, value)
    undefined = is_nan(x) | is_nan(y) | (is_infinite(x) & is_infinite(y) & (x != y))
    value = jnp.where(is_infinite(x), x, value)
    return jnp.where(undefined, jnp.float32(jnp.nan), value)


def subtract(x: Array, y: Array) -> Array:
    """The IEEE float32 difference of any values, subnormals kept."""
    return add(x, negate(y))


def negate(x: Array) -> Array:
    """The float32 with the other sign, of any value."""
    return bitcast(raw_bits(x) ^ np.uint32(FLOAT32.sign), jnp.float32)


def to_ordered(x: Array) -> Array:
    """int32 in the order of the float32 values, -0 before +0, subnormals kept."""
    bits = bitcast(x, jnp.int32)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def from_ordered(keys: Array) -> Array:
    """The float32 values that `to_ordered` took."""
    bits = keys ^ ((keys >> 31) & 0x7FFFFFFF)
    return bitcast(bits, jnp.float32)


@compat.shared()
def divide(x: Array, y: Array) -> Array:
    """The IEEE float32 quotient of any value and a finite nonzero one, subnormals kept."""
    a, b = unpack(x), unpack(y)
    quotient = quotient_twice(a.mantissa.astype(jnp.int32), jnp.int32(0), b.mantissa)
    low = jnp.where(a.mantissa == 0, 0, quotient)
    magnitude = (jnp.zeros_like(low), low)
    result = pack(a.negative ^ b.negative, magnitude, a.exponent - b.exponent - 29, jnp.float32)
    special = jnp.where(b.negative, -x, x)  # an infinity or NaN, only its sign changes
    return jnp.where(is_infinite(x) | is_nan(x), special, result)


def is_nan(x: Array) -> Array:
    """True where a float32 or float16 is NaN."""
    layout = float_format(x.dtype)
    return raw_bits(x) & (layout.sign - 1) > layout.infinity


def is_infinite(x: Array) -> Array:
    """True where a float32 or float16 is an infinity of either sign."""
    layout = float_format(x.dtype)
    return raw_bits(x) & (layout.sign - 1) == layout.infinity


@compat.shared("dtype")
def pack(negative: Array, magnitude: Wide, exponent: Array, dtype: DTypeLike) -> Array:
    """Rounds `magnitude * 2**exponent` once, ties to even, to a float.

    Subnormals are kept, overflow gives infinity, an exact zero is +0.
    """
    layout = float_format(dtype)
    mantissa, exponent = _top_30_bits(magnitude, exponent)
    # A normal result keeps fraction + 1 bits; a subnormal one fewer.
    drop = jnp.maximum(30 - (layout.fraction + 1), layout.unit_exponent - exponent)
    shift = jnp.minimum(drop, 31).astype(jnp.uint32)
    kept, half = mantissa >> shift, jnp.uint32(1) << (shift - 1)
    rest = mantissa - (kept << shift)
    kept += ((rest > half) | ((rest == half) & (kept & 1 == 1))).astype(jnp.uint32)
    field = jnp.clip(exponent + drop - layout.unit_exponent, 0, layout.exponent_limit)
    # `kept` carries the implicit bit, so adding it bumps the exponent field as it must.
    bits = jnp.minimum((field.astype(jnp.uint32) << layout.fraction) + kept, layout.infinity)
    sign = jnp.where(negative & (mantissa != 0), jnp.uint32(1), jnp.uint32(0))
    bits = jnp.where(mantissa != 0, bits, 0) | (sign << (layout.bits - 1))
    return bitcast(bits.astype(_UNSIGNED[layout.bits // 8]), jnp.dtype(dtype))


def _top_30_bits(magnitude: Wide, exponent: Array) -> tuple[Array, Array]:
    """Normalises to a 30-bit mantissa whose last bit is sticky (set if anything was lost)."""
    high, low = magnitude
    small = high == 0
    high, low = jnp.where(small, low, high), jnp.where(small, 0, low)
    shift = jnp.minimum(lax.clz(high), 31)
    high, low = shift_left_wide((high, low), shift)
    sticky = ((low | (high & 3)) != 0).astype(jnp.uint32)
    exponent = exponent + jnp.where(small, 2, 34) - shift.astype(jnp.int32)
    return (high >> 2) | sticky, exponent
