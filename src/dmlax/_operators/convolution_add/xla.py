"""A convolution and a sum in plain XLA."""

from collections.abc import Callable, Sequence

from jax import Array

from dmlax._core.pairs import map_pairs
from dmlax._core.quantized_sum import Quantized, quantized_sum
from dmlax._operators.convolution import xla as convolution
from dmlax._operators.convolution_add.plan import ConvolutionAddPlan, Operands, terms


def run(plan: ConvolutionAddPlan, operands: Operands) -> Array:
    """Rounds twice: the convolution, then the sum."""
    output = convolution.run(plan.convolution, operands.convolution)
    return add_pairs(map_pairs, plan, operands, output)


def add_pairs(
    mapped: Callable[..., Array], plan: ConvolutionAddPlan, operands: Operands, output: Array
) -> Array:
    """The sum of a convolution's result and the addend, mapped over their pairs."""
    a, b, scale, zero_point, dtype, arithmetic = terms(plan, operands, output)

    def add(x: Array, y: Array, parameters: Sequence[Array]) -> Array:
        a_scale, a_zero, b_scale, b_zero, scale, zero_point = parameters
        pair = Quantized(x, a_scale, a_zero), Quantized(y, b_scale, b_zero)
        return quantized_sum(*pair, scale, zero_point, dtype, arithmetic)

    parameters = *a[1:], *b[1:], scale, zero_point
    return mapped(add, a.values, b.values, parameters, plan.output)
