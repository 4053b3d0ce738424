"""Float rows in C++ (`rows.cc`)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import structs
from dmlax._cpu import library
from dmlax._fused.rows.plan import AveragePlan, Rows, RowsPlan


def run(plan: RowsPlan, operands: Rows) -> Array:
    """Makes one call: of an average, a normalization, or without a scale of a softmax."""
    x, scale, bias = operands
    output: jax.ShapeDtypeStruct = structs(plan.output)

    def kernel(name: str, *operands: Array, **attributes: object) -> Array:
        call = jax.ffi.ffi_call(f"dmlax_{name}_v1", output, vmap_method="expand_dims")
        result: Array = call(*operands, **attributes)
        return result

    if isinstance(plan, AveragePlan):
        return kernel("average_bytes", x, jnp.zeros(0, np.float32) if scale is None else scale)
    if scale is None:
        return kernel("softmax_rows", x)
    bias = jnp.zeros(0, np.float32) if bias is None else bias
    epsilon = np.float32(plan.epsilon)
    return kernel("normalize_rows", x, scale, bias, epsilon=epsilon, is_centred=plan.is_centred)


def why_not(plan: RowsPlan, platform: str) -> str | None:
    """The reason why no kernel takes the plan, or None."""
    if plan.input.dtype != np.float32 and not isinstance(plan, AveragePlan):
        return f"its rows are {plan.input.dtype.name}, expected float32"
    return library.why_not(platform)
