"""Compaction in C++ (`nonzero.cc`): bits, counts, and every coordinate written once."""

import jax
import numpy as np
from jax import Array

from dmlax._core.arguments import structs
from dmlax._cpu import library
from dmlax._operators.nonzero.plan import NonzeroPlan
from dmlax._operators.nonzero.result import NonzeroCoordinates

_TARGET = "dmlax_nonzero_coordinates_v1"


def run(plan: NonzeroPlan, input: Array) -> NonzeroCoordinates:
    """One call; `vmap` puts its axes before the input's."""
    call = jax.ffi.ffi_call(_TARGET, tuple(structs(plan.output)), vmap_method="expand_dims")
    sizes = np.asarray(plan.sizes[-plan.coordinate_rank :], np.int64)
    return NonzeroCoordinates(*call(input, sizes=sizes, fill_value=np.uint32(plan.fill_value)))


def why_not(plan: NonzeroPlan, platform: str) -> str | None:
    """Refuses what one device cannot compute alone."""
    if why := library.why_not(platform):
        return why
    if not plan.input.is_static:
        return f"it needs static shapes, and InputTensor is {plan.input}"
    if plan.axis_name is not None:
        return "the devices of axis_name have to exchange what they find"
    return None
