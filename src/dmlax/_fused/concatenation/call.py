"""Joins tensors of bytes along an axis; on a Hopper GPU by a kernel, where they are large."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import dispatch
from dmlax._cuda import capability, first_use
from dmlax._fused.concatenation import xla
from dmlax._fused.concatenation.cuda import lowering as mosaic_gpu
from dmlax._fused.concatenation.plan import axis_names, local_plan, output_partition, plan

CONCATENATION = dispatch.Operator(
    "concatenate_bytes",
    plan,
    (
        first_use.unless_not_run(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda")
        ),
        dispatch.Lowering("xla", xla.run),
    ),
    partition=output_partition,
    splitting=dispatch.Splitting(axis_names, local_plan),
)


def concatenate(tensors: Sequence[Array | np.ndarray], axis: int) -> Array:
    """Joins tensors of 8 bits."""
    if capability.why_not("cuda") or len({x.dtype for x in tensors}) > 1:
        return jnp.concatenate(tensors, axis=axis)
    return CONCATENATION.call(*CONCATENATION.plan(tensors, axis))
