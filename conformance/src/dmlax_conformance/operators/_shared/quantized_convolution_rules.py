"""Rules of calls that operators with a quantized convolution share."""

from . import call_rules as calls
from . import convolution_rules as shared
from .call_rules import Attributes, Inputs, Outputs
from .tables import BYTES, Rows, row

POINT = "OutputZeroPointTensor"
SCALES = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
TEXTS = {
    1: "The result equals dequantizing, convolving and quantizing in real arithmetic.",
    2: "The accumulator sums (input - zero point) * (filter - zero point of the channel).",
    3: "A padded cell dequantizes to zero: it holds the input zero point.",
    4: "Bias is INT32, one for each output channel, and is added to the accumulator.",
    5: "The quotient is rounded to nearest, ties to even, before the zero point is added.",
    6: "The result is clamped to the full range of the output data type.",
    7: "Filter scale and filter zero point are, each on its own, one value or one for each"
    " output channel; the other scales and zero points are one value.",
    8: "Strides, dilations and padding of either side shape the windows.",
    9: "Groups split the channels: input channels = filter channels * groups, and groups"
    " divide the output channels.",
    10: "Input, filter and output are INT8 or UINT8 independently; a zero point has the data"
    " type of its tensor; scales are FLOAT32.",
    11: "A missing zero point is 0 and a missing bias adds nothing.",
    12: "The page leaves overflow of the 32-bit sum open; here it wraps.",
    13: "A scale is finite and not zero; its sign and size are free.",
    14: "Input and filter have rank 4, or 3 from feature level 4.0.",
}


def clauses(prefix: str) -> dict[str, str]:
    """Return the clauses of a call."""
    return {f"{prefix}-{number}": text for number, text in TEXTS.items()}


def unbreakable(prefix: str) -> dict[str, str]:
    """Return the clauses that no call can break, and why."""
    why = {**dict.fromkeys((1, 2, 3, 5, 6), "result"), 12: "open", 11: "absent"}
    return {f"{prefix}-{number}": reason for number, reason in why.items()}


def convolved_dtype(inputs: Inputs) -> str:
    """Return the data type of a result that is not an output: its zero point's, or the input's."""
    return inputs[POINT if POINT in inputs else "InputTensor"].dtype


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs, is_output: bool = True) -> None:
    """Check what an integer convolution checks, then scales, bias and the result's data type.

    The result is the output, or is what `convolved_dtype` says.
    """
    shared.check_sums(attributes, inputs, outputs)
    for name in SCALES:
        calls.data_type(inputs, name, ("float32",))
    calls.same_data_type(inputs, "BiasTensor", "int32")
    dtype = outputs["OutputTensor"].dtype if is_output else convolved_dtype(inputs)
    calls.need(dtype in calls.EIGHT_BIT, "data_type", "OutputTensor" if is_output else POINT)
    calls.same_data_type(inputs, POINT, dtype)
    channels = inputs["FilterTensor"].sizes[0]
    for name in ("InputScaleTensor", "OutputScaleTensor", POINT):
        calls.lengths(inputs, name, 1)
    calls.lengths(inputs, "FilterScaleTensor", 1, channels)
    calls.lengths(inputs, "BiasTensor", channels)
    for name in SCALES:
        calls.scale_values(inputs, name)


def rows(lowest: int, filter_scale: int, parameter: int) -> Rows:
    """Return the rows whose lowest DimensionCounts are these; the highest is always 4."""
    return (
        row("InputTensor", "input", lowest, 4, BYTES),
        row("InputScaleTensor", "input", parameter, 4, "FLOAT32"),
        row("InputZeroPointTensor", "optional", parameter, 4, BYTES),
        row("FilterTensor", "input", lowest, 4, BYTES),
        row("FilterScaleTensor", "input", filter_scale, 4, "FLOAT32"),
        row("FilterZeroPointTensor", "optional", parameter, 4, BYTES),
        row("BiasTensor", "optional", lowest, 4, "INT32"),
        row("OutputScaleTensor", "input", parameter, 4, "FLOAT32"),
        row("OutputZeroPointTensor", "optional", parameter, 4, BYTES),
        row("OutputTensor", "output", lowest, 4, BYTES),
    )
