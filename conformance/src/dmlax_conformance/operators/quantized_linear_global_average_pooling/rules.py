"""Rules of quantized global average pooling, a function that DirectML lacks: it has no descs."""

from .._shared import pooling_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.tables import BYTES, Rows, row

CLAUSES = shared.average_clauses("GAP")
UNBREAKABLE = shared.result_clauses("GAP")


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check input and parameters."""
    shared.check_image(inputs)
    shared.check_parameters(inputs, outputs)


TENSORS: Rows = (
    row("InputTensor", "input", 3, 5, BYTES),
    row("InputScaleTensor", "input", 0, 5, "FLOAT32"),
    row("InputZeroPointTensor", "optional", 0, 5, BYTES),
    row("OutputScaleTensor", "input", 0, 5, "FLOAT32"),
    row("OutputZeroPointTensor", "optional", 0, 5, BYTES),
    row("OutputTensor", "output", 3, 5, BYTES),
)
