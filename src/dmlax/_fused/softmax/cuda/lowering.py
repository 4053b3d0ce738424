"""The softmax of 8 bits on GPUs."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._cuda import capability
from dmlax._fused.softmax.plan import Softmax, SoftmaxPlan

_MOST_ELEMENTS = 1024  # rows of so many elements fit in a block's shared memory on Hopper
_MULTIPLIERS_END = 2.0**38  # the kernel's products are float32


def why_not(plan: SoftmaxPlan, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    if why := capability.why_not(platform) or capability.why_not_so_many(plan.output):
        return why
    most = _MOST_ELEMENTS * capability.chosen().shared_bytes // capability.HOPPER.shared_bytes
    if plan.input.shape[-1] > most:
        return f"its rows have more than {most:,} elements"
    if not 0 <= plan.multiplier < _MULTIPLIERS_END:
        return "1 / y_scale is negative, or 2**38 or more"
    return None


def run(plan: SoftmaxPlan, operands: Softmax) -> Array:
    """Runs the kernel; elements after the plan's, up to whole chunks, become zeros."""
    from dmlax._fused.softmax.cuda import kernel

    quotients = kernel.Quotients(*quotients_of(plan))
    x, terms = jnp.asarray(operands.input), jnp.asarray(operands.terms)
    return kernel.softmax(quotients, plan.input.shape[-1], x, terms)


def quotients_of(plan: SoftmaxPlan) -> tuple[int, int, float]:
    """The lowest value of the dtype, the zero point and the multiplier of the kernel."""
    return int(np.iinfo(plan.input.dtype).min), plan.zero_point, plan.multiplier
