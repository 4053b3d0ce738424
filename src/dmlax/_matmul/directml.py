"""DirectML's descriptors of the matrix products: fields, support tables, rules and calls."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from dmlax._directml import rules
from dmlax._directml.descs import BufferTensorDesc, OperatorDesc
from dmlax._directml.enums import DataType, FeatureLevel
from dmlax._directml.rules import Broken, Call, Rule, braces
from dmlax._directml.support import (
    EIGHT_BITS,
    FLOATS,
    INTEGERS,
    Kind,
    Row,
    Support,
    Table,
    Tensors,
    flat,
    page,
    same_data_type,
    same_dimension_count,
)
from dmlax._matmul.api import (
    matrix_multiply_integer,
    matrix_multiply_integer_to_float,
    quantized_linear_matrix_multiply,
)


@dataclass(frozen=True, kw_only=True)
class MatrixMultiplyIntegerOperatorDesc(OperatorDesc):
    """DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC."""

    operator: ClassVar[str] = "MatrixMultiplyInteger"
    a_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None = None
    b_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class QuantizedLinearMatrixMultiplyOperatorDesc(OperatorDesc):
    """DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC."""

    operator: ClassVar[str] = "QuantizedLinearMatrixMultiply"
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

    operator: ClassVar[str] = "MatrixMultiplyIntegerToFloat"
    a_tensor: BufferTensorDesc
    a_scale_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None = None
    b_tensor: BufferTensorDesc
    b_scale_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None = None
    bias_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class InnerSizes(Rule):
    """The last size of A is the last but one of B."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        a, b = call.tensor("ATensor").sizes, call.tensor("BTensor").sizes
        if a[-1] != b[-2]:
            text = f"has Sizes {braces(b)}, expected {a[-1]} rows, the columns of ATensor"
            yield Broken("BTensor", f"{text} {braces(a)}")


@dataclass(frozen=True, kw_only=True)
class BatchSizes(Rule):
    """A and B agree in all sizes but the last two."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        a, b = call.tensor("ATensor").sizes, call.tensor("BTensor").sizes
        if a[:-2] != b[:-2]:
            text = f"has Sizes {braces(b)}, expected all but the last two to be those of ATensor"
            yield Broken("BTensor", f"{text} {braces(a)} (strides of 0 broadcast)")


@dataclass(frozen=True, kw_only=True)
class OutputSizes(Rule):
    """OutputTensor is {BatchCount, ChannelCount, M, N}."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        a, b = call.tensor("ATensor").sizes, call.tensor("BTensor").sizes
        wanted, found = (*a[:-1], b[-1]), call.tensor("OutputTensor").sizes
        if a[:-2] == b[:-2] and found != wanted:
            text = f"has Sizes {braces(found)}, expected {braces(wanted)}"
            yield Broken("OutputTensor", f"{text} of this ATensor and BTensor")


@dataclass(frozen=True, kw_only=True)
class OneOrPerRow(Rule):
    """`tensor` holds one element, or one for each row of A."""

    code = "sizes"
    tensor: str

    def _broken(self, call: Call) -> Iterator[Broken]:
        wanted = (call.tensor("ATensor").sizes[-2], 1)
        yield from _one_or(call, self.tensor, wanted, "one per row of ATensor")


@dataclass(frozen=True, kw_only=True)
class OneOrPerColumn(Rule):
    """`tensor` holds one element, or one for each column of B."""

    code = "sizes"
    tensor: str

    def _broken(self, call: Call) -> Iterator[Broken]:
        wanted = (1, call.tensor("BTensor").sizes[-1])
        yield from _one_or(call, self.tensor, wanted, "one per column of BTensor")


def _one_or(call: Call, tensor: str, wanted: tuple[int, int], words: str) -> Iterator[Broken]:
    """Expects one element, or the wanted sizes as the last ones."""
    sizes = call.tensor(tensor).sizes
    if set(sizes) != {1} and sizes != ((1,) * len(sizes) + wanted)[-len(sizes) :]:
        full = braces((1, 1, *wanted))
        text = f"has Sizes {braces(sizes)}, expected one element or the last of {full}, {words}"
        yield Broken(tensor, text)


_INTEGER = page("ns-directml-dml_matrix_multiply_integer_operator_desc")
_QUANTIZED = page("ns-directml-dml_quantized_linear_matrix_multiply_operator_desc")
_TO_FLOAT = (
    "https://learn.microsoft.com/windows/ai/directml/api/"
    "ns-directml-dml_matrix_multiply_integer_to_float_operator_desc"
)
_F32 = (DataType.FLOAT32,)
_I32 = (DataType.INT32,)
_OPTIONAL: Kind = "Optional input"
_WORDS = {  # a tensor as it is part of a rule's name
    "AScaleTensor": "a-scale",
    "AZeroPointTensor": "a-zero-point",
    "BTensor": "b",
    "BScaleTensor": "b-scale",
    "BZeroPointTensor": "b-zero-point",
    "OutputScaleTensor": "output-scale",
    "OutputZeroPointTensor": "output-zero-point",
    "BiasTensor": "bias",
    "OutputTensor": "output",
}


def _data_type_rules(prefix: str, page: str, *pairs: tuple[str, str]) -> tuple[Rule, ...]:
    return tuple(
        same_data_type(f"{prefix}-{_WORDS[tensor]}-data-type", page, tensor, other)
        for tensor, other in pairs
    )


def _product_rules(prefix: str, page: str, *parameters: str) -> tuple[Rule, ...]:
    """The rules of how the matrices and their parameters fit each other."""
    sizes = (
        InnerSizes(
            name=f"{prefix}-inner-sizes",
            sentence="ATensor is {..., M, K} and BTensor {..., K, N}.",
            page=page,
        ),
        BatchSizes(
            name=f"{prefix}-batch-sizes",
            sentence="ATensor and BTensor have the same BatchCount and ChannelCount.",
            page=page,
        ),
        OutputSizes(
            name=f"{prefix}-output-sizes",
            sentence="OutputTensor is {BatchCount, ChannelCount, M, N}.",
            page=page,
        ),
    )
    return (*sizes, *(_parameter_rule(prefix, page, tensor) for tensor in parameters))


def _parameter_rule(prefix: str, page: str, tensor: str) -> Rule:
    if tensor.startswith("B"):
        return OneOrPerColumn(
            name=f"{prefix}-{_WORDS[tensor]}-columns",
            sentence=f"{tensor} is {{1, 1, 1, 1}} or {{1, 1, 1, N}}.",
            page=page,
            tensor=tensor,
        )
    return OneOrPerRow(
        name=f"{prefix}-{_WORDS[tensor]}-rows",
        sentence=f"{tensor} is {{1, 1, 1, 1}} or {{1, 1, M, 1}}.",
        page=page,
        tensor=tensor,
    )


def _same_parameter_counts(prefix: str, page: str, *tensors: str) -> Rule:
    return same_dimension_count(f"{prefix}-parameters-dimension-count", page, *tensors)


_A_PARAMETERS = ("AScaleTensor", "AZeroPointTensor")
_B_PARAMETERS = ("BScaleTensor", "BZeroPointTensor")
_OUTPUT_PARAMETERS = ("OutputScaleTensor", "OutputZeroPointTensor")
_INTEGER_RULES = (
    same_dimension_count(
        *("intmatmul-same-dimension-count", _INTEGER), *("ATensor", "BTensor", "OutputTensor")
    ),
    *_data_type_rules(
        *("intmatmul", _INTEGER), ("AZeroPointTensor", "ATensor"), ("BZeroPointTensor", "BTensor")
    ),
    *_product_rules("intmatmul", _INTEGER, "AZeroPointTensor", "BZeroPointTensor"),
)
_QUANTIZED_RULES = (
    same_dimension_count(
        *("qmatmul-same-dimension-count", _QUANTIZED), *("ATensor", "BTensor", "OutputTensor")
    ),
    _same_parameter_counts(
        *("qmatmul", _QUANTIZED), *_A_PARAMETERS, *_B_PARAMETERS, *_OUTPUT_PARAMETERS
    ),
    *_data_type_rules(
        *("qmatmul", _QUANTIZED),
        ("AZeroPointTensor", "ATensor"),
        ("BZeroPointTensor", "BTensor"),
        ("OutputZeroPointTensor", "OutputTensor"),
    ),
    *_product_rules(*("qmatmul", _QUANTIZED), *_A_PARAMETERS, *_B_PARAMETERS, *_OUTPUT_PARAMETERS),
)
_TO_FLOAT_RULES = (
    same_dimension_count(
        *("floatmatmul-same-dimension-count", _TO_FLOAT),
        *("ATensor", "BTensor", "BiasTensor", "OutputTensor"),
    ),
    _same_parameter_counts(*("floatmatmul", _TO_FLOAT), *_A_PARAMETERS, *_B_PARAMETERS),
    *_data_type_rules(
        *("floatmatmul", _TO_FLOAT),
        ("BTensor", "ATensor"),
        ("AZeroPointTensor", "ATensor"),
        ("BZeroPointTensor", "BTensor"),
        ("BScaleTensor", "AScaleTensor"),
        ("BiasTensor", "AScaleTensor"),
        ("OutputTensor", "AScaleTensor"),
    ),
    *_product_rules(*("floatmatmul", _TO_FLOAT), *_A_PARAMETERS, *_B_PARAMETERS),
    rules.SameSizes(
        name="floatmatmul-bias-sizes",
        sentence="BiasTensor has the Sizes of OutputTensor.",
        page=_TO_FLOAT,
        tensors=("OutputTensor", "BiasTensor"),
    ),
)


def _integer_rows(
    tensors: tuple[int, int],
    a_zero_point: tuple[int, int],
    b_zero_point: tuple[int, int],
    dimensions: tuple[str, ...],
) -> tuple[Row, ...]:
    a, a_point, b, b_point, output = dimensions
    return (
        Row("ATensor", "Input", tensors, EIGHT_BITS, a),
        Row("AZeroPointTensor", _OPTIONAL, a_zero_point, EIGHT_BITS, a_point),
        Row("BTensor", "Input", tensors, EIGHT_BITS, b),
        Row("BZeroPointTensor", _OPTIONAL, b_zero_point, EIGHT_BITS, b_point),
        Row("OutputTensor", "Output", tensors, _I32, output),
    )


def _quantized_rows(tensors: tuple[int, int], parameters: tuple[int, int]) -> tuple[Row, ...]:
    return (
        Row("ATensor", "Input", tensors, EIGHT_BITS),
        Row("AScaleTensor", "Input", parameters, _F32),
        Row("AZeroPointTensor", _OPTIONAL, parameters, EIGHT_BITS),
        Row("BTensor", "Input", tensors, EIGHT_BITS),
        Row("BScaleTensor", "Input", parameters, _F32),
        Row("BZeroPointTensor", _OPTIONAL, parameters, EIGHT_BITS),
        Row("OutputScaleTensor", "Input", parameters, _F32),
        Row("OutputZeroPointTensor", _OPTIONAL, parameters, EIGHT_BITS),
        Row("OutputTensor", "Output", tensors, EIGHT_BITS),
    )


_A = "{ [BatchCount], [ChannelCount], M, K }"
_B = "{ [BatchCount], [ChannelCount], K, N }"
_OUTPUT = "{ [BatchCount], [ChannelCount], M, N }"
_A_POINT = "{ [1], [1], AZeroPointCount, [1] }"
_B_POINT = "{ [1], [1], [1], BZeroPointCount }"
_TO_FLOAT_ROWS = (
    Row("ATensor", "Input", (2, 4), INTEGERS, _A),
    Row("AScaleTensor", "Input", (1, 4), FLOATS, "{ AScaleDimensions[] }"),
    Row("AZeroPointTensor", _OPTIONAL, (1, 4), INTEGERS, _A_POINT),
    Row("BTensor", "Input", (2, 4), INTEGERS, _B),
    Row("BScaleTensor", "Input", (1, 4), FLOATS, "{ BScaleDimensions[] }"),
    Row("BZeroPointTensor", _OPTIONAL, (1, 4), INTEGERS, _B_POINT),
    Row("BiasTensor", _OPTIONAL, (2, 4), FLOATS, _OUTPUT),
    Row("OutputTensor", "Output", (2, 4), FLOATS, _OUTPUT),
)


def _call_integer(desc: MatrixMultiplyIntegerOperatorDesc, tensors: Tensors) -> Tensors:
    output = matrix_multiply_integer(
        tensors["a_tensor"],
        tensors["b_tensor"],
        a_zero_point=_rows_of(tensors, "a_zero_point_tensor"),
        b_zero_point=flat(tensors, "b_zero_point_tensor"),
    )
    return {"output_tensor": output}


def _call_quantized(desc: QuantizedLinearMatrixMultiplyOperatorDesc, tensors: Tensors) -> Tensors:
    output = quantized_linear_matrix_multiply(
        tensors["a_tensor"],
        tensors["b_tensor"],
        a_scale=_rows_of(tensors, "a_scale_tensor"),
        b_scale=flat(tensors, "b_scale_tensor"),
        output_scale=_rows_of(tensors, "output_scale_tensor"),
        a_zero_point=_rows_of(tensors, "a_zero_point_tensor"),
        b_zero_point=flat(tensors, "b_zero_point_tensor"),
        output_zero_point=_rows_of(tensors, "output_zero_point_tensor"),
        output_dtype=desc.output_tensor.dtype,
    )
    return {"output_tensor": output}


def _call_to_float(desc: MatrixMultiplyIntegerToFloatOperatorDesc, tensors: Tensors) -> Tensors:
    output = matrix_multiply_integer_to_float(
        tensors["a_tensor"],
        tensors["b_tensor"],
        tensors.get("bias_tensor"),
        a_scale=_rows_of(tensors, "a_scale_tensor").astype(jnp.float32),
        b_scale=flat(tensors, "b_scale_tensor").astype(jnp.float32),
        a_zero_point=_rows_of(tensors, "a_zero_point_tensor"),
        b_zero_point=flat(tensors, "b_zero_point_tensor"),
        output_dtype=desc.output_tensor.dtype,
    )
    return {"output_tensor": output}


def _why_not_to_float(desc: MatrixMultiplyIntegerToFloatOperatorDesc) -> str | None:
    """The reason why the function does not take integers of 16 or 32 bits."""
    if (data_type := desc.a_tensor.data_type) not in EIGHT_BITS:
        return f"ATensor has DataType {data_type}, which dmlax does not multiply: INT8 or UINT8"
    return None


def _rows_of(tensors: Tensors, name: str) -> Any:
    """A parameter as (1, 1) or (M, 1)."""
    return tensors[name].reshape(-1, 1) if name in tensors else None


MATRIX_MULTIPLY_INTEGER = Support(
    MatrixMultiplyIntegerOperatorDesc,
    _INTEGER,
    tuple(
        Table(level, rows, _INTEGER_RULES)
        for level, rows in (
            (
                FeatureLevel.LEVEL_2_1,
                _integer_rows(
                    *((4, 4), (4, 4), (4, 4)),
                    (
                        "{ BatchCount, ChannelCount, M, K }",
                        "{ 1, 1, AZeroPointCount, 1 }",
                        "{ BatchCount, ChannelCount, K, N }",
                        "{ 1, 1, 1, BZeroPointCount }",
                        "{ BatchCount, ChannelCount, M, N }",
                    ),
                ),
            ),
            (
                FeatureLevel.LEVEL_4_0,
                _integer_rows(
                    *((2, 4), (1, 4), (2, 4)),
                    (_A, _A_POINT, _B, "{ [1], [1], 1, BZeroPointCount }", _OUTPUT),
                ),
            ),
            (
                FeatureLevel.LEVEL_5_2,
                _integer_rows((2, 4), (1, 4), (1, 4), (_A, _A_POINT, _B, _B_POINT, _OUTPUT)),
            ),
        )
    ),
    _call_integer,
)
QUANTIZED_LINEAR_MATRIX_MULTIPLY = Support(
    QuantizedLinearMatrixMultiplyOperatorDesc,
    _QUANTIZED,
    (
        Table(FeatureLevel.LEVEL_2_1, _quantized_rows((4, 4), (4, 4)), _QUANTIZED_RULES),
        Table(FeatureLevel.LEVEL_4_0, _quantized_rows((2, 4), (1, 4)), _QUANTIZED_RULES),
    ),
    _call_quantized,
)
MATRIX_MULTIPLY_INTEGER_TO_FLOAT = Support(
    MatrixMultiplyIntegerToFloatOperatorDesc,
    _TO_FLOAT,
    (Table(FeatureLevel.LEVEL_6_2, _TO_FLOAT_ROWS, _TO_FLOAT_RULES),),
    _call_to_float,
    _why_not_to_float,
)
