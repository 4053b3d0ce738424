"""A table of 256 entries, applied to the bytes of a tensor. DirectML lacks the function.

ONNX has no such node either; a chain of nodes on one quantized tensor computes it:
https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
"""

from ..format.tensors import DTYPES, Tensor
from . import operator as rules
from .operator import Answer, Attributes, Definition, Inputs, Outputs


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the entry of the table for each element; the first is that of the lowest value.

    DirectML lacks the function. ONNX's Gather is the nearest:
    https://onnx.ai/onnx/operators/onnx__Gather.html
    """
    x, table = inputs["InputTensor"], inputs["TableTensor"]
    lowest = DTYPES[x.dtype].low
    words = tuple(table.words[word - lowest] for word in x.words)
    return {"OutputTensor": Tensor(table.dtype, x.sizes, words)}


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check data types and dimensions, then that the table has 256 entries.

    The limit of 8 dimensions is that of every tensor of DirectML.
    """
    rules.data_type(inputs, rules.EIGHT_BIT, "InputTensor")
    rules.data_type(inputs, rules.EIGHT_BIT, "TableTensor")
    rules.dimensions(inputs, "InputTensor")
    sizes = inputs["TableTensor"].sizes
    rules.need(len(sizes) == 1, "dimension_count", "TableTensor")
    rules.need(sizes == (256,), "sizes", "TableTensor")


_CLAUSES = """
LUT-1 (result): Each element is replaced by an entry of the table: entry i is that of i for UINT8,
  and of i - 128 for INT8.
LUT-2: The input is INT8 or UINT8, and so is the table, on its own.
LUT-3: The table is a vector of 256 entries.
LUT-4 (result): The output has the data type of the table and the sizes of the input.
LUT-5: The input has any rank up to 8.
"""

DEFINITION = Definition(
    compute,
    check,
    _CLAUSES,
    rows=(
        rules.row("InputTensor", "input", 1, 8, rules.BYTES),
        rules.row("TableTensor", "input", 1, 1, rules.BYTES),
        rules.row("OutputTensor", "output", 1, 8, rules.BYTES),
    ),
)
