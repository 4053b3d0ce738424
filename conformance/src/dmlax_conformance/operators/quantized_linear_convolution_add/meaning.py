"""The meaning of a quantized convolution with an addend."""

from operator import add

from ...format.tensors import Tensor
from .._shared.binary import binary
from .._shared.binary import quotients as exact
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.convolution import Windows
from .._shared.floats import Real
from .._shared.quantized_convolution import quantized_linear_convolution
from .._shared.quantized_convolution_rules import convolved_dtype
from .rules import TERMS


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the sum of the convolution's result, which is rounded and clamped, and the addend."""
    return binary(add, _terms(attributes, inputs), outputs)


def quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> list[tuple[Real, int]]:
    """Return the exact quotient of each element of the sum, and its zero point."""
    return exact(add, _terms(attributes, inputs))


def _terms(attributes: Attributes, inputs: Inputs) -> Inputs:
    """Name the operands of the sum as those of an addition."""
    windows, dtype = Windows.of(attributes), convolved_dtype(inputs)
    known = {**inputs, "ConvolvedTensor": quantized_linear_convolution(inputs, windows, dtype)}
    return {own: known[name] for name, own in TERMS.items() if name in known}
