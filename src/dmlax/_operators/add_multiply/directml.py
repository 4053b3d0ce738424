"""DirectML's descriptor of the quantized addition: fields, support table, rules, call."""

from dataclasses import dataclass

from dmlax._descriptors import rules
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import FeatureLevel
from dmlax._descriptors.support import Level, describe, tensors_of
from dmlax._operators.add_multiply.api import element_wise_quantized_linear_add


@dataclass(frozen=True, kw_only=True)
class ElementWiseQuantizedLinearAddOperatorDesc(OperatorDesc):
    """DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC."""

    a_tensor: BufferTensorDesc
    a_scale_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None = None
    b_tensor: BufferTensorDesc
    b_scale_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None = None
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc


_NAMES = ("A", "B", "Output")
_TENSORS = tuple(f"{name}Tensor" for name in _NAMES)
ELEMENT_WISE_QUANTIZED_LINEAR_ADD = describe(
    ElementWiseQuantizedLinearAddOperatorDesc,
    element_wise_quantized_linear_add,
    "qadd",
    (Level(FeatureLevel.LEVEL_4_0, (1, 8), (1, 8)),),
    (
        rules.same_dimension_count(*tensors_of(ElementWiseQuantizedLinearAddOperatorDesc)),
        *rules.zero_point_data_types(*_NAMES),
        rules.same_sizes(*_TENSORS),
        *(rules.one_element(f"{name}ScaleTensor") for name in _NAMES),
        *(rules.one_element(f"{name}ZeroPointTensor") for name in _NAMES),
    ),
)
