"""The pools in C++ (`pooling.cc`): images with three spatial axes, channels next or last."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import is_static
from dmlax._cpu import library
from dmlax._cpu.layouts import Layout
from dmlax._operators.pooling.plan import Operands, PoolingPlan

_MAXIMUM = "dmlax_max_pooling_v1"
_AVERAGE = "dmlax_average_pooling_v1"


def why_not(plan: PoolingPlan, platform: str) -> str | None:
    """Refuses images of symbolic sizes."""
    if platform == "cpu" and not is_static(plan.output_sizes):
        return f"it needs static images, and InputTensor is {plan.input}"
    if plan.options.requantization is not None:
        return f"its kernel lacks requantization {plan.options.requantization}"
    return library.why_not(platform)


def run(plan: PoolingPlan, operands: Operands) -> Array:
    """Pools by the plan's kind."""
    return (maximum if plan.options.kind == "max" else average)(plan, operands)


def maximum(plan: PoolingPlan, operands: Operands) -> Array:
    """One call; `vmap` puts its axes before the input's."""
    return _call(_MAXIMUM, plan, operands.input)


def average(plan: PoolingPlan, operands: Operands) -> Array:
    """One call; `vmap` puts its axes before those of every operand."""
    dtypes = (plan.input.dtype, plan.output.dtype)
    zero_points = (
        jnp.zeros(1, dtype) if zero_point is None else zero_point.reshape(-1)
        for zero_point, dtype in zip(operands[3:], dtypes, strict=True)
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
    target: str, plan: PoolingPlan, input: Array, *parameters: Array, **attributes: bool
) -> Array:
    layouts, rank = plan.options.layouts, len(plan.shape)
    layout = Layout(layouts.input, 5)
    sizes = (*(plan.shape[axis] for axis in layouts.input[:2]), *plan.output_sizes)
    output = jax.ShapeDtypeStruct(layout.shape(sizes), plan.output.dtype)
    y: Array = jax.ffi.ffi_call(target, output, vmap_method="expand_dims")(
        layout.to_kernel(input),
        *parameters,
        windows=np.asarray(_windows(plan, 5 - rank), np.int64),
        channels_last=layout.channels_last,
        **attributes,
    )
    return layout.from_kernel(y, sizes, layouts.output)


def _windows(plan: PoolingPlan, missing: int) -> list[int]:
    """Window, stride, dilation and padding before, of three axes."""
    of = plan.windows
    starts = (start for start, _ in of.padding)
    axes = zip(of.size, of.strides, of.dilations, starts, strict=True)
    return [value for axis in (*[(1, 1, 1, 0)] * missing, *axes) for value in axis]
