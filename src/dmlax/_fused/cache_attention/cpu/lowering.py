"""Attention of rows to a cache in C++ (`cache_attention.cc`)."""

import jax
import numpy as np
from jax import Array

from dmlax._core.arguments import is_static, structs
from dmlax._cpu import library
from dmlax._fused.cache_attention.plan import CachePlan, Caches


def run(plan: CachePlan, operands: Caches) -> Array:
    """Makes one call."""
    output: jax.ShapeDtypeStruct = structs(plan.output)
    call = jax.ffi.ffi_call("dmlax_cache_attention_v1", output, vmap_method="broadcast_all")
    scale, softcap = np.float32(plan.scale), np.float32(plan.softcap)
    result: Array = call(*operands, scale=scale, softcap=softcap)
    return result


def why_not(plan: CachePlan, platform: str) -> str | None:
    """The reason why no kernel takes the plan, or None."""
    if why := library.why_not(platform):
        return why
    dtypes = {x.dtype.name for x in (plan.input, plan.keys, plan.values)}
    if dtypes != {"float32"}:
        return f"its queries, keys and values are {', '.join(sorted(dtypes))}, expected float32"
    is_fixed = all(is_static(x.shape) for x in (plan.input, plan.keys, plan.values))
    return None if is_fixed else "a size is a symbol"
