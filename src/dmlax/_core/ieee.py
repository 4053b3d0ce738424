"""Float operations that keep IEEE's results inside a jitted program.

XLA contracts products and sums, rewrites chains of operations, and multiplies by reciprocals. A
guard around each result stops it, and a platform whose quotients and roots are approximate corrects
them by an exact residual. Subnormal operands and results are outside of the promise: a CPU flushes
them to zero.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import choice, compat, float_bits
from dmlax._core.arguments import is_static

_NAN = {  # a quiet NaN with a payload that no operation makes, by the size of a float
    2: (np.uint16(0x7FC5), np.uint16(0x7FC0)),
    4: (np.uint32(0x7FC12345), np.uint32(0x7FC00000)),
    8: (np.uint64(0x7FF8000012345678), np.uint64(0x7FF8000000000000)),
}
_FRACTION = np.int32(23)
_HIDDEN_BIT = np.int32(1 << 23)


def guard(x: Array) -> Array:
    """Returns a float as it is; the compiler does not fuse what made it with what reads it.

    One NaN becomes another, which no compiler can rule out. JAX 0.10 drops barriers on a CPU.
    """
    return compat.opaque(x, _exchange_nan)


def _exchange_nan(x: Array) -> Array:
    bits = float_bits.raw_bits(x)
    if x.dtype.itemsize == 1:  # no NaN to spare; a CPU has no such arithmetic to simplify
        return float_bits.bitcast(jax.lax.optimization_barrier(bits), x.dtype)
    payload, quiet = (jnp.asarray(nan) for nan in _NAN[x.dtype.itemsize])
    return float_bits.bitcast(jnp.where(bits == payload, quiet, bits), x.dtype)


def apart(x: Array) -> Array:
    """Returns a float as it is; no fusion holds both what made it and what reads it.

    XLA would compute an operand of a sum again in every term, and compile for minutes.
    """
    same: Array = compat.opaque(x, _apart)
    return same


def _apart(x: Array) -> Array:
    if not is_static(x.shape) or not x.size:
        return x
    struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
    in_loop = {"cpu": _through_a_loop}  # which drops barriers
    same: Array = choice.by_platform(x, struct, jax.lax.optimization_barrier, in_loop)
    return same


def _through_a_loop(x: Array) -> Array:
    """A loop of no turns, or of one that changes nothing, which the compiler does not know."""
    (payload, _), first = _NAN[x.dtype.itemsize], (slice(0, 1),) * x.ndim

    def goes_on(x: Array) -> Array:
        return jnp.all(float_bits.raw_bits(x[first]) == payload)

    same: Array = jax.lax.while_loop(goes_on, _exchange_nan, x)
    return same


def narrow(x: Array, dtype: DTypeLike) -> Array:
    """The number as a float of 16 or 8 bits; XLA drops a conversion that is undone later."""
    return guard(x.astype(dtype))


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """The sum of floats."""
    return guard(jnp.add(x, y))


def subtract(x: ArrayLike, y: ArrayLike) -> Array:
    """The difference of floats."""
    return guard(jnp.subtract(x, y))


def multiply(x: ArrayLike, y: ArrayLike) -> Array:
    """The product of floats."""
    return guard(jnp.multiply(x, y))


@jax.jit  # traced once for each shape, which equal layers share
def divide(x: Array, y: Array) -> Array:
    """The quotient of floats of one dtype."""
    x, y = jnp.broadcast_arrays(x, y)
    if x.dtype.itemsize == 2:  # a float32 quotient has enough bits to round again
        return guard(_divide(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype))
    return guard(_divide(x, y))


@jax.custom_jvp
def _divide(x: Array, y: Array) -> Array:
    if x.dtype != np.float32:
        return _plain_quotient(x, y)
    struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
    by_residual, plain = lambda pair: _quotient(*pair), lambda pair: _plain_quotient(*pair)
    return choice.by_platform((x, y), struct, by_residual, {"cpu": plain})


@_divide.defjvp
def _divide_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, y), (dx, dy) = primals, tangents
    quotient = _divide(x, y)
    return quotient, (dx - quotient * dy) / y


def _plain_quotient(x: Array, y: Array) -> Array:
    """The quotient of a CPU, which is IEEE's if the compiler sees no scalar to invert."""
    is_payload = float_bits.raw_bits(x) == _NAN[x.dtype.itemsize][0]
    return jnp.divide(x, jnp.where(is_payload, x, y))


def _quotient(x: Array, y: Array) -> Array:
    """The float32 quotient, rounded right whatever the platform makes of a division.

    The mantissas' quotient is an integer of 24 bits, and its residual is exact modulo 2**32.
    """
    a, b = _Mantissa(x), _Mantissa(y)
    is_below = (a.value < b.value).astype(jnp.int32)
    dividend = a.value << is_below  # the quotient is from 2**23 to 2**24
    estimate = jnp.divide(dividend.astype(jnp.float32), b.value.astype(jnp.float32))
    quotient = (estimate * np.float32(1 << 23)).astype(jnp.int32)
    rest = (dividend << _FRACTION) - quotient * b.value
    digit = jnp.divide(rest.astype(jnp.float32), b.value.astype(jnp.float32)).astype(jnp.int32)
    rest = rest - digit * b.value
    quotient = quotient + digit + _step(2 * rest > b.value) - _step(2 * rest < -b.value)
    exponent = a.exponent - b.exponent - is_below + 127
    sign = (a.bits ^ b.bits) & np.int32(-(1 << 31))
    usual = a.is_normal & b.is_normal & (exponent > 0)
    packed = (exponent << _FRACTION) + (quotient - _HIDDEN_BIT)
    packed = sign | jnp.where(exponent < 255, packed, np.int32(float_bits.FLOAT32.infinity))
    return jnp.where(usual, float_bits.bitcast(packed, jnp.float32), jnp.divide(x, y))


@jax.jit
def sqrt(x: Array) -> Array:
    """The square root of a float."""
    if x.dtype.itemsize == 2:
        return guard(_sqrt(x.astype(np.float32)).astype(x.dtype))
    return guard(_sqrt(x))


@jax.custom_jvp
def _sqrt(x: Array) -> Array:
    if x.dtype != np.float32:
        return jnp.sqrt(x)
    struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return choice.by_platform(x, struct, _root, {"cpu": jnp.sqrt})


@_sqrt.defjvp
def _sqrt_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    root = _sqrt(*primals)
    return root, tangents[0] / (2 * root)


def _root(x: Array) -> Array:
    """The float32 square root, rounded right whatever the platform makes of one."""
    a = _Mantissa(x)
    is_odd = (a.exponent ^ 1) & 1  # whether the exponent less 127 is odd
    square = a.value << is_odd
    estimate = jnp.sqrt(square.astype(jnp.float32) * np.float32(2.0**-23))
    root = (estimate * np.float32(1 << 23)).astype(jnp.int32)
    rest = (square << _FRACTION) - root * root
    root = root + jnp.divide(rest.astype(jnp.float32), (2 * root).astype(jnp.float32)).astype(
        jnp.int32
    )
    rest = (square << _FRACTION) - root * root
    root = root + _step(rest > root) - _step(rest <= -root)
    packed = (((a.exponent - 127 - is_odd) >> 1) + 127 << _FRACTION) + (root - _HIDDEN_BIT)
    usual = a.is_normal & (a.bits > 0)
    return jnp.where(usual, float_bits.bitcast(packed, jnp.float32), jnp.sqrt(x))


class _Mantissa:
    """A float32 taken apart, in int32: `value * 2**(exponent - 150)` if it is normal."""

    def __init__(self, x: Array) -> None:
        self.bits = float_bits.bitcast(x, jnp.int32)
        self.exponent = (self.bits >> _FRACTION) & 255
        self.value = (self.bits & (_HIDDEN_BIT - 1)) | _HIDDEN_BIT
        self.is_normal = (self.exponent > 0) & (self.exponent < 255)


def _step(condition: Array) -> Array:
    return condition.astype(jnp.int32)
