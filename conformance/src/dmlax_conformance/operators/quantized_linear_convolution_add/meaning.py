"""The meaning of a quantized convolution with an addend."""

from operator import add

from ...format.tensors import Tensor
from .._shared.binary import binary
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.convolution import Windows
from .._shared.quantized_convolution import quantized_linear_convolution
from .._shared.quantized_convolution_rules import convolved_dtype
from .rules import TERMS


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the sum of the convolution's result, which is rounded and clamped, and the addend."""
    windows, dtype = Windows.of(attributes), convolved_dtype(inputs)
    known = {**inputs, "ConvolvedTensor": quantized_linear_convolution(inputs, windows, dtype)}
    return binary(add, {own: known[name] for name, own in TERMS.items() if name in known}, outputs)
