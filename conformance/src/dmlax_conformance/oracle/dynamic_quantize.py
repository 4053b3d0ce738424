"""DynamicQuantizeLinear: the range of the input gives scale and zero point."""

from fractions import Fraction

from ..format.tensors import Tensor
from . import exact
from . import operator as rules
from .exact import NAN, RANGES, Real, exactly
from .operator import Answer, Attributes, Definition, Desc, DescSizes, Found, Inputs, Outputs

STEPS = 255
_PARAMETERS = ("OutputScaleTensor", "OutputZeroPointTensor")


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the quantized input, its scale and its zero point; all 0 or NaN where open.

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_dynamic_quantize_linear_operator_desc
    """
    x, dtype = inputs["InputTensor"], outputs["OutputTensor"].dtype
    numbers = {word: exact.decode(word, x.dtype) for word in set(x.words)}
    scale, point, words = NAN, 0, dict.fromkeys(numbers, 0)
    if all(number.kind == "finite" for number in numbers.values()):
        scale, point = parameters([number.value for number in numbers.values()], dtype)
        words = {w: exact.quantize(n, scale.value, point, dtype) for w, n in numbers.items()}
    scale_sizes, point_sizes = (outputs[name].sizes for name in _PARAMETERS)
    return {
        "OutputTensor": Tensor(dtype, x.sizes, tuple(words[word] for word in x.words)),
        "OutputScaleTensor": Tensor("float32", scale_sizes, (exact.encode(scale, "float32"),)),
        "OutputZeroPointTensor": Tensor(dtype, point_sizes, (point,)),
    }


def parameters(values: list[Fraction], dtype: str) -> tuple[Real, int]:
    """Return the scale, and the zero point that goes with the rounded scale.

    The scale is (high - low) / 255 of a range that includes 0, rounded to float32; a scale of 0
    becomes 1. The zero point is clamp(round(lowest - low / scale)) for the lowest value of the
    output's data type.
    """
    low, high = min([Fraction(0), *values]), max([Fraction(0), *values])
    scale = exact.nearest(exactly((high - low) / STEPS), "float32")
    if scale.is_zero:
        scale = exactly(Fraction(1))
    return scale, exact.clamp(exact.round_half_even(RANGES[dtype][0] - low / scale.value), dtype)


def quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> list[tuple[Real, int]]:
    """Return the exact quotient of each element, and the zero point; NaN where all is open."""
    x, dtype = inputs["InputTensor"], outputs["OutputTensor"].dtype
    numbers = [exact.decode(word, x.dtype) for word in x.words]
    if any(number.kind != "finite" for number in numbers):
        return [(NAN, 0)] * len(numbers)
    scale, point = parameters([number.value for number in numbers], dtype)
    return [(exactly(number.value / scale.value), point) for number in numbers]


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check the data types and the dimensions that the page's table lists."""
    rules.data_type(inputs, ("float32", "float16"), "InputTensor")
    rules.need(outputs["OutputTensor"].dtype in rules.EIGHT_BIT, "data_type", "OutputTensor")
    rules.dimensions(inputs, "InputTensor")


def _check_desc(desc: Desc, feature_level: str) -> Found:
    yield from rules.same_types(desc, _TYPES)
    yield from rules.same_counts(desc, "OutputTensor", *_PARAMETERS)
    yield from rules.same_sizes(desc, "OutputTensor")
    yield from rules.all_ones(desc, *_PARAMETERS)


def _desc_sizes(inputs: Inputs, outputs: Outputs) -> DescSizes:
    """Return that the parameters of a desc have as many sizes of 1 as the input has sizes."""
    return dict.fromkeys(_PARAMETERS, (1,) * len(inputs["InputTensor"].sizes))


_TYPES = {"OutputZeroPointTensor": "OutputTensor"}

_CLAUSES = """
DYN-1 (result): The range is from the least element to the largest, and includes 0.
DYN-2 (result): The scale is the length of the range over 255, rounded once to FLOAT32.
DYN-3 (result): A scale that would be 0 is 1.
DYN-4 (result): The zero point is clamp(round(lowest value of the output - least / scale)), with the
  rounded scale; ties to even.
DYN-5 (result): The output is clamp(round(input / scale) + zero point); ties to even.
DYN-6: The input is FLOAT32 or FLOAT16, the output INT8 or UINT8, the scale FLOAT32; the zero point
  has the data type of the output.
DYN-7 (open): A NaN or an infinity leaves all three outputs open, which the page does not mention.
DYN-8 (result): There is one scale and one zero point for the whole input.
DYN-9: The input has at most 8 dimensions.
"""

DEFINITION = Definition(
    compute,
    check,
    _CLAUSES,
    {
        "4_0": (
            rules.row("InputTensor", "input", 1, 8, rules.FLOATS),
            rules.row("OutputTensor", "output", 1, 8, rules.BYTES),
            rules.row("OutputScaleTensor", "output", 1, 8, "FLOAT32"),
            rules.row("OutputZeroPointTensor", "output", 1, 8, rules.BYTES),
        )
    },
    desc_clauses={
        **rules.type_clauses(_TYPES),
        "same-dimension-count": "The outputs have the DimensionCount of the input.",
        "same-sizes": "OutputTensor has the Sizes of the input.",
        **rules.one_clauses(_PARAMETERS),
    },
    check_desc=_check_desc,
    desc_sizes=_desc_sizes,
)
