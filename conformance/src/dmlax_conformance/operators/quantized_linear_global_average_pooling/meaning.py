"""The meaning of quantized global average pooling."""

from ...format.tensors import Tensor
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.floats import Real
from .._shared.pooling import average, whole
from .._shared.pooling import quotients as exact


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules: the average over the image."""
    window = whole(inputs["InputTensor"].sizes)
    return {"OutputTensor": average(inputs, window, outputs["OutputTensor"].dtype)}


def quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> list[tuple[Real, int]]:
    """Return the exact quotient of each element, and its zero point."""
    return exact(inputs, whole(inputs["InputTensor"].sizes))
