"""Float rows in C++ (`rows.cc`)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import structs
from dmlax._cpu import library
from dmlax._rows.plan import Rows, RowsPlan


def run(plan: RowsPlan, operands: Rows) -> Array:
    """Makes one call: of a normalization, or without a scale of a softmax."""
    x, scale, bias = operands
    output: jax.ShapeDtypeStruct = structs(plan.output)
    target = "dmlax_softmax_rows_v1" if scale is None else "dmlax_normalize_rows_v1"
    call = jax.ffi.ffi_call(target, output, vmap_method="expand_dims")
    if scale is None:
        return call(x)
    bias = jnp.zeros(0, np.float32) if bias is None else bias
    return call(x, scale, bias, epsilon=np.float32(plan.epsilon), is_centred=plan.is_centred)


def why_not(plan: RowsPlan, platform: str) -> str | None:
    """The reason why no kernel takes the plan, or None."""
    if plan.input.dtype != np.float32:
        return f"its rows are {plan.input.dtype.name}, expected float32"
    return library.why_not(platform)
