"""Float rows in C++ (`rows.cc`)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import structs
from dmlax._cpu import library
from dmlax._rows.plan import AveragePlan, Rows, RowsPlan


def run(plan: RowsPlan, operands: Rows) -> Array:
    """Makes one call: of an average, a normalization, or without a scale of a softmax."""
    x, scale, bias = operands
    output: jax.ShapeDtypeStruct = structs(plan.output)
    is_average = isinstance(plan, AveragePlan)
    kernel = "average_bytes" if is_average else "normalize_rows"
    kernel = "softmax_rows" if scale is None else kernel
    call = jax.ffi.ffi_call(f"dmlax_{kernel}_v1", output, vmap_method="expand_dims")
    if is_average:
        return call(x, scale)
    if scale is None:
        return call(x)
    bias = jnp.zeros(0, np.float32) if bias is None else bias
    return call(x, scale, bias, epsilon=np.float32(plan.epsilon), is_centred=plan.is_centred)


def why_not(plan: RowsPlan, platform: str) -> str | None:
    """The reason why no kernel takes the plan, or None."""
    if plan.input.dtype != np.float32 and not isinstance(plan, AveragePlan):
        return f"its rows are {plan.input.dtype.name}, expected float32"
    return library.why_not(platform)
