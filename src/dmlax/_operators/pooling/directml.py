"""DirectML's descriptors of the poolings: fields, support tables, rules and calls."""

from collections.abc import Iterator
from dataclasses import dataclass

from dmlax._descriptors import rules
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import (
    EIGHT_BITS,
    FLOATS,
    INTEGERS,
    U32,
    DataType,
    DataTypes,
    FeatureLevel,
)
from dmlax._descriptors.rules import Broken, Call, Rule, braces, rule
from dmlax._descriptors.support import Level, Support, describe, flatten_parameters, tensors_of
from dmlax._operators.pooling.api import max_pooling, quantized_linear_average_pooling


@dataclass(frozen=True, kw_only=True)
class QuantizedLinearAveragePoolingOperatorDesc(OperatorDesc):
    """DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC; `strides` are the windows'."""

    input_tensor: BufferTensorDesc
    input_scale_tensor: BufferTensorDesc
    input_zero_point_tensor: BufferTensorDesc | None = None
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    include_padding: bool


@dataclass(frozen=True, kw_only=True)
class MaxPoolingOperatorDesc(OperatorDesc):
    """DML_MAX_POOLING_OPERATOR_DESC; `strides` are the windows'."""

    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MaxPooling1OperatorDesc(OperatorDesc):
    """DML_MAX_POOLING1_OPERATOR_DESC, which adds the maxima's indices."""

    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    output_indices_tensor: BufferTensorDesc | None = None
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MaxPooling2OperatorDesc(MaxPooling1OperatorDesc):
    """DML_MAX_POOLING2_OPERATOR_DESC, which adds dilations."""

    dilations: tuple[int, ...]


_PADDING = ("StartPadding", "EndPadding")
_ALL = (*FLOATS, DataType.INT64, *INTEGERS, DataType.UINT64)
_PARAMETERS = (
    *("InputScaleTensor", "InputZeroPointTensor"),
    *("OutputScaleTensor", "OutputZeroPointTensor"),
)


@rule("window-fits", "sizes", "The dilated window spans no more than the padded input.")
def _window_fits(call: Call) -> Iterator[Broken]:
    window = call.array("WindowSize")
    windows = rules.read_windows(call, window)
    if not windows.fit:
        text = f"is {braces(window)} and spans {braces(windows.spans)} pixels"
        padded = braces(windows.padded)
        yield Broken("WindowSize", f"{text}, expected at most the padded {padded}")


@rule(
    *("output-sizes", "sizes"),
    "The output is {BatchCount, ChannelCount, windows ...}, as many windows as fit.",
)
def _output_sizes(call: Call) -> Iterator[Broken]:
    windows = rules.read_windows(call, call.array("WindowSize"))
    if windows.fit:
        expected = (*call.tensor("InputTensor").sizes[:2], *windows.counts)
        yield from rules.check_output(call, expected, "InputTensor and WindowSize")


def _window_rules(*dilations: str) -> tuple[Rule, ...]:
    """The rules of the options that shape the windows, and of the sizes that they give."""
    return (
        rules.spatial_dimension_count("DimensionCount is the number of spatial axes."),
        *map(rules.entry_per_axis, ("WindowSize", "Strides", *dilations, *_PADDING)),
        *(_window_fits, _output_sizes),
    )


def _why_not_max(desc: OperatorDesc) -> str | None:
    """Names what max_pooling does not compute."""
    data_type = desc.tensors["InputTensor"].data_type
    if data_type not in EIGHT_BITS:
        return f"InputTensor has DataType {data_type}, and only INT8 and UINT8 are supported"
    if "OutputIndicesTensor" in desc.tensors:
        return "OutputIndicesTensor is not supported"
    return None


def _max_level(level: FeatureLevel, data_types: DataTypes, indices: DataTypes = U32) -> Level:
    tensors = ("InputTensor", "OutputTensor")
    by_tensor = {**dict.fromkeys(tensors, data_types), "OutputIndicesTensor": indices}
    return Level(level, (4, 5), data_types=by_tensor)


def _describe_max(
    desc: type[OperatorDesc], prefix: str, first: FeatureLevel, *dilations: str
) -> Support:
    tensors = tensors_of(desc)
    indices = [rules.same_sizes(*tensors[1:], name="indices-sizes")] if len(tensors) > 2 else []
    return describe(
        desc,
        max_pooling,
        prefix,
        (
            _max_level(first, FLOATS),
            _max_level(FeatureLevel.LEVEL_3_0, (*FLOATS, *EIGHT_BITS)),
            _max_level(FeatureLevel.LEVEL_5_0, _ALL, (DataType.UINT64, DataType.UINT32)),
        ),
        (
            rules.same_dimension_count(*tensors),
            rules.same_data_type("OutputTensor", "InputTensor"),
            *_window_rules(*dilations),
            *indices,
        ),
        why_not=_why_not_max,
    )


QUANTIZED_LINEAR_AVERAGE_POOLING = describe(
    QuantizedLinearAveragePoolingOperatorDesc,
    quantized_linear_average_pooling,
    "avgpool",
    (Level(FeatureLevel.LEVEL_6_2, (4, 5), (1, 5)),),
    (
        rules.same_dimension_count("InputTensor", "OutputTensor"),
        *rules.zero_point_data_types("Input", "Output"),
        *_window_rules("Dilations"),
        *(
            rules.one_or_per_channel("ChannelCount", "channel", "InputTensor", tensor, axis=1)
            for tensor in _PARAMETERS
        ),
    ),
    shape=flatten_parameters,
)
MAX_POOLING = _describe_max(MaxPoolingOperatorDesc, "maxpool0", FeatureLevel.LEVEL_1_0)
MAX_POOLING1 = _describe_max(MaxPooling1OperatorDesc, "maxpool1", FeatureLevel.LEVEL_2_0)
MAX_POOLING2 = _describe_max(
    MaxPooling2OperatorDesc, "maxpool", FeatureLevel.LEVEL_2_1, "Dilations"
)
