"""The softmax of 8 bits with ONNX Runtime's bits: a table of exponentials, summed in order.

ONNX Runtime, up to version 1.31, multiplies an exponential by the whole number 1 / y_scale, rounds
that, and divides it by the sum of the exponentials of its row. The products are a table here, too.
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

_MOST_ELEMENTS = 1024  # of a row: the rows of a block of the kernel fit in shared memory


class Softmax(NamedTuple):
    """The operands: tables have an entry for each distance from the largest element, 255 first."""

    input: Any  # int8 or uint8
    terms: Any  # float32 exponentials
    products: Any  # float32, of these and 1 / y_scale


@dataclass(frozen=True)
class SoftmaxPlan:
    """All that is static of a softmax."""

    input: Aval
    zero_point: int
    multiplier: float  # of the exponentials: the whole number 1 / y_scale
    is_usual: bool  # no product is below 0, and none is beyond float32, as no sum is

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
    """Makes the tables, and plans the call."""
    count = int(x.shape[-1])
    terms = _exponentials(x_scale, count)
    multiplier = np.float32(math.floor(np.float32(1) / y_scale))
    with np.errstate(all="ignore"):
        products = terms * multiplier
        ends = np.stack([products, terms * np.float32(2 * count)])
    is_usual = bool(np.isfinite(ends).all() and multiplier >= 0)
    plan = SoftmaxPlan(aval_of(x), y_zero_point, float(multiplier), is_usual)
    return plan, Softmax(x, terms, products)


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
    return None if plan.is_usual else "its sums or products overflow, or are negative"


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
    x, terms, products = map(jnp.asarray, operands)
    wide = x.astype(jnp.int32)
    places = 255 - (jnp.max(wide, axis=-1, keepdims=True) - wide)
    in_order = jnp.moveaxis(places.astype(jnp.uint8), -1, 0)
    first, others = terms[in_order[0]], in_order[1:]
    total, _ = lax.scan(lambda sum, place: (sum + terms[place], None), first, others)
    quotient = float_bits.divide(products[places], total[..., None])
    rounded = lax.round(quotient, lax.RoundingMethod.TO_NEAREST_EVEN).astype(jnp.int32)
    limits = np.iinfo(x.dtype)
    return jnp.clip(rounded + plan.zero_point, limits.min, limits.max).astype(x.dtype)


SOFTMAX = dispatch.Operator(
    "quantized_softmax",
    (dispatch.kernel("mosaic_gpu", run_kernel, why_not, "cuda"), dispatch.Lowering("xla", _xla)),
    partition=lambda plan, operands: compat.partition(operands.input),
)
