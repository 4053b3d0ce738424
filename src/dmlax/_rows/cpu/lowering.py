"""Float rows in C++ (`rows.cc`)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import structs
from dmlax._cpu import library
from dmlax._rows.plan import Rows, RowsPlan


def normalize(plan: RowsPlan, operands: Rows) -> Array:
    """One call; `vmap` puts its axes before each operand's."""
    x, scale, bias = operands
    bias = jnp.zeros(0, np.float32) if bias is None else bias
    output: jax.ShapeDtypeStruct = structs(plan.output)
    call = jax.ffi.ffi_call("dmlax_normalize_rows", output, vmap_method="expand_dims")
    return call(x, scale, bias, epsilon=np.float32(plan.epsilon), is_centred=plan.is_centred)


def softmax(plan: RowsPlan, operands: Rows) -> Array:
    """One call."""
    output: jax.ShapeDtypeStruct = structs(plan.output)
    call = jax.ffi.ffi_call("dmlax_softmax_rows", output, vmap_method="expand_dims")
    return call(operands.input)


def why_not(plan: RowsPlan, platform: str) -> str | None:
    """The reason why no kernel takes the plan, or None."""
    if plan.input.dtype != np.float32:
        return f"its rows are {plan.input.dtype.name}, expected float32"
    return library.why_not(platform)
