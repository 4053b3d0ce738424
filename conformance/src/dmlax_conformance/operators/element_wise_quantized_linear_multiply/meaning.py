"""The meaning of ELEMENT_WISE_QUANTIZED_LINEAR_MULTIPLY."""

from operator import mul

from ...format.tensors import Tensor
from .._shared.binary import binary
from .._shared.binary import quotients as exact
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.floats import Real


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the quantized product of a call that keeps the rules."""
    return binary(mul, inputs, outputs)


def quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> list[tuple[Real, int]]:
    """Return the exact quotient of each element, and its zero point."""
    return exact(mul, inputs)
