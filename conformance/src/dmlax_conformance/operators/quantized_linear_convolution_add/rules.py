"""Rules of a quantized convolution with an addend, a function that DirectML lacks: no descs."""

from .._shared import call_rules as calls
from .._shared import quantized_convolution_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.convolution import Windows
from .._shared.tables import BYTES, Rows, row

CLAUSES = {
    **shared.clauses("QCA"),
    "QCA-15": "QCA-1 to QCA-14 give the convolution's result, which is not an output: it has the"
    " data type of OutputZeroPointTensor, and without one that of the input.",
    "QCA-16": "The output is clamp(round((a + b) / sum scale) + sum zero point) in real arithmetic,"
    " where a is (result - output zero point) * output scale of the rounded and clamped result,"
    " and b is (addend - addend zero point) * addend scale.",
    "QCA-17": "The quotient of the sum is rounded to nearest, ties to even, before the sum zero"
    " point is added.",
    "QCA-18": "The sum is clamped to the full range of the output data type.",
    "QCA-19": "Addend and output are INT8 or UINT8, each on its own; AddendZeroPointTensor has the"
    " data type of the addend, SumZeroPointTensor that of the output; both scales are FLOAT32.",
    "QCA-20": "The addend has the rank and the sizes of the convolution's result.",
    "QCA-21": "Scale and zero point of the addend and of the sum are one value each.",
    "QCA-22": "The scales of the addend and of the sum are finite and not zero.",
    "QCA-23": "A missing zero point of the addend or of the sum is 0.",
    "QCA-24": "AddendFirst says which operand of the sum is the first; an exact sum is the same.",
}
UNBREAKABLE = {
    **shared.unbreakable("QCA"),
    **dict.fromkeys(("QCA-15", "QCA-16", "QCA-17", "QCA-18", "QCA-24"), "result"),
    "QCA-23": "absent",
}
TERMS = {  # of the sum, as the tensors of an addition
    "ConvolvedTensor": "ATensor",
    "OutputScaleTensor": "AScaleTensor",
    "OutputZeroPointTensor": "AZeroPointTensor",
    "AddendTensor": "BTensor",
    "AddendScaleTensor": "BScaleTensor",
    "AddendZeroPointTensor": "BZeroPointTensor",
    "SumScaleTensor": "OutputScaleTensor",
    "SumZeroPointTensor": "OutputZeroPointTensor",
}
*_CONVOLUTION, _OUTPUT = shared.rows(3, 1, 1)
TENSORS: Rows = (
    *_CONVOLUTION,
    row("AddendTensor", "input", 3, 4, BYTES),
    row("AddendScaleTensor", "input", 1, 4, "FLOAT32"),
    row("AddendZeroPointTensor", "optional", 1, 4, BYTES),
    row("SumScaleTensor", "input", 1, 4, "FLOAT32"),
    row("SumZeroPointTensor", "optional", 1, 4, BYTES),
    _OUTPUT,
)
SCALES = ("AddendScaleTensor", "SumScaleTensor")


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check the convolution, then the addend and the parameters of the sum."""
    shared.check(attributes, inputs, outputs, is_output=False)
    calls.data_type(inputs, "AddendTensor", calls.EIGHT_BIT)
    dtype = outputs["OutputTensor"].dtype
    calls.need(dtype in calls.EIGHT_BIT, "data_type", "OutputTensor")
    calls.same_data_type(inputs, "SumZeroPointTensor", dtype)
    calls.same_data_type(inputs, "AddendZeroPointTensor", inputs["AddendTensor"].dtype)
    for name in SCALES:
        calls.data_type(inputs, name, ("float32",))
    image, kernel = inputs["InputTensor"].sizes, inputs["FilterTensor"].sizes
    spatial = Windows.of(attributes).output_sizes(image[2:], kernel[2:])
    sizes, found = (image[0], kernel[0], *spatial), inputs["AddendTensor"].sizes
    calls.need(len(found) == len(sizes), "dimension_count", "AddendTensor")
    calls.need(found == sizes, "sizes", "AddendTensor")
    for name in (*SCALES, "AddendZeroPointTensor", "SumZeroPointTensor"):
        calls.lengths(inputs, name, 1)
    for name in SCALES:
        calls.scale_values(inputs, name)
