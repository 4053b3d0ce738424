"""Rules of QUANTIZED_LINEAR_CONVOLUTION, of calls and of descs, and its tensor support tables."""

from .._shared import call_rules as calls
from .._shared import convolution_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import Desc, Found, Violation, same_counts
from .._shared.tables import BYTES, Rows, Tables, row

CLAUSES = {
    "QLC-1": "The result equals dequantizing, convolving and quantizing in real arithmetic.",
    "QLC-2": "The accumulator sums (input - zero point) * (filter - zero point of the channel).",
    "QLC-3": "A padded cell dequantizes to zero: it holds the input zero point.",
    "QLC-4": "Bias is INT32, one for each output channel, and is added to the accumulator.",
    "QLC-5": "The quotient is rounded to nearest, ties to even, before the zero point is added.",
    "QLC-6": "The result is clamped to the full range of the output data type.",
    "QLC-7": "Filter scale and filter zero point are, each on its own, one value or one for each"
    " output channel; the other scales and zero points are one value.",
    "QLC-8": "Strides, dilations and padding of either side shape the windows.",
    "QLC-9": "Groups split the channels: input channels = filter channels * groups, and groups"
    " divide the output channels.",
    "QLC-10": "Input, filter and output are INT8 or UINT8 independently; a zero point has the data"
    " type of its tensor; scales are FLOAT32.",
    "QLC-11": "A missing zero point is 0 and a missing bias adds nothing.",
    "QLC-12": "The page leaves overflow of the 32-bit sum open; here it wraps.",
    "QLC-13": "A scale is finite and not zero; its sign and size are free.",
    "QLC-14": "Input and filter have rank 4, or 3 from feature level 4.0.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = {
    **dict.fromkeys(("QLC-1", "QLC-2", "QLC-3", "QLC-5", "QLC-6"), "result"),
    "QLC-12": "open",
    "QLC-11": "absent",
}


DESC_CLAUSES = {
    **shared.desc_clauses(" ".join((*shared.TYPES, *shared.SINGLE, *shared.PER_CHANNEL))),
    "same-dimension-count": "Filter, bias and output have the DimensionCount of the input.",
    "bias-channels": "BiasTensor is {1, K, 1, 1} for K output channels, {1, K, 1} with three"
    " dimensions.",
}
SCALES = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check what an integer convolution checks, then scales, bias and output."""
    shared.check_sums(attributes, inputs, outputs)
    for name in SCALES:
        calls.data_type(inputs, name, ("float32",))
    calls.same_data_type(inputs, "BiasTensor", "int32")
    calls.need(outputs["OutputTensor"].dtype in calls.EIGHT_BIT, "data_type", "OutputTensor")
    calls.same_data_type(inputs, "OutputZeroPointTensor", outputs["OutputTensor"].dtype)
    channels = inputs["FilterTensor"].sizes[0]
    for name in ("InputScaleTensor", "OutputScaleTensor", "OutputZeroPointTensor"):
        calls.lengths(inputs, name, 1)
    calls.lengths(inputs, "FilterScaleTensor", 1, channels)
    calls.lengths(inputs, "BiasTensor", channels)
    for name in SCALES:
        calls.scale_values(inputs, name)


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from same_counts("qconv", desc, "FilterTensor BiasTensor OutputTensor")
    yield from shared.check_convolution("qconv", desc)
    bias, kernel = desc["BiasTensor"], desc["FilterTensor"]
    is_comparable = bias is not None and kernel is not None
    if is_comparable and list(bias["Sizes"]) != shared.channel_sizes(kernel, len(bias["Sizes"])):
        yield Violation("qconv-bias-channels", "sizes", "BiasTensor")


def _quantized(lowest: int, filter_scale: int, parameter: int) -> Rows:
    """Return the table whose lowest DimensionCounts are these; the highest is always 4."""
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


TABLES: Tables = {
    "2_1": _quantized(4, 4, 4),
    "4_0": _quantized(3, 3, 1),
    "5_2": _quantized(3, 1, 1),
}
