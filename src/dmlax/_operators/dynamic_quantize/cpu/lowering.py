"""Dynamic quantization in C++ (`dynamic_quantize.cc`)."""

import jax
from jax import Array

from dmlax._core.arguments import structs
from dmlax._operators.dynamic_quantize.plan import DynamicQuantizePlan
from dmlax._operators.dynamic_quantize.result import DynamicQuantizeLinear

_TARGET = "dmlax_dynamic_quantize_v1"


def run(plan: DynamicQuantizePlan, input: Array) -> DynamicQuantizeLinear:
    """One call; `vmap` puts its axes before the input's."""
    call = jax.ffi.ffi_call(_TARGET, tuple(structs(plan.output)), vmap_method="expand_dims")
    return DynamicQuantizeLinear(*call(input, exact=plan.arithmetic == "exact"))
