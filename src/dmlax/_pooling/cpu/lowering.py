"""The pools in C++ (`pooling.cc`): images with three spatial axes, channels next or last."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._pooling.plan import Pooling, PoolingPlan

_MAXIMUM = "dmlax_max_pooling"
_AVERAGE = "dmlax_average_pooling"


def maximum(plan: PoolingPlan, operands: Pooling) -> Array:
    """One call; `vmap` puts its axes before the input's."""
    return _call(_MAXIMUM, plan, operands.input)


def average(plan: PoolingPlan, operands: Pooling) -> Array:
    """One call; `vmap` puts its axes before each operand's."""
    dtypes = (plan.input.dtype, plan.output.dtype)
    zero_points = (
        jnp.zeros(1, dtype) if given is None else given.reshape(-1)
        for given, dtype in zip(operands[3:], dtypes, strict=True)
    )
    input_zero_point, output_zero_point = zero_points
    return _call(
        _AVERAGE,
        plan,
        operands.input,
        operands.input_scale.reshape(-1),
        input_zero_point,
        operands.output_scale.reshape(-1),
        output_zero_point,
        include_padding=plan.options.include_padding,
        exact=plan.options.arithmetic == "exact",
        is_global=plan.options.kind == "global_average",
    )


def _call(
    target: str, plan: PoolingPlan, input: Array, *parameters: Array, **attributes: Any
) -> Array:
    layouts, rank = plan.options.layouts, len(plan.shape)
    batch, channel, *spatial = layouts.input
    last = channel == rank - 1
    order = (batch, *spatial, channel) if last else (batch, channel, *spatial)
    place = 1 if last else 2
    ones = (1,) * (5 - rank)
    sizes = [plan.shape[axis] for axis in order]
    pooled = [plan.pooled_shape[axis] for axis in order]
    output = jax.ShapeDtypeStruct((*pooled[:place], *ones, *pooled[place:]), plan.output.dtype)
    call = jax.ffi.ffi_call(target, output, vmap_method="expand_dims")
    found = call(
        input.transpose(order).reshape(*sizes[:place], *ones, *sizes[place:]),
        *parameters,
        windows=np.asarray(_windows(plan, len(ones)), np.int64),
        channels_last=last,
        **attributes,
    )
    to_output = tuple(order.index(layouts.input[layouts.output.index(i)]) for i in range(rank))
    return found.reshape(pooled).transpose(to_output)


def _windows(plan: PoolingPlan, missing: int) -> list[int]:
    """Window, stride, dilation and padding before, for each of three axes."""
    of = plan.windows
    starts = (start for start, _ in of.padding)
    given = zip(of.size, of.strides, of.dilations, starts, strict=True)
    return [value for each in (*[(1, 1, 1, 0)] * missing, *given) for value in each]
