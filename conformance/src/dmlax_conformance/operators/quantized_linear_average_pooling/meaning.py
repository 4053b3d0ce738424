"""The meaning of QUANTIZED_LINEAR_AVERAGE_POOLING."""

from ...format.tensors import Tensor
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.floats import Real
from .._shared.pooling import average
from .._shared.pooling import quotients as exact


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules."""
    return {"OutputTensor": average(inputs, attributes, outputs["OutputTensor"].dtype)}


def quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> list[tuple[Real, int]]:
    """Return the exact quotient of each element, and its zero point."""
    return exact(inputs, attributes)
