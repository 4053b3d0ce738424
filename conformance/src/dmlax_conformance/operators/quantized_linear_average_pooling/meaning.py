"""The meaning of QUANTIZED_LINEAR_AVERAGE_POOLING."""

from ...format.tensors import Tensor
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.pooling import average


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules."""
    return {"OutputTensor": average(inputs, attributes, outputs["OutputTensor"].dtype)}
