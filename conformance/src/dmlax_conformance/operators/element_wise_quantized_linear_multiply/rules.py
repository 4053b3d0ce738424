"""Rules of ELEMENT_WISE_QUANTIZED_LINEAR_MULTIPLY, which DirectML lacks."""

from .._shared import binary_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs

CLAUSES = shared.clauses("MUL", "a * b")
UNBREAKABLE = shared.unbreakable("MUL")
TENSORS = shared.table(1, 8)


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check dtypes, sizes and the values of scales."""
    shared.check(inputs, outputs)
