"""The softmax of 8 bits in C++ (`softmax.cc`)."""

import jax
import numpy as np
from jax import Array

from dmlax._core.arguments import structs
from dmlax._fused.softmax.plan import Softmax, SoftmaxPlan


def run(plan: SoftmaxPlan, operands: Softmax) -> Array:
    """Makes one call; `vmap` puts its axes before the input's."""
    output: jax.ShapeDtypeStruct = structs(plan.output)
    call = jax.ffi.ffi_call("dmlax_quantized_softmax_v1", output, vmap_method="expand_dims")
    multiplier, zero_point = np.float32(plan.multiplier), np.int64(plan.zero_point)
    return call(*operands, multiplier=multiplier, zero_point=zero_point)
