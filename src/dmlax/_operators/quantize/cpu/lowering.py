"""The element-wise operators in C++ (`elementwise.cc`), which broadcast parameters themselves."""

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._core.arguments import expand_rank
from dmlax._operators.quantize.plan import Elementwise, ElementwisePlan


def run(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """Makes one call; `vmap` puts its axes before those of every operand."""
    _, scale, zero_point = plan.spread_all(operands)
    if zero_point is None:
        zero_point = jnp.zeros((), (plan.output if plan.quantizes else plan.input).dtype)
    rank = len(plan.input.shape)
    parameters = (expand_rank(x, rank, scalars=True) for x in (scale, zero_point))
    output = jax.ShapeDtypeStruct(plan.output.shape, plan.output.dtype)
    target = "dmlax_quantize_linear_v1" if plan.quantizes else "dmlax_dequantize_linear_v1"
    call = jax.ffi.ffi_call(target, output, vmap_method="expand_dims")
    attributes = {"exact": plan.arithmetic == "exact"} if plan.quantizes else {}
    result: Array = call(operands.input, *parameters, **attributes)
    return result
