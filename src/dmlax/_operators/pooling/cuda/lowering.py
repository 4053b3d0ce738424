"""max_pooling on Hopper GPUs, channels last. The kernel is imported only where it is lowered."""

import functools
from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
from jax import Array

from dmlax._core.arguments import aval_of
from dmlax._cuda import capability
from dmlax._cuda.batching import call_merged
from dmlax._operators.pooling import reference
from dmlax._operators.pooling.plan import Operands, Pooling, PoolingPlan

_MOST_TAPS = 32  # the most taps of a window; taps are unrolled
_MOST_ELEMENTS = 2**31  # 32 bits address the input


def why_not(plan: PoolingPlan, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    if why := capability.why_not(platform):
        return why
    if plan.options.layouts.input[1] != len(plan.shape) - 1:
        return "its channels are not last"
    if len(plan.spatial_axes) == 3:
        return "it has three spatial axes"
    if plan.shape[-1] % 4:
        return "the number of its channels is not a multiple of 4"
    if plan.windows.elements > _MOST_TAPS:
        return f"its windows have more than {_MOST_TAPS} elements"
    if max(plan.windows.dilations) > 1:
        return "its windows are dilated"
    if not _meets_input(plan):
        return "one of its windows is in the padding alone"
    if plan.input.size >= _MOST_ELEMENTS:
        return f"its input has {_MOST_ELEMENTS:,} elements or more"
    return None


def _meets_input(plan: PoolingPlan) -> bool:
    """True if every window has an element of the input."""
    of, sizes = plan.windows, [plan.shape[axis] for axis in plan.spatial_axes]
    starts = (start < size for (start, _), size in zip(of.padding, of.size, strict=True))
    lasts = (
        (count - 1) * stride - start < size
        for count, stride, (start, _), size in zip(
            plan.output_sizes, of.strides, of.padding, sizes, strict=True
        )
    )
    return all(starts) and all(lasts)


def run(plan: PoolingPlan, operands: Operands) -> Array:
    """Runs the kernel; launches none for an empty output."""
    refused = functools.partial(why_not, plan)
    input = capability.refuse_elsewhere("max_pooling", operands.input, refused)
    if plan.output.size == 0:
        return jnp.zeros(plan.output.shape, plan.output.dtype)
    return reference.to_output(plan, _pool(plan, input))


def _pool(plan: PoolingPlan, input: Array) -> Array:
    """The maxima; mapped images become more images."""
    from dmlax._operators.pooling.cuda import kernel

    def merge(size: int, mapped: Sequence[bool], operands: tuple[Array, ...]) -> Array | None:
        images = operands[0].reshape(-1, *operands[0].shape[2:])
        larger = replace(plan, operands=Pooling(aval_of(images)))
        if why_not(larger, "cuda"):
            return None
        return _pool(larger, images).reshape(size, *plan.pooled_shape)

    return call_merged(functools.partial(kernel.pool, plan), merge, input)
