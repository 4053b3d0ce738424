"""The clauses of the pages, in our words."""

from . import OPERATORS
from .descriptors import DESC_CLAUSES

CLAUSES = {
    **{name: text for operator in OPERATORS.values() for name, text in operator.clauses.items()},
    **DESC_CLAUSES,
}


# Clauses that no call can break, and why: they are about the "result", the page leaves them
# "open" so that a vector takes a side, or they say what an "absent" tensor means.
UNBREAKABLE = {
    **{name: why for operator in OPERATORS.values() for name, why in operator.unbreakable.items()},
    "tensor-buffer": "result",
}


# The legend of the flags.
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
    "Requantization": "A multiplier and a shift take the place of the real number.",
    "Level": "What one feature level allows and an earlier one does not.",
    "Strided": "A tensor whose strides are not the packed ones, so that its buffer is given flat.",
    "Buffer": "Flags, alignment or byte size of a buffer.",
    "Layout": "Sizes and strides that do not describe a buffer.",
}
