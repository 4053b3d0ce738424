"""DirectML's descriptors of the element-wise operators: fields, support tables, rules, calls."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from dmlax._directml import rules
from dmlax._directml.descs import BufferTensorDesc, OperatorDesc
from dmlax._directml.enums import DataType, FeatureLevel
from dmlax._directml.rules import Broken, Call, Rule
from dmlax._directml.support import (
    EIGHT_BITS,
    FLOATS,
    INTEGERS,
    Kind,
    Row,
    Support,
    Table,
    Tensors,
    page,
    same_data_type,
    same_dimension_count,
)
from dmlax._elementwise.api import element_wise_dequantize_linear, element_wise_quantize_linear


@dataclass(frozen=True, kw_only=True)
class ElementWiseQuantizeLinearOperatorDesc(OperatorDesc):
    """DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC."""

    operator: ClassVar[str] = "ElementWiseQuantizeLinear"
    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class ElementWiseDequantizeLinearOperatorDesc(OperatorDesc):
    """DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC."""

    operator: ClassVar[str] = "ElementWiseDequantizeLinear"
    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class ScaleDataType(Rule):
    """The scale of a quantization is FLOAT32 for INT32, else as the input."""

    code = "data_type"

    def _broken(self, call: Call) -> Iterator[Broken]:
        given, found = (call.tensor(f"{name}Tensor").data_type for name in ("Input", "Scale"))
        wanted = DataType.FLOAT32 if given == DataType.INT32 else given
        if found != wanted:
            text = f"has DataType {found}, expected {wanted}, as InputTensor has {given}"
            yield Broken("ScaleTensor", text)


_QUANTIZE = page("ns-directml-dml_element_wise_quantize_linear_operator_desc")
_DEQUANTIZE = page("ns-directml-dml_element_wise_dequantize_linear_operator_desc")
_F32 = (DataType.FLOAT32,)
_U8 = (DataType.UINT8,)
_OPTIONAL: Kind = "Optional input"
_ELEMENTS = ("InputTensor", "ScaleTensor", "ZeroPointTensor", "OutputTensor")


def _same_shape_rules(prefix: str, page: str) -> tuple[Rule, ...]:
    """The rules that all four tensors have one shape."""
    return (
        same_dimension_count(f"{prefix}-same-dimension-count", page, *_ELEMENTS),
        rules.SameSizes(
            name=f"{prefix}-same-sizes",
            sentence="All tensors have the same Sizes.",
            page=page,
            tensors=_ELEMENTS,
        ),
    )


_QUANTIZE_RULES = (
    *_same_shape_rules("quantize", _QUANTIZE),
    ScaleDataType(
        name="quantize-scale-data-type",
        sentence="ScaleTensor is FLOAT32 if InputTensor is INT32, else it has the input's "
        "DataType.",
        page=_QUANTIZE,
    ),
    same_data_type("quantize-zero-point-data-type", _QUANTIZE, "ZeroPointTensor", "OutputTensor"),
)
_DEQUANTIZE_RULES = (
    *_same_shape_rules("dequantize", _DEQUANTIZE),
    same_data_type(
        "dequantize-zero-point-data-type", _DEQUANTIZE, "ZeroPointTensor", "InputTensor"
    ),
    same_data_type("dequantize-output-data-type", _DEQUANTIZE, "OutputTensor", "ScaleTensor"),
)


def _element_rows(
    dimension_counts: tuple[int, int],
    input: tuple[DataType, ...],
    scale: tuple[DataType, ...],
    zero_point: tuple[DataType, ...],
    output: tuple[DataType, ...],
    zero_point_kind: Kind = "Input",
) -> tuple[Row, ...]:
    return (
        Row("InputTensor", "Input", dimension_counts, input),
        Row("ScaleTensor", "Input", dimension_counts, scale),
        Row("ZeroPointTensor", zero_point_kind, dimension_counts, zero_point),
        Row("OutputTensor", "Output", dimension_counts, output),
    )


_F32_AND_I32 = (DataType.FLOAT32, DataType.INT32)
_FLOATS_AND_I32 = (*FLOATS, DataType.INT32)


def _call_quantize(desc: ElementWiseQuantizeLinearOperatorDesc, tensors: Tensors) -> Tensors:
    output = element_wise_quantize_linear(
        tensors["input_tensor"],
        tensors["scale_tensor"],
        tensors.get("zero_point_tensor"),
        output_dtype=desc.output_tensor.dtype,
    )
    return {"output_tensor": output}


def _call_dequantize(desc: ElementWiseDequantizeLinearOperatorDesc, tensors: Tensors) -> Tensors:
    output = element_wise_dequantize_linear(
        tensors["input_tensor"], tensors["scale_tensor"], tensors.get("zero_point_tensor")
    )
    return {"output_tensor": output}


ELEMENT_WISE_QUANTIZE_LINEAR = Support(
    ElementWiseQuantizeLinearOperatorDesc,
    _QUANTIZE,
    tuple(
        Table(level, rows, _QUANTIZE_RULES)
        for level, rows in (
            (FeatureLevel.LEVEL_1_0, _element_rows((4, 4), _F32, _F32, _U8, _U8)),
            (
                FeatureLevel.LEVEL_2_1,
                _element_rows((4, 4), _F32_AND_I32, _F32, EIGHT_BITS, EIGHT_BITS),
            ),
            (
                FeatureLevel.LEVEL_3_0,
                _element_rows((1, 8), _F32_AND_I32, _F32, EIGHT_BITS, EIGHT_BITS),
            ),
            (
                FeatureLevel.LEVEL_6_0,
                _element_rows((1, 8), _FLOATS_AND_I32, FLOATS, EIGHT_BITS, EIGHT_BITS),
            ),
            (
                FeatureLevel.LEVEL_6_2,
                _element_rows((1, 8), _FLOATS_AND_I32, FLOATS, EIGHT_BITS, EIGHT_BITS, _OPTIONAL),
            ),
        )
    ),
    _call_quantize,
)
ELEMENT_WISE_DEQUANTIZE_LINEAR = Support(
    ElementWiseDequantizeLinearOperatorDesc,
    _DEQUANTIZE,
    tuple(
        Table(level, rows, _DEQUANTIZE_RULES)
        for level, rows in (
            (FeatureLevel.LEVEL_1_0, _element_rows((4, 4), _U8, _F32, _U8, _F32)),
            (FeatureLevel.LEVEL_2_1, _element_rows((4, 4), INTEGERS, _F32, INTEGERS, _F32)),
            (FeatureLevel.LEVEL_3_0, _element_rows((1, 8), INTEGERS, _F32, INTEGERS, _F32)),
            (FeatureLevel.LEVEL_6_0, _element_rows((1, 8), INTEGERS, FLOATS, INTEGERS, FLOATS)),
            (
                FeatureLevel.LEVEL_6_2,
                _element_rows((1, 8), INTEGERS, FLOATS, INTEGERS, FLOATS, _OPTIONAL),
            ),
        )
    ),
    _call_dequantize,
)
