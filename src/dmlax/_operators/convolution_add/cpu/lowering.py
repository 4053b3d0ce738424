"""A convolution and a sum in C++: two kernels."""

from jax import Array

from dmlax._cpu import binary
from dmlax._operators.convolution.cpu import lowering as convolution
from dmlax._operators.convolution_add.plan import ConvolutionAddPlan, Operands, terms


def why_not(plan: ConvolutionAddPlan, platform: str) -> str | None:
    """The convolution's reason."""
    return convolution.why_not(plan.convolution, platform)


def run(plan: ConvolutionAddPlan, operands: Operands) -> Array:
    """Rounds twice; the sum may take the memory of the convolution's result."""
    output = convolution.run(plan.convolution, operands.convolution)
    overwritten = int(plan.addend_first)
    return binary.combine("add", *terms(plan, operands, output), overwritten=overwritten)
