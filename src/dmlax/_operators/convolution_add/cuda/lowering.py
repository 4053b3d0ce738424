"""A convolution and a sum on Hopper GPUs: one kernel, or two where a depthwise one cannot add."""

import functools

from jax import Array

from dmlax._cuda import byte_pairs
from dmlax._cuda.product_types import Addend, SumTypes
from dmlax._operators.convolution.cuda import lowering as convolution
from dmlax._operators.convolution_add.plan import SUM_PARAMETERS, ConvolutionAddPlan, Operands
from dmlax._operators.convolution_add.xla import add_pairs


def why_not(plan: ConvolutionAddPlan, platform: str) -> str | None:
    """The convolution's reason."""
    return convolution.why_not(plan.convolution, platform)


def run(plan: ConvolutionAddPlan, operands: Operands) -> Array:
    """Runs the kernels."""
    if not convolution.fuses_sum(plan.convolution):
        output = convolution.run(plan.convolution, operands.convolution)
        map_pairs = functools.partial(byte_pairs.map_pairs, "dmlax_quantized_sum")
        return add_pairs(map_pairs, plan, operands, output)
    addend = Addend(operands.addend, *(getattr(operands, name) for name in SUM_PARAMETERS))
    types = SumTypes(plan.addend.dtype, plan.output_dtype, plan.addend_first)
    return convolution.run_with_sum(plan.convolution, types, operands.convolution, addend)
