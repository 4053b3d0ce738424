"""Matrix products: integer sums, quantized, and scaled to floats. Shapes are `numpy.matmul`'s."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache, partial
from itertools import zip_longest
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..format.tensors import Tensor
from . import exact, fixed_point
from . import operator as rules
from .element_wise import broadcast
from .exact import Real, wrap_int32
from .operator import Answer, Attributes, Definition, Desc, DescSizes, Found, Inputs, Outputs

POINT_TYPES = {f"{name}ZeroPointTensor": f"{name}Tensor" for name in ("A", "B", "Output")}
PARAMETERS = tuple(
    f"{name}{kind}Tensor" for name in ("A", "B", "Output") for kind in ("Scale", "ZeroPoint")
)


class Shape(NamedTuple):
    """Sizes of a product; an operand of rank 1 is one row of A, or one column of B."""

    a: rules.Sizes
    b: rules.Sizes
    batch: rules.Sizes
    output: rules.Sizes

    @property
    def whole(self) -> rules.Sizes:
        """The sizes of all sums, with the axes that operands of rank 1 take away."""
        return (*self.batch, self.a[-2], self.b[-1])

    @property
    def rows(self) -> rules.Sizes:
        """The sizes to which a parameter of the output repeats."""
        return (*self.batch, self.a[-2], 1)


def integer(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the sums of (a - zero point) * (b - zero point).

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_matrix_multiply_integer_operator_desc
    """
    shape, sums = _products(inputs)
    return {"OutputTensor": Tensor("int32", shape.output, tuple(sums))}


def quantized(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return clamp(round((sum + bias) * scale of A * scale of B / output scale) + zero point).

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_quantized_linear_matrix_multiply_operator_desc
    """
    shape, sums = _products(inputs)
    dtype = outputs["OutputTensor"].dtype
    bias = repeat(inputs.get("BiasTensor"), shape.output)
    zero_points = repeat(inputs.get("OutputZeroPointTensor"), shape.whole)
    names = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")
    scales = (_scales(inputs, name, shape.whole) for name in names)
    mode = attributes.get(fixed_point.FIELD)
    rescale = partial(fixed_point.rescale, mode=mode) if mode else exact.rescale
    words = (
        rescale(total + addend, sa * sb / sy, zero_point, dtype)
        for total, addend, zero_point, sa, sb, sy in zip(
            sums, bias, zero_points, *scales, strict=True
        )
    )
    return {"OutputTensor": Tensor(dtype, shape.output, tuple(words))}


def to_float(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return sum * scale of A * scale of B + bias, rounded once.

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_matrix_multiply_integer_to_float_operator_desc
    """
    shape, sums = _products(inputs)
    asked, bias = outputs["OutputTensor"], inputs.get("BiasTensor")
    scales = (_scales(inputs, name, shape.whole) for name in ("AScaleTensor", "BScaleTensor"))
    held = asked.dtype if bias is None else bias.dtype
    addends = (exact.decode(word, held) for word in repeat(bias, shape.output))
    words = (
        exact.encode(add(total * sa * sb, addend), asked.dtype)
        for total, sa, sb, addend in zip(sums, *scales, addends, strict=True)
    )
    return {"OutputTensor": Tensor(asked.dtype, shape.output, tuple(words))}


def add(product: Fraction, addend: Real) -> Real:
    """Return the exact sum, whose zero is positive; NaN and infinities pass through."""
    return exact.exactly(product + addend.value) if addend.kind == "finite" else addend


def shape_of(a: rules.Sizes, b: rules.Sizes) -> Shape:
    """Return the sizes of the product of operands that agree."""
    whole_a, whole_b = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    pairs = zip_longest(whole_a[-3::-1], whole_b[-3::-1], fillvalue=1)
    batch = tuple(y if x == 1 else x for x, y in pairs)[::-1]
    output = (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))
    return Shape(whole_a, whole_b, batch, output)


def repeat(tensor: Tensor | None, sizes: rules.Sizes, missing: int = 0) -> list[int]:
    """Return a parameter for each element: leading ones and the rank of one value do not count."""
    if tensor is None or len(tensor.words) == 1:
        return [missing if tensor is None else tensor.words[0]] * prod(sizes)
    kept = tensor.sizes[max(len(tensor.sizes) - len(sizes), 0) :]
    return broadcast(Tensor(tensor.dtype, kept, tensor.words), sizes)


def _products(inputs: Inputs) -> tuple[Shape, list[int]]:
    """Return the sizes and the int32 sums of products, row-major.

    Sums of int64 wrap modulo 2^64, so that they are right modulo 2^32.
    """
    shape = shape_of(inputs["ATensor"].sizes, inputs["BTensor"].sizes)
    sums = _centred(inputs, "A", shape.a) @ _centred(inputs, "B", shape.b)
    return shape, [wrap_int32(total) for total in sums.reshape(-1).tolist()]


def _scales(inputs: Inputs, name: str, sizes: rules.Sizes) -> list[Fraction]:
    """Return the value of a scale for each element."""
    tensor = inputs[name]
    return [_value(word, tensor.dtype) for word in repeat(tensor, sizes)]


@cache
def _value(word: int, dtype: str) -> Fraction:
    return exact.decode(word, dtype).value


def _centred(inputs: Inputs, name: str, sizes: rules.Sizes) -> npt.NDArray[Any]:
    """Subtract the zero point: one value, one for each row of A, or one for each column of B."""
    words = np.array(inputs[f"{name}Tensor"].words, np.int64)
    points = np.array(repeat(inputs.get(f"{name}ZeroPointTensor"), sizes), np.int64)
    return (words - points).reshape(sizes)


def check_integer(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check operands and zero points."""
    _check_operands(inputs)
    _check_parameters(inputs)


def check_quantized(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check operands, then scales, bias and output."""
    _check_operands(inputs)
    rules.data_type(inputs, ("float32",), "AScaleTensor", "BScaleTensor", "OutputScaleTensor")
    dtype = outputs["OutputTensor"].dtype
    rules.need(dtype in rules.EIGHT_BIT, "data_type", "OutputTensor")
    rules.same_data_type(inputs, "OutputZeroPointTensor", dtype)
    _check_bias(inputs, "int32")
    _check_parameters(inputs)


def check_to_float(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check operands, then scales, bias and output."""
    _check_operands(inputs)
    rules.data_type(inputs, ("float32",), "AScaleTensor", "BScaleTensor")
    dtype = outputs["OutputTensor"].dtype
    rules.need(dtype in ("float32", "float16"), "data_type", "OutputTensor")
    _check_bias(inputs, dtype)
    _check_parameters(inputs)


def _check_operands(inputs: Inputs) -> None:
    """Check both operands, and the types of their zero points."""
    for name in ("A", "B"):
        rules.data_type(inputs, rules.EIGHT_BIT, f"{name}Tensor")
        rules.same_data_type(inputs, f"{name}ZeroPointTensor", inputs[f"{name}Tensor"].dtype)
    for name in ("ATensor", "BTensor"):
        rules.need(len(inputs[name].sizes) >= 1, "dimension_count", name)
    a, b, *_ = shape_of(inputs["ATensor"].sizes, inputs["BTensor"].sizes)
    rules.need(a[-1] == b[-2], "sizes", "BTensor")
    rules.repeat(a[:-2], b[:-2], "BTensor")


def _check_parameters(inputs: Inputs) -> None:
    """Check the sizes of scales and zero points, then the values of scales."""
    shape = shape_of(inputs["ATensor"].sizes, inputs["BTensor"].sizes)
    rows, columns = (*shape.a[:-1], 1), (*shape.b[:-2], 1, shape.b[-1])
    targets = {"A": rows, "B": columns, "Output": shape.rows}
    for name in PARAMETERS:
        target = targets[name.split("Scale")[0].split("Zero")[0]]
        if name in inputs and len(inputs[name].words) != 1:
            rules.broadcasts(_without_ones(inputs[name].sizes, len(target)), target, name)
    rules.scale_values(inputs, *(name for name in inputs if name.endswith("ScaleTensor")))


def _check_bias(inputs: Inputs, dtype: str) -> None:
    """Check that a bias repeats to the output."""
    rules.same_data_type(inputs, "BiasTensor", dtype)
    if "BiasTensor" in inputs:
        output = shape_of(inputs["ATensor"].sizes, inputs["BTensor"].sizes).output
        rules.broadcasts(inputs["BiasTensor"].sizes, output, "BiasTensor")


def _without_ones(sizes: rules.Sizes, rank: int) -> rules.Sizes:
    """Drop leading sizes of 1 beyond a rank."""
    spare = max(len(sizes) - rank, 0)
    return sizes[spare:] if set(sizes[:spare]) <= {1} else sizes


def _check_integer_desc(desc: Desc, feature_level: str) -> Found:
    return _check_products(desc, POINT_TYPES)


def _check_quantized_desc(desc: Desc, feature_level: str) -> Found:
    yield from _check_products(desc, POINT_TYPES)
    yield from _same_parameter_counts(desc)


def _check_to_float_desc(desc: Desc, feature_level: str) -> Found:
    yield from _check_products(desc, _FLOAT_TYPES)
    yield from _same_parameter_counts(desc)
    bias, output = _sizes(desc, "BiasTensor"), _sizes(desc, "OutputTensor")
    if desc["BiasTensor"] and desc["OutputTensor"] and len(bias) == len(output) and bias != output:
        yield rules.Violation("bias-sizes", "sizes", "BiasTensor")


def _check_products(desc: Desc, types: Mapping[str, str]) -> Found:
    """Check data types, dimension counts, and the sizes of operands and parameters."""
    others = (name for name in ("BTensor", "BiasTensor", "OutputTensor") if name in desc)
    yield from rules.same_counts(desc, *others, first="ATensor")
    yield from rules.same_types(desc, types)
    a, b, y = (_sizes(desc, name) for name in ("ATensor", "BTensor", "OutputTensor"))
    if len(a) > 1 and len(b) > 1:
        if a[-1] != b[-2]:
            yield rules.Violation("inner-sizes", "sizes", "BTensor")
        if len(a) == len(b) and a[:-2] != b[:-2]:
            yield rules.Violation("batch-sizes", "sizes", "BTensor")
        elif len(a) == len(y) and y != [*a[:-1], b[-1]]:
            yield rules.Violation("output-sizes", "sizes", "OutputTensor")
    for name in PARAMETERS:
        if desc.get(name) is not None:
            yield from _check_parameter(desc, name)


def _same_parameter_counts(desc: Desc) -> Found:
    """Check that all parameters that are there have one DimensionCount."""
    there = [name for name in PARAMETERS if desc.get(name) is not None]
    for name in rules.differing(desc, there, "DimensionCount", there[0]) if there else ():
        yield rules.Violation("parameters-dimension-count", "dimension_count", name)


def _sizes(desc: Desc, name: str) -> list[int]:
    return [] if desc[name] is None else list(desc[name]["Sizes"])


def _check_parameter(desc: Desc, name: str) -> Found:
    """Check for one element, or one for each column of B, or for each row of A."""
    sizes, is_column = list(desc[name]["Sizes"]), name.startswith("B")
    owner = _sizes(desc, "BTensor" if is_column else "ATensor")
    if prod(sizes) == 1 or len(owner) < 2:
        return
    wanted = [1, owner[-1]] if is_column else [owner[-2], 1]
    if ([1] * len(sizes) + wanted)[-len(sizes) :] != sizes:
        yield rules.Violation(
            f"{rules.dashed(name)}-{'columns' if is_column else 'rows'}", "sizes", name
        )


def _desc_sizes(inputs: Inputs, outputs: Outputs, is_rank_shared: bool = True) -> DescSizes:
    """Return the sizes that the tensors of a call have in a desc; parameters may share a rank."""
    shape = shape_of(inputs["ATensor"].sizes, inputs["BTensor"].sizes)
    given = {name: inputs[name].sizes for name in PARAMETERS if name in inputs}
    rank = max((1, *(map(len, given.values()) if is_rank_shared else ())))
    return {
        "ATensor": (*shape.batch, *shape.a[-2:]),
        "BTensor": (*shape.batch, *shape.b[-2:]),
        "BiasTensor": outputs["OutputTensor"].sizes,
        **{name: (1,) * (rank - len(sizes)) + sizes for name, sizes in given.items()},
    }


def _quantized_table(lowest: int, parameter: int) -> rules.Rows:
    counts = (lowest, 4), (parameter, 4), (parameter, 4)
    return tuple(
        line for name in ("A", "B", "Output") for line in rules.quantized_rows(name, *counts)
    )


_FLOAT_TABLE = (
    rules.row("ATensor", "input", 2, 4, rules.WHOLE),
    rules.row("AScaleTensor", "input", 1, 4, rules.FLOATS),
    rules.row("AZeroPointTensor", "optional", 1, 4, rules.WHOLE),
    rules.row("BTensor", "input", 2, 4, rules.WHOLE),
    rules.row("BScaleTensor", "input", 1, 4, rules.FLOATS),
    rules.row("BZeroPointTensor", "optional", 1, 4, rules.WHOLE),
    rules.row("BiasTensor", "optional", 2, 4, rules.FLOATS),
    rules.row("OutputTensor", "output", 2, 4, rules.FLOATS),
)
_FLOAT_TYPES = {
    "BTensor": "ATensor",
    "AZeroPointTensor": "ATensor",
    "BZeroPointTensor": "BTensor",
    **dict.fromkeys(("BScaleTensor", "BiasTensor", "OutputTensor"), "AScaleTensor"),
}


def _desc_clauses(table: rules.Rows, types: Mapping[str, str]) -> dict[str, str]:
    """Return what `_check_products` checks, in words, for an operator with these tensors."""
    there = [row.tensor for row in table]
    texts = {
        **rules.type_clauses({name: own for name, own in types.items() if name in there}),
        "same-dimension-count": "B, output and bias have the DimensionCount of A.",
        "inner-sizes": "The last size of A is the last but one of B.",
        "batch-sizes": "A and B agree in all sizes but the last two; a stride of 0 repeats.",
        "output-sizes": "OutputTensor has the sizes that A and B give.",
    }
    for name in (name for name in PARAMETERS if name in there):
        axis, where = ("columns", "last size is N") if name[0] == "B" else ("rows", _ROWS)
        texts[f"{rules.dashed(name)}-{axis}"] = (
            f"{name} is one value, or its {where} and the others are 1."
        )
    return texts


_ROWS = "last size but one is M"
_COUNTS = "All scales and zero points have the same DimensionCount."
_INTEGER_TABLES = {
    "2_1": rules.integer_rows(4, A=4, B=4),
    "4_0": rules.integer_rows(2, A=1, B=2),
    "5_2": rules.integer_rows(2, A=1, B=1),
}
_MMI = """
MMI-1 (result): The output is INT32: the sum of (a - zero point) * (b - zero point) over K.
MMI-2: A is {..., M, K} and B {..., K, N}; their other sizes repeat to each other.
MMI-3: An operand of rank 1 is one row of A, or one column of B, and its axis is not in the output.
MMI-4: A and B are INT8 or UINT8 independently; zero points match their tensor.
MMI-5: A zero point is one value, or {..., M, 1} for A, {N} or {..., 1, N} for B.
MMI-6 (open): The page leaves overflow of the 32-bit sum open; here it wraps.
MMI-7 (absent): A missing zero point is 0, and a sum without products too.
"""
_QMM = """
QMM-1 (result): The result equals dequantizing, multiplying and quantizing in real arithmetic.
QMM-2 (result): The sum is of (a - zero point) * (b - zero point) over K.
QMM-3: A is {..., M, K} and B {..., K, N}; their other sizes repeat to each other.
QMM-4: An operand of rank 1 is one row of A, or one column of B, and its axis is not in the output.
QMM-5 (result): The quotient is rounded to nearest, ties to even, before the zero point is added.
QMM-6 (result): The result is clamped to the full range of the output data type.
QMM-7: Scale and zero point are, each on its own, one value, or {..., M, 1} for A and the output,
  {N} or {..., 1, N} for B.
QMM-8: A, B and output are INT8 or UINT8 independently; a zero point has the data type of its
  tensor; scales are FLOAT32.
QMM-9: A bias, which the page does not have, is INT32 and repeats to the output; it is added to the
  sum, and nothing wraps there.
QMM-10 (absent): A missing zero point is 0, and a missing bias or a sum without products adds
  nothing.
QMM-11 (open): The page leaves overflow of the 32-bit sum open; here it wraps.
QMM-12: A scale is finite and not zero; its sign and size are free.
"""
_MMF = """
MMF-1 (result): The result is sum * scale of A * scale of B + bias in real arithmetic, rounded once,
  to nearest, ties to even; too large a result is an infinity.
MMF-2 (result): The sum is of (a - zero point) * (b - zero point) over K.
MMF-3: A is {..., M, K} and B {..., K, N}; their other sizes repeat to each other.
MMF-4: An operand of rank 1 is one row of A, or one column of B, and its axis is not in the output.
MMF-5: Scale and zero point are, each on its own, one value, or {..., M, 1} for A, {N} or {..., 1,
  N} for B.
MMF-6: A and B are INT8 or UINT8 independently; a zero point has the data type of its tensor; scales
  are FLOAT32; the output is FLOAT32 or FLOAT16, and so is the bias.
MMF-7: A bias repeats to the output; its NaN and infinities pass through.
MMF-8 (result): A result of zero is plus zero.
MMF-9 (absent): A missing zero point is 0, and a missing bias or a sum without products adds
  nothing.
MMF-10 (open): The page leaves overflow of the 32-bit sum open; here it wraps.
MMF-11: A scale is finite and not zero; its sign and size are free.
"""

INTEGER = Definition(
    integer,
    check_integer,
    _MMI,
    _INTEGER_TABLES,
    desc_clauses=_desc_clauses(_INTEGER_TABLES["5_2"], POINT_TYPES),
    check_desc=_check_integer_desc,
    desc_sizes=partial(_desc_sizes, is_rank_shared=False),
)

_QUANTIZED_TABLES = {"2_1": _quantized_table(4, 4), "4_0": _quantized_table(2, 1)}
QUANTIZED = Definition(
    quantized,
    check_quantized,
    _QMM + fixed_point.clauses("QMM", 13),
    _QUANTIZED_TABLES,
    desc_clauses=_desc_clauses(_QUANTIZED_TABLES["4_0"], POINT_TYPES)
    | {"parameters-dimension-count": _COUNTS},
    check_desc=_check_quantized_desc,
    desc_sizes=_desc_sizes,
    only_in_calls=("BiasTensor",),
    requantizations=fixed_point.OF_SUMS,
)

TO_FLOAT = Definition(
    to_float,
    check_to_float,
    _MMF,
    {"6_2": _FLOAT_TABLE},
    desc_clauses=_desc_clauses(_FLOAT_TABLE, _FLOAT_TYPES)
    | {
        "parameters-dimension-count": _COUNTS,
        "bias-sizes": "BiasTensor has the sizes of the output.",
    },
    check_desc=_check_to_float_desc,
    desc_sizes=_desc_sizes,
)
