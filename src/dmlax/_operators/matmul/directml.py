"""DirectML's descriptors of the matrix products: fields, support tables, rules and calls."""

from collections.abc import Iterator
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from dmlax._descriptors import rules
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import EIGHT_BITS, FLOATS, I32, INTEGERS, FeatureLevel
from dmlax._descriptors.rules import Broken, Call, Rule, braces, rule
from dmlax._descriptors.support import Level, all_axes, describe
from dmlax._operators.matmul.api import (
    matrix_multiply_integer,
    matrix_multiply_integer_to_float,
    quantized_linear_matrix_multiply,
)


@dataclass(frozen=True, kw_only=True)
class MatrixMultiplyIntegerOperatorDesc(OperatorDesc):
    """DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC."""

    a_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None = None
    b_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class QuantizedLinearMatrixMultiplyOperatorDesc(OperatorDesc):
    """DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC."""

    a_tensor: BufferTensorDesc
    a_scale_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None = None
    b_tensor: BufferTensorDesc
    b_scale_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None = None
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class MatrixMultiplyIntegerToFloatOperatorDesc(OperatorDesc):
    """DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC, the members of the page's struct."""

    a_tensor: BufferTensorDesc
    a_scale_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None = None
    b_tensor: BufferTensorDesc
    b_scale_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None = None
    bias_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


@rule("inner-sizes", "sizes", "ATensor is {..., M, K} and BTensor {..., K, N}.")
def _inner_sizes(call: Call) -> Iterator[Broken]:
    a, b = call.sizes("ATensor", "BTensor")
    if a[-1] != b[-2]:
        text = f"has Sizes {braces(b)}, expected {a[-1]} rows, the columns of ATensor"
        yield Broken("BTensor", f"{text} {braces(a)}")


@rule("batch-sizes", "sizes", "ATensor and BTensor have the same BatchCount and ChannelCount.")
def _batch_sizes(call: Call) -> Iterator[Broken]:
    a, b = call.sizes("ATensor", "BTensor")
    if a[:-2] != b[:-2]:
        text = f"has Sizes {braces(b)}, expected all but the last two to be those of ATensor"
        yield Broken("BTensor", f"{text} {braces(a)} (strides of 0 broadcast)")


@rule("output-sizes", "sizes", "OutputTensor is {BatchCount, ChannelCount, M, N}.")
def _output_sizes(call: Call) -> Iterator[Broken]:
    a, b = call.sizes("ATensor", "BTensor")
    if a[:-2] == b[:-2]:
        yield from rules.check_output(call, (*a[:-1], b[-1]), "ATensor and BTensor")


def _one_or_per_line(tensor: str) -> Rule:
    """The rule that a parameter has one element, or one per column of B or row of A."""
    of_columns = tensor.startswith("B")
    line, matrix, pattern = ("column", "B", "1, N") if of_columns else ("row", "A", "M, 1")

    def check(call: Call) -> Iterator[Broken]:
        sizes, (*_, rows, columns) = call.sizes(tensor, f"{matrix}Tensor")
        expected = (1, 1, 1, columns) if of_columns else (1, 1, rows, 1)
        if set(sizes) != {1} and sizes != expected[-len(sizes) :]:
            text = f"has Sizes {braces(sizes)}, expected one element or the last of"
            yield Broken(tensor, f"{text} {braces(expected)}, one per {line} of {matrix}Tensor")

    sentence = f"{tensor} is {{1, 1, 1, 1}} or {{1, 1, {pattern}}}."
    return Rule(f"{rules.hyphenated(tensor)}-{line}s", "sizes", sentence, check)


def _shape(keyword: str, operand: Array) -> Array:
    """Gives a parameter the shape (1, 1) or (M, 1), of the right matrix (1,) or (N,)."""
    if keyword in ("a", "b", "bias"):
        return operand
    return operand.reshape(-1) if keyword.startswith("b_") else operand.reshape(-1, 1)


def _shape_to_float(keyword: str, operand: Array) -> Array:
    """Shapes a parameter as `_shape` does, and makes scales float32."""
    is_scale = keyword.endswith("scale")
    return _shape(keyword, operand.astype(jnp.float32) if is_scale else operand)


def _why_not_to_float(desc: OperatorDesc) -> str | None:
    """The reason why the function does not take integers of 16 or 32 bits."""
    if (data_type := desc.tensors["ATensor"].data_type) not in EIGHT_BITS:
        return f"ATensor has DataType {data_type}, which dmlax does not multiply: INT8 or UINT8"
    return None


_PRODUCT = (_inner_sizes, _batch_sizes, _output_sizes)
_PARAMETERS = ("AScaleTensor", "AZeroPointTensor", "BScaleTensor", "BZeroPointTensor")
_QUANTIZED_PARAMETERS = (*_PARAMETERS, "OutputScaleTensor", "OutputZeroPointTensor")
_A = "{ [BatchCount], [ChannelCount], M, K }"
_B = "{ [BatchCount], [ChannelCount], K, N }"
_OUTPUT = "{ [BatchCount], [ChannelCount], M, N }"
_A_POINT = "{ [1], [1], AZeroPointCount, [1] }"
_B_POINT = "{ [1], [1], [1], BZeroPointCount }"
_DIMENSIONS = (_A, _A_POINT, _B, _B_POINT, _OUTPUT)
_I32 = {"OutputTensor": I32}
MATRIX_MULTIPLY_INTEGER = describe(
    MatrixMultiplyIntegerOperatorDesc,
    matrix_multiply_integer,
    "intmatmul",
    (
        Level(FeatureLevel.LEVEL_2_1, (4, 4), (4, 4), _I32, dimensions=all_axes(_DIMENSIONS)),
        Level(
            *(FeatureLevel.LEVEL_4_0, (2, 4), (1, 4), _I32, {"BZeroPointTensor": (2, 4)}),
            dimensions=(_A, _A_POINT, _B, "{ [1], [1], 1, BZeroPointCount }", _OUTPUT),
        ),
        Level(FeatureLevel.LEVEL_5_2, (2, 4), (1, 4), _I32, dimensions=_DIMENSIONS),
    ),
    (
        rules.same_dimension_count("ATensor", "BTensor", "OutputTensor"),
        *rules.zero_point_data_types("A", "B"),
        *_PRODUCT,
        *map(_one_or_per_line, ("AZeroPointTensor", "BZeroPointTensor")),
    ),
    shape=_shape,
)
QUANTIZED_LINEAR_MATRIX_MULTIPLY = describe(
    QuantizedLinearMatrixMultiplyOperatorDesc,
    quantized_linear_matrix_multiply,
    "qmatmul",
    (Level(FeatureLevel.LEVEL_2_1, (4, 4), (4, 4)), Level(FeatureLevel.LEVEL_4_0, (2, 4), (1, 4))),
    (
        rules.same_dimension_count("ATensor", "BTensor", "OutputTensor"),
        rules.same_dimension_count(*_QUANTIZED_PARAMETERS, name="parameters-dimension-count"),
        *rules.zero_point_data_types("A", "B", "Output"),
        *_PRODUCT,
        *map(_one_or_per_line, _QUANTIZED_PARAMETERS),
    ),
    shape=_shape,
)
MATRIX_MULTIPLY_INTEGER_TO_FLOAT = describe(
    MatrixMultiplyIntegerToFloatOperatorDesc,
    matrix_multiply_integer_to_float,
    "floatmatmul",
    (
        Level(
            *(FeatureLevel.LEVEL_6_2, (2, 4), (1, 4)),
            {
                **dict.fromkeys(("ATensor", "AZeroPointTensor"), INTEGERS),
                **dict.fromkeys(("BTensor", "BZeroPointTensor"), INTEGERS),
                **dict.fromkeys(("AScaleTensor", "BScaleTensor"), FLOATS),
                **dict.fromkeys(("BiasTensor", "OutputTensor"), FLOATS),
            },
            dimensions=(
                *(_A, "{ AScaleDimensions[] }", _A_POINT),
                *(_B, "{ BScaleDimensions[] }", _B_POINT),
                *(_OUTPUT, _OUTPUT),
            ),
        ),
    ),
    (
        rules.same_dimension_count("ATensor", "BTensor", "BiasTensor", "OutputTensor"),
        rules.same_dimension_count(*_PARAMETERS, name="parameters-dimension-count"),
        rules.same_data_type("BTensor", "ATensor"),
        *rules.zero_point_data_types("A", "B"),
        rules.same_data_type("BScaleTensor", "AScaleTensor"),
        rules.same_data_type("BiasTensor", "AScaleTensor"),
        rules.same_data_type("OutputTensor", "AScaleTensor"),
        *_PRODUCT,
        *map(_one_or_per_line, _PARAMETERS),
        rules.same_sizes("OutputTensor", "BiasTensor", name="bias-sizes"),
    ),
    shape=_shape_to_float,
    why_not=_why_not_to_float,
    reference="https://learn.microsoft.com/windows/ai/directml/api/",
)
