"""Rules of QUANTIZED_LOOKUP, which DirectML lacks."""

from .._shared import call_rules as calls
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.tables import BYTES, row

CLAUSES = {
    "LUT-1": "Each element is replaced by an entry of the table: entry i is that of i for UINT8,"
    " and of i - 128 for INT8.",
    "LUT-2": "The input is INT8 or UINT8, and so is the table, on its own.",
    "LUT-3": "The table is a vector of 256 entries.",
    "LUT-4": "The output has the data type of the table and the sizes of the input.",
    "LUT-5": "The input has any rank up to 8.",
}
UNBREAKABLE = {"LUT-1": "result", "LUT-4": "result", "LUT-5": "result"}
TENSORS = (
    row("InputTensor", "input", 1, 8, BYTES),
    row("TableTensor", "input", 1, 1, BYTES),
    row("OutputTensor", "output", 1, 8, BYTES),
)


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check dtypes, then that the table has 256 entries."""
    calls.data_type(inputs, "InputTensor", calls.EIGHT_BIT)
    calls.data_type(inputs, "TableTensor", calls.EIGHT_BIT)
    sizes = inputs["TableTensor"].sizes
    calls.need(len(sizes) == 1, "dimension_count", "TableTensor")
    calls.need(sizes == (256,), "sizes", "TableTensor")
