"""The definition of a convolution and a sum: both of their definitions."""

from jax import Array

from dmlax._core.quantized_sum import quantized_sum
from dmlax._operators.convolution import reference as convolution
from dmlax._operators.convolution_add.plan import ConvolutionAddPlan, Operands, terms


def run(plan: ConvolutionAddPlan, operands: Operands) -> Array:
    """Rounds twice: the convolution, then the sum."""
    output = convolution.run(plan.convolution, operands.convolution)
    return quantized_sum(*terms(plan, operands, output))


def why_not(plan: ConvolutionAddPlan, platform: str) -> str | None:
    """The convolution's reason."""
    return convolution.why_not(plan.convolution, platform)
