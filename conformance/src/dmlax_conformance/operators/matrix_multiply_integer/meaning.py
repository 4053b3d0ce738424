"""The meaning of MATRIX_MULTIPLY_INTEGER."""

from ...format.tensors import Tensor
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.matmul import products


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules."""
    shape, sums = products(inputs)
    return {"OutputTensor": Tensor("int32", shape.output, tuple(sums))}
