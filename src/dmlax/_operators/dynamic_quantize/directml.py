"""DirectML's descriptor of dynamic quantization: its fields, support table, rules and call."""

from dataclasses import dataclass

from dmlax._descriptors import rules
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import FLOATS, FeatureLevel
from dmlax._descriptors.support import Level, describe, tensors_of
from dmlax._operators.dynamic_quantize.api import dynamic_quantize_linear


@dataclass(frozen=True, kw_only=True)
class DynamicQuantizeLinearOperatorDesc(OperatorDesc):
    """DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC."""

    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc


DYNAMIC_QUANTIZE_LINEAR = describe(
    DynamicQuantizeLinearOperatorDesc,
    dynamic_quantize_linear,
    "dynamic",
    (Level(FeatureLevel.LEVEL_4_0, (1, 8), (1, 8), {"InputTensor": FLOATS}),),
    (
        rules.same_dimension_count(*tensors_of(DynamicQuantizeLinearOperatorDesc)),
        rules.same_data_type("OutputZeroPointTensor", "OutputTensor"),
        rules.same_sizes("InputTensor", "OutputTensor"),
        rules.one_element("OutputScaleTensor"),
        rules.one_element("OutputZeroPointTensor"),
    ),
)
