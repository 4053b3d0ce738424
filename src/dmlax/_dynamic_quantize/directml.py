"""DirectML's descriptor of dynamic quantization: its fields, support table, rules and call."""

from dataclasses import dataclass
from typing import ClassVar

from dmlax._directml import rules
from dmlax._directml.descs import BufferTensorDesc, OperatorDesc
from dmlax._directml.enums import DataType, FeatureLevel
from dmlax._directml.support import (
    EIGHT_BITS,
    FLOATS,
    Row,
    Support,
    Table,
    Tensors,
    page,
    same_data_type,
    same_dimension_count,
)
from dmlax._dynamic_quantize.api import dynamic_quantize_linear


@dataclass(frozen=True, kw_only=True)
class DynamicQuantizeLinearOperatorDesc(OperatorDesc):
    """DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC."""

    operator: ClassVar[str] = "DynamicQuantizeLinear"
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc


_PAGE = page("ns-directml-dml_dynamic_quantize_linear_operator_desc")
_ROWS = (
    Row("InputTensor", "Input", (1, 8), FLOATS),
    Row("OutputTensor", "Output", (1, 8), EIGHT_BITS),
    Row("OutputScaleTensor", "Output", (1, 8), (DataType.FLOAT32,)),
    Row("OutputZeroPointTensor", "Output", (1, 8), EIGHT_BITS),
)
_RULES = (
    same_dimension_count("dynamic-same-dimension-count", _PAGE, *(row.tensor for row in _ROWS)),
    same_data_type(
        *("dynamic-output-zero-point-data-type", _PAGE), *("OutputZeroPointTensor", "OutputTensor")
    ),
    rules.SameSizes(
        name="dynamic-same-sizes",
        sentence="OutputTensor has the Sizes of InputTensor.",
        page=_PAGE,
        tensors=("InputTensor", "OutputTensor"),
    ),
    *(
        rules.OneElement(
            name=f"dynamic-output-{name}-one",
            sentence=f"{tensor} has one element.",
            page=_PAGE,
            tensor=tensor,
        )
        for name, tensor in (
            ("scale", "OutputScaleTensor"),
            ("zero-point", "OutputZeroPointTensor"),
        )
    ),
)


def _call(desc: DynamicQuantizeLinearOperatorDesc, tensors: Tensors) -> Tensors:
    found = dynamic_quantize_linear(tensors["input_tensor"], output_dtype=desc.output_tensor.dtype)
    return {
        "output_tensor": found.output,
        "output_scale_tensor": found.scale,
        "output_zero_point_tensor": found.zero_point,
    }


DYNAMIC_QUANTIZE_LINEAR = Support(
    DynamicQuantizeLinearOperatorDesc,
    _PAGE,
    (Table(FeatureLevel.LEVEL_4_0, _ROWS, _RULES),),
    _call,
)
