"""QuantizeLinear and DequantizeLinear, element by element."""

from fractions import Fraction

import numpy as np

from ..format.tensors import DTYPES, Tensor
from . import exact
from . import operator as rules
from .operator import Answer, Attributes, Definition, Desc, DescSizes, Found, Inputs, Outputs


def broadcast(tensor: Tensor, sizes: rules.Sizes) -> list[int]:
    """Return the words repeated to `sizes`; sizes align on the right and 1 repeats."""
    if tensor.sizes == sizes:
        return list(tensor.words)
    places = np.arange(len(tensor.words)).reshape(tensor.sizes)
    return [tensor.words[place] for place in np.broadcast_to(places, sizes).reshape(-1).tolist()]


def quantize(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return clamp(round(input / scale) + zero point).

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_quantize_linear_operator_desc
    """
    x, scale, dtype = inputs["InputTensor"], inputs["ScaleTensor"], outputs["OutputTensor"].dtype
    rows = zip(x.words, broadcast(scale, x.sizes), _zero_points(inputs), strict=True)
    words = (
        exact.quantize(_real(word, x.dtype), exact.decode(s, scale.dtype).value, zero, dtype)
        for word, s, zero in rows
    )
    return {"OutputTensor": Tensor(dtype, x.sizes, tuple(words))}


def dequantize(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return (input - zero point) * scale, rounded once to the data type of the scale.

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_dequantize_linear_operator_desc
    """
    x, scale = inputs["InputTensor"], inputs["ScaleTensor"]
    rows = zip(x.words, broadcast(scale, x.sizes), _zero_points(inputs), strict=True)
    words = (
        exact.encode(exact.exactly((word - zero) * exact.decode(s, scale.dtype).value), scale.dtype)
        for word, s, zero in rows
    )
    return {"OutputTensor": Tensor(scale.dtype, x.sizes, tuple(words))}


def _zero_points(inputs: Inputs) -> list[int]:
    """Return a zero point for each element; a missing one is 0."""
    x, zero_point = inputs["InputTensor"], inputs.get("ZeroPointTensor")
    return [0] * len(x.words) if zero_point is None else broadcast(zero_point, x.sizes)


def _real(word: int, dtype: str) -> exact.Real:
    if DTYPES[dtype].kind == "bits":
        return exact.decode(word, dtype)
    return exact.exactly(Fraction(word))


def check_quantize(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check the data types that the page's table lists, then the parameters."""
    rules.data_type(inputs, ("float32", "float16", "int32"), "InputTensor")
    dtype = inputs["InputTensor"].dtype
    rules.data_type(inputs, ("float32" if dtype == "int32" else dtype,), "ScaleTensor")
    rules.need(outputs["OutputTensor"].dtype in rules.EIGHT_BIT, "data_type", "OutputTensor")
    rules.same_data_type(inputs, "ZeroPointTensor", outputs["OutputTensor"].dtype)
    _check_parameters(inputs)


def check_dequantize(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check the data types that the page's table lists, then the parameters."""
    rules.data_type(inputs, rules.INTEGERS, "InputTensor")
    rules.data_type(inputs, ("float32", "float16"), "ScaleTensor")
    rules.same_data_type(inputs, "ZeroPointTensor", inputs["InputTensor"].dtype)
    _check_parameters(inputs)


def _check_parameters(inputs: Inputs) -> None:
    """Check the input's dimensions, and that scale and zero point repeat to it."""
    rules.dimensions(inputs, "InputTensor")
    for name in ("ScaleTensor", "ZeroPointTensor"):
        if name in inputs:
            rules.broadcasts(inputs[name].sizes, inputs["InputTensor"].sizes, name)
    rules.scale_values(inputs, "ScaleTensor")


def _check_quantize_desc(desc: Desc, feature_level: str) -> Found:
    yield from _same_shape(desc)
    image, scale = desc["InputTensor"], desc["ScaleTensor"]
    if image is not None and scale is not None:
        wanted = "FLOAT32" if image["DataType"] == "INT32" else image["DataType"]
        if scale["DataType"] != wanted:
            yield rules.Violation("scale-data-type", "data_type", "ScaleTensor")
    yield from rules.same_types(desc, _QUANTIZED_TYPES)


def _check_dequantize_desc(desc: Desc, feature_level: str) -> Found:
    yield from _same_shape(desc)
    yield from rules.same_types(desc, _DEQUANTIZED_TYPES)


def _same_shape(desc: Desc) -> Found:
    names = ("ScaleTensor", "ZeroPointTensor", "OutputTensor")
    yield from rules.same_counts(desc, *names)
    yield from rules.same_sizes(desc, *names)


def _desc_sizes(inputs: Inputs, outputs: Outputs) -> DescSizes:
    """Return that the parameters of a desc have the sizes of its input."""
    return dict.fromkeys(("ScaleTensor", "ZeroPointTensor"), inputs["InputTensor"].sizes)


_QUANTIZED_TYPES = {"ZeroPointTensor": "OutputTensor"}
_DEQUANTIZED_TYPES = {"ZeroPointTensor": "InputTensor", "OutputTensor": "ScaleTensor"}
_DESC_CLAUSES = {
    "same-dimension-count": "Scale, zero point and output have the DimensionCount of the input.",
    "same-sizes": "Scale, zero point and output have the Sizes of the input; a stride of 0, not a"
    " size of 1, repeats.",
}


def _table(
    counts: tuple[int, int], source: str, scale: str, zero_point: str, result: str, kind: str
) -> rules.Rows:
    """Return a table whose tensors have the same dimension counts."""
    return (
        rules.row("InputTensor", "input", *counts, source),
        rules.row("ScaleTensor", "input", *counts, scale),
        rules.row("ZeroPointTensor", kind, *counts, zero_point),
        rules.row("OutputTensor", "output", *counts, result),
    )


_SOURCES = f"{rules.FLOATS} INT32"
_QNT = """
QNT-1 (result): The result is clamp(round(input / scale) + zero point) in real arithmetic.
QNT-2 (result): Rounding is to nearest, ties to even, and comes before the zero point.
QNT-3 (result): The result is clamped to the full range of the output data type.
QNT-4: Input is FLOAT32, FLOAT16 or INT32; scale has the data type of the input, but FLOAT32 for
  INT32; the output is INT8 or UINT8, as is the zero point.
QNT-5: Scale and zero point apply element by element; they repeat along sizes of 1.
QNT-6: A scale is finite and not zero.
QNT-7 (open): The page is silent about infinities, which saturate here, and about NaN.
QNT-8 (absent): A missing zero point is 0.
QNT-9: The input has at most 8 dimensions.
"""
_DQT = """
DQT-1 (result): The result is (input - zero point) * scale in real arithmetic, rounded once.
DQT-2: Input is an integer of 8, 16 or 32 bits; the zero point has its data type.
DQT-3: The output has the data type of the scale, FLOAT32 or FLOAT16.
DQT-4: Scale and zero point apply element by element; they repeat along sizes of 1.
DQT-5: A scale is finite and not zero.
DQT-6 (absent): A missing zero point is 0.
DQT-7: The input has at most 8 dimensions.
"""

QUANTIZE = Definition(
    quantize,
    check_quantize,
    _QNT,
    {
        "1_0": _table((4, 4), "FLOAT32", "FLOAT32", "UINT8", "UINT8", "input"),
        "2_1": _table((4, 4), "FLOAT32 INT32", "FLOAT32", rules.BYTES, rules.BYTES, "input"),
        "3_0": _table((1, 8), "FLOAT32 INT32", "FLOAT32", rules.BYTES, rules.BYTES, "input"),
        "6_0": _table((1, 8), _SOURCES, rules.FLOATS, rules.BYTES, rules.BYTES, "input"),
        "6_2": _table((1, 8), _SOURCES, rules.FLOATS, rules.BYTES, rules.BYTES, "optional"),
    },
    desc_clauses={
        **_DESC_CLAUSES,
        "scale-data-type": "ScaleTensor is FLOAT32 for an INT32 input, else it has the input's"
        " type.",
        **rules.type_clauses(_QUANTIZED_TYPES),
    },
    check_desc=_check_quantize_desc,
    desc_sizes=_desc_sizes,
)
DEQUANTIZE = Definition(
    dequantize,
    check_dequantize,
    _DQT,
    {
        "1_0": _table((4, 4), "UINT8", "FLOAT32", "UINT8", "FLOAT32", "input"),
        "2_1": _table((4, 4), rules.WHOLE, "FLOAT32", rules.WHOLE, "FLOAT32", "input"),
        "3_0": _table((1, 8), rules.WHOLE, "FLOAT32", rules.WHOLE, "FLOAT32", "input"),
        "6_0": _table((1, 8), rules.WHOLE, rules.FLOATS, rules.WHOLE, rules.FLOATS, "input"),
        "6_2": _table((1, 8), rules.WHOLE, rules.FLOATS, rules.WHOLE, rules.FLOATS, "optional"),
    },
    desc_clauses={**_DESC_CLAUSES, **rules.type_clauses(_DEQUANTIZED_TYPES)},
    check_desc=_check_dequantize_desc,
    desc_sizes=_desc_sizes,
)
