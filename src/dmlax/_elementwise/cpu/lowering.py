"""The element-wise operators in C++ (`elementwise.cc`), which broadcast parameters themselves."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._core.arguments import expand_rank
from dmlax._elementwise.plan import Elementwise, ElementwisePlan

_QUANTIZE = "dmlax_quantize_linear"
_DEQUANTIZE = "dmlax_dequantize_linear"


def quantize(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """One call; `vmap` puts its axes before each operand's."""
    return _call(_QUANTIZE, plan, operands, exact=plan.arithmetic == "exact")


def dequantize(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """One call; `vmap` puts its axes before each operand's."""
    return _call(_DEQUANTIZE, plan, operands)


def _call(target: str, plan: ElementwisePlan, operands: Elementwise, **attributes: Any) -> Array:
    zero_point = operands.zero_point
    if zero_point is None:
        dtypes = {_QUANTIZE: plan.output.dtype, _DEQUANTIZE: plan.input.dtype}
        zero_point = jnp.zeros((), dtypes[target])
    parameters = (plan.spread(parameter) for parameter in (operands.scale, zero_point))
    rank = len(plan.input.shape)
    output = jax.ShapeDtypeStruct(plan.output.shape, plan.output.dtype)
    call = jax.ffi.ffi_call(target, output, vmap_method="expand_dims")
    return call(
        operands.input,
        *(expand_rank(each, rank, scalars=True) for each in parameters),
        **attributes,
    )
