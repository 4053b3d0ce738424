"""The softmax of 8 bits with ONNX Runtime's bits: a table of exponentials, summed in order.

ONNX Runtime, from version 1.32 on, multiplies an exponential by the whole number 1 / y_scale and
divides by the sum of the exponentials of its row, both in float64, and rounds to an integer. That
is the real quotient, rounded once: the product has 48 bits and is exact, and the sum has 24, so no
quotient is close enough to a tie for float64 to round it to one.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import compat, dispatch, float_bits
from dmlax._core.arguments import Aval, aval_of
from dmlax._cuda import capability
from dmlax.errors import UnsupportedError

_MOST_ELEMENTS = 1024  # of a row: the rows of a block of the kernel fit in shared memory
_MULTIPLIERS_END = 2.0**38  # of the kernel: its products are float32


class Softmax(NamedTuple):
    """The operands."""

    input: Any  # int8 or uint8
    terms: Any  # float32, the exponential of each distance from the largest element, 255 first


@dataclass(frozen=True)
class SoftmaxPlan:
    """All that is static of a softmax."""

    input: Aval
    zero_point: int
    multiplier: float  # of the exponentials: the whole number 1 / y_scale, a float32

    @property
    def output(self) -> Aval:
        """The output's dtype and shape."""
        return self.input

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{self.input} along the last axis"


def softmax(
    x: Any,
    x_scale: float,
    y_scale: np.float32,
    y_zero_point: int,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """The softmax along the last axis; the scales are constants."""
    plan, operands = bind(x, x_scale, y_scale, y_zero_point)
    found: Array = dispatch.call(SOFTMAX, plan, operands, implementation)
    return found


def bind(
    x: Any, x_scale: float, y_scale: np.float32, y_zero_point: int
) -> tuple[SoftmaxPlan, Softmax]:
    """Makes the table, and plans the call."""
    if not (x_scale > 0 and math.isfinite(x_scale)):
        raise UnsupportedError("its x_scale is not positive, or not finite")
    with np.errstate(all="ignore"):
        multiplier = float(np.floor(np.float32(1) / y_scale))
    if not math.isfinite(multiplier):
        raise UnsupportedError("1 / y_scale is no finite float32")
    plan = SoftmaxPlan(aval_of(x), y_zero_point, multiplier)
    return plan, Softmax(x, _exponentials(x_scale, int(x.shape[-1])))


def _exponentials(scale: float, count: int) -> np.ndarray:
    """exp of 0 to -255 steps, as large as a float32 sum of `count` of them allows."""
    largest = np.finfo(np.float32).max / np.float32(count)
    logarithm = float(np.float32(math.log(largest)))  # ONNX Runtime's is a float32
    shift = max(0.0, logarithm - 5) / scale
    return np.asarray([math.exp((i - 255 + shift) * scale) for i in range(256)], np.float32)


def why_not(plan: SoftmaxPlan, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    if why := capability.why_not(platform) or capability.why_not_so_many(plan.output):
        return why
    if plan.input.shape[-1] > _MOST_ELEMENTS:
        return f"its rows have more than {_MOST_ELEMENTS:,} elements"
    if not 0 <= plan.multiplier < _MULTIPLIERS_END:
        return "1 / y_scale is negative, or 2**38 or more"
    return None


def run_kernel(plan: SoftmaxPlan, operands: Softmax) -> Array:
    """Runs the kernel; elements after the plan's, up to a whole chunk of each row, become zeros."""
    from dmlax._cuda import softmax as kernel

    quotients = kernel.Quotients(*quotients_of(plan))
    x, terms = jnp.asarray(operands.input), jnp.asarray(operands.terms)
    return kernel.softmax(quotients, plan.input.shape[-1], x, terms)


def quotients_of(plan: SoftmaxPlan) -> tuple[int, int, float]:
    """The lowest value of the dtype, the zero point and the multiplier of the kernel."""
    return int(np.iinfo(plan.input.dtype).min), plan.zero_point, plan.multiplier


def _xla(plan: SoftmaxPlan, operands: Softmax) -> Array:
    """Sums the terms of all rows, one element of each after another."""
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
    leading = ((high << 8) | (low >> 24)).astype(jnp.int32)  # of a product's 52 bits
    following = ((low & 0xFFFFFF) << 4).astype(jnp.int32)
    quotient = float_bits.quotient_twice(leading[places], following[places], divisor.mantissa)
    # It is twice the quotient of products with four more bits, and at least 2**27.
    shift = divisor.exponent - term.exponent[places] + (24 + 4 + 1 - exponent)
    shift = jnp.clip(shift, 19, 31).astype(jnp.uint32)
    is_odd = (quotient >> shift) & 1
    rounded = (quotient + (jnp.uint32(1) << (shift - 1)) - 1 + is_odd) >> shift
    signed: Array = rounded.astype(jnp.int32) * (-1 if multiplier < 0 else 1)
    return signed


SOFTMAX = dispatch.Operator(
    "quantized_softmax",
    (dispatch.kernel("mosaic_gpu", run_kernel, why_not, "cuda"), dispatch.Lowering("xla", _xla)),
    partition=lambda plan, operands: compat.partition(operands.input),
)
