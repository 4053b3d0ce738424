"""What the pages say, in our words, and the legend of the flags."""

from .desc_clauses import DESC_CLAUSES

CLAUSES = {
    "NZC-1": "Every non-zero element gives one row: its coordinates on the last N axes.",
    "NZC-2": "Zero and minus zero are zero; every other bit pattern of a float is non-zero.",
    "NZC-3": "N is at least the effective rank (leading sizes of 1 dropped), at least 1, and at"
    " most the rank of the input.",
    "NZC-4": "Rows ascend by the row-major index of their element.",
    "NZC-5": "The count is how many elements are non-zero, as one UINT32.",
    "NZC-6": "M equals the number of elements; rows from the count on are undefined.",
    "NZC-7": "The input has a supported data type.",
    "NZC-8": "The input has a rank of 1 to 8.",
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
    "CVI-1": "The output is INT32: the sum of (input - zero point) * (filter - zero point).",
    "CVI-2": "A padded cell holds the input zero point, so that it contributes nothing.",
    "CVI-3": "Strides, dilations, padding and groups shape the windows.",
    "CVI-4": "Input and filter are INT8 or UINT8 independently; zero points match their tensor.",
    "CVI-5": "The filter zero point is one value or one for each output channel.",
    "CVI-6": "The page leaves overflow of the 32-bit sum open; here it wraps.",
    "CVI-7": "Input and filter have rank 4, or 3 from feature level 4.0.",
    "QNT-1": "The result is clamp(round(input / scale) + zero point) in real arithmetic.",
    "QNT-2": "Rounding is to nearest, ties to even, and comes before the zero point.",
    "QNT-3": "The result is clamped to the full range of the output data type.",
    "QNT-4": "Input is FLOAT32, FLOAT16 or INT32; scale has the data type of the input, but"
    " FLOAT32 for INT32; the output is INT8 or UINT8, as is the zero point.",
    "QNT-5": "Scale and zero point apply element by element; they repeat along sizes of 1.",
    "QNT-6": "A scale is finite and not zero.",
    "QNT-7": "The page is silent about infinities, which saturate here, and about NaN.",
    "QNT-8": "A missing zero point is 0.",
    "DQT-1": "The result is (input - zero point) * scale in real arithmetic, rounded once.",
    "DQT-2": "Input is an integer of 8, 16 or 32 bits; the zero point has its data type.",
    "DQT-3": "The output has the data type of the scale, FLOAT32 or FLOAT16.",
    "DQT-4": "Scale and zero point apply element by element; they repeat along sizes of 1.",
    "DQT-5": "A scale is finite and not zero.",
    "DQT-6": "A missing zero point is 0.",
    **DESC_CLAUSES,
}

NOTES = {
    "PageExample": "An example that the page itself prints or describes.",
    "EffectiveRank": "The width of a coordinate is at the lower or upper end of what is allowed.",
    "SpecialFloat": "Signed zeros, NaN, infinities or subnormal numbers.",
    "WideType": "A data type that the page does not list; an extension.",
    "Extreme": "The ends of a data type's range.",
    "BlockEdge": "Sizes beside a power of two, where blocked code goes wrong.",
    "Density": "None, all, only the first or only the last element is non-zero.",
    "Large": "Inputs made by a recipe, too large to print.",
    "Huge": "More than 2^31 elements; the table has fewer rows than DirectML wants, as a"
    " functional call may ask.",
    "Empty": "A size of 0, which DirectML does not allow; an extension.",
    "Optional": "Optional tensors are absent or present.",
    "PerChannel": "Filter scale or filter zero point differs between channels.",
    "Padding": "Cells outside of the image matter.",
    "Windows": "Strides, dilations or kernel shapes other than the plainest.",
    "Groups": "More than one group.",
    "OddContraction": "The number of products in a sum is not a multiple of 4.",
    "Rank3": "One spatial dimension: allowed by the tables from 4.0, beyond the 2.1 page.",
    "Saturation": "The clamp decides.",
    "Tie": "The exact quotient is halfway between two integers.",
    "NearTieFloat32": "The quotient is so near a half that float32 cannot tell; it errs on most of"
    " these.",
    "NearTieFloat64": "The quotient is so near a half that float64 cannot tell; it errs on most of"
    " these.",
    "LargeAccumulator": "The accumulator has more than 24 bits, so float32 cannot hold it.",
    "OddScale": "A scale that is negative, subnormal, tiny or huge.",
    "Overflow": "The sum leaves 32 bits; the page leaves this open, the vector asks for wrapping.",
    "Broadcast": "A parameter with fewer elements than the input; in DirectML a stride of 0.",
    "WideInteger": "Integers that float32 or float16 cannot hold.",
    "Rounding": "The result is not representable, so that rounding shows.",
    "Invalid": "The call breaks exactly one rule that its twin keeps.",
    "KnownValue": "The scale is known before the call runs, so that its value can be checked.",
    "Row": "A line of the operator's tensor support table: its bounds, or just outside of them.",
    "Level": "What one feature level allows and an earlier one does not.",
    "Strided": "A tensor whose strides are not the packed ones, so that its buffer is given flat.",
    "Buffer": "Flags, alignment or byte size of a buffer.",
    "Layout": "Sizes and strides that do not describe a buffer.",
}

# Clauses that no call can break, and why: they are about the "result", the page leaves them
# "open" so that a vector takes a side, or they say what an "absent" tensor means.
UNBREAKABLE = {
    **dict.fromkeys(("NZC-1", "NZC-2", "NZC-4", "NZC-5", "NZC-6"), "result"),
    **dict.fromkeys(("QLC-1", "QLC-2", "QLC-3", "QLC-5", "QLC-6"), "result"),
    **dict.fromkeys(("CVI-1", "CVI-2", "QNT-1", "QNT-2", "QNT-3", "DQT-1"), "result"),
    **dict.fromkeys(("QLC-12", "CVI-6", "QNT-7"), "open"),
    **dict.fromkeys(("QLC-11", "QNT-8", "DQT-6"), "absent"),
    "tensor-buffer": "result",
}
