"""DirectML's descriptors of the convolutions: fields, support tables, rules and calls."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from dmlax._descriptors import rules
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import I32, FeatureLevel
from dmlax._descriptors.rules import Broken, Call, braces, rule
from dmlax._descriptors.support import Level, all_axes, describe, flatten_parameters
from dmlax._operators.convolution.api import convolution_integer, quantized_linear_convolution


@dataclass(frozen=True, kw_only=True)
class QuantizedLinearConvolutionOperatorDesc(OperatorDesc):
    """DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC; `strides` are the convolution's."""

    input_tensor: BufferTensorDesc
    input_scale_tensor: BufferTensorDesc
    input_zero_point_tensor: BufferTensorDesc | None = None
    filter_tensor: BufferTensorDesc
    filter_scale_tensor: BufferTensorDesc
    filter_zero_point_tensor: BufferTensorDesc | None = None
    bias_tensor: BufferTensorDesc | None = None
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    group_count: int


@dataclass(frozen=True, kw_only=True)
class ConvolutionIntegerOperatorDesc(OperatorDesc):
    """DML_CONVOLUTION_INTEGER_OPERATOR_DESC; `strides` are the convolution's."""

    input_tensor: BufferTensorDesc
    input_zero_point_tensor: BufferTensorDesc | None = None
    filter_tensor: BufferTensorDesc
    filter_zero_point_tensor: BufferTensorDesc | None = None
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    group_count: int


@rule("group-count", "option", "GroupCount is at least 1.", structural=True)
def _at_least_one_group(call: Call) -> Iterator[Broken]:
    if call.number("GroupCount") < 1:
        yield Broken("GroupCount", "is 0, expected at least 1")


@rule("channels", "sizes", "InputChannelCount is FilterChannelCount * GroupCount.")
def _channels_in_groups(call: Call) -> Iterator[Broken]:
    input, filter = call.sizes("InputTensor", "FilterTensor")
    groups = call.number("GroupCount")
    if filter[1] * groups != input[1]:
        yield Broken(
            "FilterTensor",
            f"has Sizes {braces(filter)}, expected FilterChannelCount * GroupCount {groups} "
            f"to be the InputChannelCount of {braces(input)}",
        )


@rule("groups-divide", "sizes", "GroupCount divides FilterBatchCount.")
def _groups_divide_filters(call: Call) -> Iterator[Broken]:
    filter, groups = call.tensor("FilterTensor").sizes, call.number("GroupCount")
    if filter[0] % groups:
        text = f"is {groups}, expected a divisor of the {filter[0]} filters of FilterTensor"
        yield Broken("GroupCount", f"{text} {braces(filter)}")


@rule("kernel-fits", "sizes", "The dilated filter spans no more than the padded input.")
def _kernel_fits(call: Call) -> Iterator[Broken]:
    filter = call.tensor("FilterTensor").sizes
    windows = rules.read_windows(call, filter[2:])
    if not windows.fit:
        spans, padded = braces(windows.spans), braces(windows.padded)
        text = f"has Sizes {braces(filter)} and, with Dilations, spans {spans} cells"
        yield Broken("FilterTensor", f"{text}, expected at most the padded {padded}")


@rule(
    *("output-sizes", "sizes"),
    "The output is {InputBatchCount, FilterBatchCount, windows ...}, as many windows as fit.",
)
def _output_sizes(call: Call) -> Iterator[Broken]:
    input, filter = call.sizes("InputTensor", "FilterTensor")
    windows = rules.read_windows(call, filter[2:])
    if windows.fit:
        expected = (input[0], filter[0], *windows.counts)
        yield from rules.check_output(call, expected, "InputTensor and FilterTensor")


@rule("bias-channels", "sizes", "BiasTensor is {1, OutputChannelCount, 1, 1}.")
def _bias_per_channel(call: Call) -> Iterator[Broken]:
    sizes, filter = call.sizes("BiasTensor", "FilterTensor")
    expected = (1, filter[0], *(1,) * (len(sizes) - 2))
    if sizes != expected:
        text = f"has Sizes {braces(sizes)}, expected {braces(expected)}, one per filter"
        yield Broken("BiasTensor", f"{text} of FilterTensor")


_WINDOWS = (
    rules.spatial_dimension_count(
        "DimensionCount, of the spatial axes, is 2; here also 1, for tensors of three axes, which "
        "the tables support from 4.0 on."
    ),
    *map(rules.entry_per_axis, ("Strides", "Dilations", "StartPadding", "EndPadding")),
    *(_at_least_one_group, _channels_in_groups, _groups_divide_filters),
    *(_kernel_fits, _output_sizes),
)
_one_or_per_channel = partial(
    rules.one_or_per_channel, "OutputChannelCount", "filter", "FilterTensor", axis=0, rank=4
)
_BIAS, _I32 = {"BiasTensor": I32}, {"OutputTensor": I32}
_DIMENSIONS = (  # the patterns of ConvolutionInteger
    "{ BatchCount, InputChannelCount, [InputHeight], InputWidth }",
    "{ [1], [1], [1], 1 }",
    "{ FilterBatchCount, FilterChannelCount, [FilterHeight], FilterWidth }",
    "{ [1], FilterZeroPointChannelCount, [1], [1] }",
    "{ BatchCount, OutputChannelCount, [OutputHeight], OutputWidth }",
)
QUANTIZED_LINEAR_CONVOLUTION = describe(
    QuantizedLinearConvolutionOperatorDesc,
    quantized_linear_convolution,
    "qconv",
    (
        Level(FeatureLevel.LEVEL_2_1, (4, 4), (4, 4), _BIAS),
        Level(FeatureLevel.LEVEL_4_0, (3, 4), (1, 4), _BIAS, {"FilterScaleTensor": (3, 4)}),
        Level(FeatureLevel.LEVEL_5_2, (3, 4), (1, 4), _BIAS),
    ),
    (
        rules.same_dimension_count("InputTensor", "FilterTensor", "BiasTensor", "OutputTensor"),
        *rules.zero_point_data_types("Input", "Filter", "Output"),
        *_WINDOWS,
        *map(rules.one_element, ("InputZeroPointTensor", "InputScaleTensor")),
        *map(rules.one_element, ("OutputScaleTensor", "OutputZeroPointTensor")),
        _one_or_per_channel("FilterScaleTensor"),
        _one_or_per_channel("FilterZeroPointTensor"),
        _bias_per_channel,
    ),
    shape=flatten_parameters,
)
CONVOLUTION_INTEGER = describe(
    ConvolutionIntegerOperatorDesc,
    convolution_integer,
    "intconv",
    (
        Level(FeatureLevel.LEVEL_2_1, (4, 4), (4, 4), _I32, dimensions=all_axes(_DIMENSIONS)),
        Level(FeatureLevel.LEVEL_4_0, (3, 4), (1, 4), _I32, dimensions=_DIMENSIONS),
    ),
    (
        rules.same_dimension_count("InputTensor", "FilterTensor", "OutputTensor"),
        rules.same_dimension_count(
            *("InputZeroPointTensor", "FilterZeroPointTensor"), name="zero-points-dimension-count"
        ),
        *rules.zero_point_data_types("Input", "Filter"),
        *_WINDOWS,
        rules.one_element("InputZeroPointTensor"),
        _one_or_per_channel("FilterZeroPointTensor"),
    ),
    shape=flatten_parameters,
)
