"""A lookup in C++ (`lookup.cc`)."""

import jax
from jax import Array

from dmlax._operators.byte_lookup.plan import Lookup, LookupPlan


def run(plan: LookupPlan, operands: Lookup) -> Array:
    """One call; `vmap` puts its axes before each operand's."""
    output = jax.ShapeDtypeStruct(plan.output.shape, plan.output.dtype)
    call = jax.ffi.ffi_call("dmlax_lookup_v1", output, vmap_method="expand_dims")
    return call(operands.input, operands.table)
