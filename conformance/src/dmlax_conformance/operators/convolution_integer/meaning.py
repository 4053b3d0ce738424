"""The meaning of CONVOLUTION_INTEGER."""

from ...format.tensors import Tensor
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.convolution import Windows, accumulators


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules."""
    sizes, sums = accumulators(inputs, Windows.of(attributes))
    return {"OutputTensor": Tensor("int32", sizes, tuple(sums))}
