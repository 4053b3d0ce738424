"""The meaning of ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

from operator import add

from ...format.tensors import Tensor
from .._shared.binary import binary
from .._shared.binary import quotients as exact
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.floats import Real


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the quantized sum of a call that keeps the rules."""
    return binary(add, inputs, outputs)


def quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> list[tuple[Real, int]]:
    """Return the exact quotient of each element, and its zero point."""
    return exact(add, inputs)
