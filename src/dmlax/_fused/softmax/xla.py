"""The softmax of 8 bits in plain XLA: a table of exponentials, summed in order.

ONNX Runtime, from version 1.32 on, multiplies an exponential by the whole number 1 / y_scale and
divides by the sum of the exponentials of its row, both in float64, and rounds to an integer. That
is the real quotient, rounded once: the product has 48 bits and is exact, and the sum has 24, so no
quotient is close enough to a tie for float64 to round it to one.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import float_bits
from dmlax._fused.softmax.plan import Softmax, SoftmaxPlan


def run(plan: SoftmaxPlan, operands: Softmax) -> Array:
    """Sums the terms of rows in the order of their elements."""
    x, terms = map(jnp.asarray, operands)
    wide = x.astype(jnp.int32)
    places = 255 - (jnp.max(wide, axis=-1, keepdims=True) - wide)
    in_order = jnp.moveaxis(places.astype(jnp.uint8), -1, 0)
    first, others = terms[in_order[0]], in_order[1:]
    total, _ = lax.scan(lambda sum, place: (sum + terms[place], None), first, others)
    rounded = _divide(terms, plan.multiplier, places, total[..., None])
    limits = np.iinfo(x.dtype)
    return jnp.clip(rounded + plan.zero_point, limits.min, limits.max).astype(x.dtype)


def _divide(terms: Array, multiplier: float, places: Array, total: Array) -> Array:
    """The real terms[places] * multiplier / total, rounded once; 256 or more where it is that."""
    term, divisor = float_bits.unpack(terms), float_bits.unpack(total)
    fraction, exponent = math.frexp(abs(multiplier))
    high, low = float_bits.multiply_wide(term.mantissa, jnp.uint32(int(fraction * 2**24)))
    # The leading bits of a product of 52 bits.
    leading = ((high << 8) | (low >> 24)).astype(jnp.int32)
    following = ((low & 0xFFFFFF) << 4).astype(jnp.int32)
    quotient = float_bits.quotient_twice(leading[places], following[places], divisor.mantissa)
    # It is twice the quotient of products with four more bits, and at least 2**27.
    shift = divisor.exponent - term.exponent[places] + (24 + 4 + 1 - exponent)
    shift = jnp.clip(shift, 19, 31).astype(jnp.uint32)
    is_odd = (quotient >> shift) & 1
    rounded = (quotient + (jnp.uint32(1) << (shift - 1)) - 1 + is_odd) >> shift
    signed: Array = rounded.astype(jnp.int32) * (-1 if multiplier < 0 else 1)
    return signed
