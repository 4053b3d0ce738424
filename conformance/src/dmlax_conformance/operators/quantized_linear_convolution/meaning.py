"""The meaning of QUANTIZED_LINEAR_CONVOLUTION."""

from ...format.tensors import Tensor
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.convolution import Windows
from .._shared.quantized_convolution import quantized_linear_convolution


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules."""
    dtype = outputs["OutputTensor"].dtype
    return {"OutputTensor": quantized_linear_convolution(inputs, Windows.of(attributes), dtype)}
