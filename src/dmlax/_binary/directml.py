"""DirectML's descriptor of the quantized addition: fields, support table, rules, call."""

from dataclasses import dataclass
from typing import ClassVar

from dmlax._binary.api import element_wise_quantized_linear_add
from dmlax._directml import rules
from dmlax._directml.descs import BufferTensorDesc, OperatorDesc
from dmlax._directml.enums import DataType, FeatureLevel
from dmlax._directml.rules import Rule
from dmlax._directml.support import (
    EIGHT_BITS,
    Row,
    Support,
    Table,
    Tensors,
    page,
    same_data_type,
    same_dimension_count,
)


@dataclass(frozen=True, kw_only=True)
class ElementWiseQuantizedLinearAddOperatorDesc(OperatorDesc):
    """DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC."""

    operator: ClassVar[str] = "ElementWiseQuantizedLinearAdd"
    a_tensor: BufferTensorDesc
    a_scale_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None = None
    b_tensor: BufferTensorDesc
    b_scale_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None = None
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


_ADD = page("ns-directml-dml_element_wise_quantized_linear_add_operator_desc")
_TENSORS = ("A", "B", "Output")
_DIMENSION_COUNTS = (1, 8)
_ROWS = (
    Row("ATensor", "Input", _DIMENSION_COUNTS, EIGHT_BITS),
    Row("AScaleTensor", "Input", _DIMENSION_COUNTS, (DataType.FLOAT32,)),
    Row("AZeroPointTensor", "Optional input", _DIMENSION_COUNTS, EIGHT_BITS),
    Row("BTensor", "Input", _DIMENSION_COUNTS, EIGHT_BITS),
    Row("BScaleTensor", "Input", _DIMENSION_COUNTS, (DataType.FLOAT32,)),
    Row("BZeroPointTensor", "Optional input", _DIMENSION_COUNTS, EIGHT_BITS),
    Row("OutputScaleTensor", "Input", _DIMENSION_COUNTS, (DataType.FLOAT32,)),
    Row("OutputZeroPointTensor", "Optional input", _DIMENSION_COUNTS, EIGHT_BITS),
    Row("OutputTensor", "Output", _DIMENSION_COUNTS, EIGHT_BITS),
)


def _one(tensor: str, name: str) -> Rule:
    sentence = f"{tensor} has one element: all its Sizes are 1."
    return rules.OneElement(name=f"qadd-{name}-one", sentence=sentence, page=_ADD, tensor=tensor)


_RULES = (
    same_dimension_count("qadd-same-dimension-count", _ADD, *(row.tensor for row in _ROWS)),
    *(
        same_data_type(
            f"qadd-{name.lower()}-zero-point-data-type",
            _ADD,
            f"{name}ZeroPointTensor",
            f"{name}Tensor",
        )
        for name in _TENSORS
    ),
    rules.SameSizes(
        name="qadd-same-sizes",
        sentence="ATensor, BTensor and OutputTensor have the same Sizes.",
        page=_ADD,
        tensors=tuple(f"{name}Tensor" for name in _TENSORS),
    ),
    *(_one(f"{name}ScaleTensor", f"{name.lower()}-scale") for name in _TENSORS),
    *(_one(f"{name}ZeroPointTensor", f"{name.lower()}-zero-point") for name in _TENSORS),
)


def _call(desc: ElementWiseQuantizedLinearAddOperatorDesc, tensors: Tensors) -> Tensors:
    output = element_wise_quantized_linear_add(
        tensors["a_tensor"],
        tensors["b_tensor"],
        a_scale=tensors["a_scale_tensor"],
        b_scale=tensors["b_scale_tensor"],
        output_scale=tensors["output_scale_tensor"],
        a_zero_point=tensors.get("a_zero_point_tensor"),
        b_zero_point=tensors.get("b_zero_point_tensor"),
        output_zero_point=tensors.get("output_zero_point_tensor"),
        output_dtype=desc.output_tensor.dtype,
    )
    return {"output_tensor": output}


ELEMENT_WISE_QUANTIZED_LINEAR_ADD = Support(
    ElementWiseQuantizedLinearAddOperatorDesc,
    _ADD,
    (Table(FeatureLevel.LEVEL_4_0, _ROWS, _RULES),),
    _call,
)
