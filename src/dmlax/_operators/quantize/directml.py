"""DirectML's descriptors of the element-wise operators: fields, support tables, rules, calls."""

from collections.abc import Iterator
from dataclasses import dataclass

from dmlax._descriptors import rules
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import EIGHT_BITS, F32, FLOATS, I32, INTEGERS, DataType, FeatureLevel
from dmlax._descriptors.rules import Broken, Call, rule
from dmlax._descriptors.support import Level, describe
from dmlax._operators.quantize.api import (
    element_wise_dequantize_linear,
    element_wise_quantize_linear,
)


@dataclass(frozen=True, kw_only=True)
class ElementWiseQuantizeLinearOperatorDesc(OperatorDesc):
    """DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC."""

    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class ElementWiseDequantizeLinearOperatorDesc(OperatorDesc):
    """DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC."""

    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


_TENSORS = ("InputTensor", "ScaleTensor", "ZeroPointTensor", "OutputTensor")
_U8 = (DataType.UINT8,)


@rule(
    *("scale-data-type", "data_type"),
    "ScaleTensor is FLOAT32 if InputTensor is INT32, else it has the input's DataType.",
)
def _scale_data_type(call: Call) -> Iterator[Broken]:
    input, scale = (call.tensor(f"{name}Tensor").data_type for name in ("Input", "Scale"))
    expected = DataType.FLOAT32 if input == DataType.INT32 else input
    if scale != expected:
        text = f"has DataType {scale}, expected {expected}, as InputTensor has {input}"
        yield Broken("ScaleTensor", text)


def _level(
    level: FeatureLevel,
    counts: tuple[int, int],
    *data_types: tuple[DataType, ...],
    optional: bool = False,
) -> Level:
    """A level with the data types of `_TENSORS`, in their order; `optional` zero points or not."""
    by_tensor = dict(zip(_TENSORS, data_types, strict=True))
    required = () if optional else ("ZeroPointTensor",)
    return Level(level, counts, counts, by_tensor, required=required)


_SHAPES = (rules.same_dimension_count(*_TENSORS), rules.same_sizes(*_TENSORS))
_FROM_2_1 = ((*F32, *I32), F32, EIGHT_BITS, EIGHT_BITS)
_FROM_6_0 = ((*FLOATS, *I32), FLOATS, EIGHT_BITS, EIGHT_BITS)
ELEMENT_WISE_QUANTIZE_LINEAR = describe(
    ElementWiseQuantizeLinearOperatorDesc,
    element_wise_quantize_linear,
    "quantize",
    (
        _level(FeatureLevel.LEVEL_1_0, (4, 4), F32, F32, _U8, _U8),
        _level(FeatureLevel.LEVEL_2_1, (4, 4), *_FROM_2_1),
        _level(FeatureLevel.LEVEL_3_0, (1, 8), *_FROM_2_1),
        _level(FeatureLevel.LEVEL_6_0, (1, 8), *_FROM_6_0),
        _level(FeatureLevel.LEVEL_6_2, (1, 8), *_FROM_6_0, optional=True),
    ),
    (*_SHAPES, _scale_data_type, rules.same_data_type("ZeroPointTensor", "OutputTensor")),
)
ELEMENT_WISE_DEQUANTIZE_LINEAR = describe(
    ElementWiseDequantizeLinearOperatorDesc,
    element_wise_dequantize_linear,
    "dequantize",
    (
        _level(FeatureLevel.LEVEL_1_0, (4, 4), _U8, F32, _U8, F32),
        _level(FeatureLevel.LEVEL_2_1, (4, 4), INTEGERS, F32, INTEGERS, F32),
        _level(FeatureLevel.LEVEL_3_0, (1, 8), INTEGERS, F32, INTEGERS, F32),
        _level(FeatureLevel.LEVEL_6_0, (1, 8), INTEGERS, FLOATS, INTEGERS, FLOATS),
        _level(FeatureLevel.LEVEL_6_2, (1, 8), INTEGERS, FLOATS, INTEGERS, FLOATS, optional=True),
    ),
    (
        *_SHAPES,
        rules.same_data_type("ZeroPointTensor", "InputTensor"),
        rules.same_data_type("OutputTensor", "ScaleTensor"),
    ),
)
