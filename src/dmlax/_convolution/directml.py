"""DirectML's descriptors of the convolutions: fields, support tables, rules and calls."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from dmlax._convolution.api import convolution_integer, quantized_linear_convolution
from dmlax._directml import rules
from dmlax._directml.descs import BufferTensorDesc, OperatorDesc
from dmlax._directml.enums import DataType, FeatureLevel
from dmlax._directml.rules import Broken, Call, Rule, braces
from dmlax._directml.support import (
    EIGHT_BITS,
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


@dataclass(frozen=True, kw_only=True)
class QuantizedLinearConvolutionOperatorDesc(OperatorDesc):
    """DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC; `strides` are the convolution's."""

    operator: ClassVar[str] = "QuantizedLinearConvolution"
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

    operator: ClassVar[str] = "ConvolutionInteger"
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


@dataclass(frozen=True, kw_only=True)
class AtLeastOneGroup(Rule):
    """GroupCount is not 0."""

    code = "option"
    structural = True

    def _broken(self, call: Call) -> Iterator[Broken]:
        if call.option("GroupCount") < 1:
            yield Broken("GroupCount", "is 0, expected at least 1")


@dataclass(frozen=True, kw_only=True)
class ChannelsInGroups(Rule):
    """The input's channels are the filter's times GroupCount."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        input, filter = call.tensor("InputTensor").sizes, call.tensor("FilterTensor").sizes
        groups = call.option("GroupCount")
        if filter[1] * groups != input[1]:
            yield Broken(
                "FilterTensor",
                f"has Sizes {braces(filter)}, expected FilterChannelCount * GroupCount {groups} "
                f"to be the InputChannelCount of {braces(input)}",
            )


@dataclass(frozen=True, kw_only=True)
class GroupsDivideFilters(Rule):
    """GroupCount divides the number of filters."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        filter, groups = call.tensor("FilterTensor").sizes, call.option("GroupCount")
        if filter[0] % groups:
            text = f"is {groups}, expected a divisor of the {filter[0]} filters of FilterTensor"
            yield Broken("GroupCount", f"{text} {braces(filter)}")


@dataclass(frozen=True, kw_only=True)
class KernelFits(Rule):
    """The dilated kernel is no larger than the padded input."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        found = rules.read_windows(call, call.tensor("FilterTensor").sizes[2:])
        if not found.fit:
            filter = braces(call.tensor("FilterTensor").sizes)
            text = f"has Sizes {filter} and, with Dilations, spans {braces(found.spans)} cells"
            padded = braces(found.padded)
            yield Broken("FilterTensor", f"{text}, expected at most the padded {padded}")


@dataclass(frozen=True, kw_only=True)
class OutputSizes(Rule):
    """OutputTensor is {N, K, (padded - span) // stride + 1 ...}."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        input, filter = call.tensor("InputTensor").sizes, call.tensor("FilterTensor").sizes
        windows = rules.read_windows(call, filter[2:])
        if not windows.fit:
            return
        wanted, found = (input[0], filter[0], *windows.counts), call.tensor("OutputTensor").sizes
        if found != wanted:
            text = f"has Sizes {braces(found)}, expected {braces(wanted)}"
            yield Broken("OutputTensor", f"{text} of this InputTensor and FilterTensor")


@dataclass(frozen=True, kw_only=True)
class OneOrPerChannel(Rule):
    """`tensor` holds one element or one per output channel, on axis 1 if it has all axes."""

    code = "sizes"
    tensor: str

    def _broken(self, call: Call) -> Iterator[Broken]:
        sizes, outputs = call.tensor(self.tensor).sizes, call.tensor("FilterTensor").sizes[0]
        long = [axis for axis, size in enumerate(sizes) if size != 1]
        placed = not long or (len(long) == 1 and sizes[long[0]] == outputs)
        if not placed or (long and len(sizes) == 4 and long != [1]):
            wanted = braces((1, outputs, 1, 1)) if len(sizes) == 4 else f"{outputs} elements"
            text = f"has Sizes {braces(sizes)}, expected one element or {wanted}, one per"
            yield Broken(self.tensor, f"{text} filter of FilterTensor")


@dataclass(frozen=True, kw_only=True)
class BiasPerChannel(Rule):
    """BiasTensor is {1, K, 1, 1}."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        sizes, outputs = call.tensor("BiasTensor").sizes, call.tensor("FilterTensor").sizes[0]
        wanted = (1, outputs, *(1,) * (len(sizes) - 2))
        if sizes != wanted:
            text = f"has Sizes {braces(sizes)}, expected {braces(wanted)}, one per filter"
            yield Broken("BiasTensor", f"{text} of FilterTensor")


_QUANTIZED = page("ns-directml-dml_quantized_linear_convolution_operator_desc")
_INTEGER = page("ns-directml-dml_convolution_integer_operator_desc")
_F32 = (DataType.FLOAT32,)
_I32 = (DataType.INT32,)
_OPTIONAL: Kind = "Optional input"
_LAYOUTS = {1: ("NCW", "OIW", "NCW"), 2: ("NCHW", "OIHW", "NCHW")}


def _window_rules(prefix: str, page: str) -> tuple[Rule, ...]:
    """The rules of the options that shape the windows."""
    return (
        rules.SpatialDimensionCount(
            name=f"{prefix}-spatial-dimension-count",
            sentence="DimensionCount, of the spatial axes, is 2; here also 1, for tensors of "
            "three axes, which the tables support from 4.0 on.",
            page=page,
        ),
        *rules.entries_per_axis(
            *(prefix, page), *("Strides", "Dilations", "StartPadding", "EndPadding")
        ),
        AtLeastOneGroup(
            name=f"{prefix}-group-count",
            sentence="The convolution is divided into at least one group.",
            page=page,
        ),
    )


def _size_rules(prefix: str, page: str) -> tuple[Rule, ...]:
    """The rules of how input, filter and output fit each other."""
    return (
        ChannelsInGroups(
            name=f"{prefix}-channels",
            sentence="InputChannelCount is FilterChannelCount * GroupCount.",
            page=page,
        ),
        GroupsDivideFilters(
            name=f"{prefix}-groups-divide",
            sentence="GroupCount divides FilterBatchCount.",
            page=page,
        ),
        KernelFits(
            name=f"{prefix}-kernel-fits",
            sentence="The dilated filter spans no more than the padded input.",
            page=page,
        ),
        OutputSizes(
            name=f"{prefix}-output-sizes",
            sentence="The output is {InputBatchCount, FilterBatchCount, windows ...}, as many "
            "windows as fit.",
            page=page,
        ),
    )


def _one(name: str, page: str, tensor: str) -> Rule:
    return rules.OneElement(
        name=name, sentence=f"{tensor} is {{1, 1, 1, 1}}.", page=page, tensor=tensor
    )


def _one_or_per_channel(name: str, page: str, tensor: str) -> Rule:
    return OneOrPerChannel(
        name=name,
        sentence=f"{tensor} is {{1, 1, 1, 1}}, or {{1, OutputChannelCount, 1, 1}}; with fewer "
        "axes, where the page does not say which are left out, the channels may be on any.",
        page=page,
        tensor=tensor,
    )


_QUANTIZED_RULES = (
    same_dimension_count(
        *("qconv-same-dimension-count", _QUANTIZED),
        *("InputTensor", "FilterTensor", "BiasTensor", "OutputTensor"),
    ),
    *(
        same_data_type(f"qconv-{name}-zero-point-data-type", _QUANTIZED, tensor, other)
        for name, tensor, other in (
            ("input", "InputZeroPointTensor", "InputTensor"),
            ("filter", "FilterZeroPointTensor", "FilterTensor"),
            ("output", "OutputZeroPointTensor", "OutputTensor"),
        )
    ),
    *_window_rules("qconv", _QUANTIZED),
    *_size_rules("qconv", _QUANTIZED),
    _one("qconv-input-zero-point-one", _QUANTIZED, "InputZeroPointTensor"),
    _one("qconv-input-scale-one", _QUANTIZED, "InputScaleTensor"),
    _one("qconv-output-scale-one", _QUANTIZED, "OutputScaleTensor"),
    _one("qconv-output-zero-point-one", _QUANTIZED, "OutputZeroPointTensor"),
    _one_or_per_channel("qconv-filter-scale-channels", _QUANTIZED, "FilterScaleTensor"),
    _one_or_per_channel("qconv-filter-zero-point-channels", _QUANTIZED, "FilterZeroPointTensor"),
    BiasPerChannel(
        name="qconv-bias-channels",
        sentence="BiasTensor is {1, OutputChannelCount, 1, 1}.",
        page=_QUANTIZED,
    ),
)
_INTEGER_RULES = (
    same_dimension_count(
        *("intconv-same-dimension-count", _INTEGER),
        *("InputTensor", "FilterTensor", "OutputTensor"),
    ),
    same_dimension_count(
        *("intconv-zero-points-dimension-count", _INTEGER),
        *("InputZeroPointTensor", "FilterZeroPointTensor"),
    ),
    *(
        same_data_type(f"intconv-{name}-zero-point-data-type", _INTEGER, tensor, other)
        for name, tensor, other in (
            ("input", "InputZeroPointTensor", "InputTensor"),
            ("filter", "FilterZeroPointTensor", "FilterTensor"),
        )
    ),
    *_window_rules("intconv", _INTEGER),
    *_size_rules("intconv", _INTEGER),
    _one("intconv-input-zero-point-one", _INTEGER, "InputZeroPointTensor"),
    _one_or_per_channel("intconv-filter-zero-point-channels", _INTEGER, "FilterZeroPointTensor"),
)


def _quantized_rows(
    tensors: tuple[int, int], parameters: tuple[int, int], filter_scale: tuple[int, int]
) -> tuple[Row, ...]:
    return (
        Row("InputTensor", "Input", tensors, EIGHT_BITS),
        Row("InputScaleTensor", "Input", parameters, _F32),
        Row("InputZeroPointTensor", _OPTIONAL, parameters, EIGHT_BITS),
        Row("FilterTensor", "Input", tensors, EIGHT_BITS),
        Row("FilterScaleTensor", "Input", filter_scale, _F32),
        Row("FilterZeroPointTensor", _OPTIONAL, parameters, EIGHT_BITS),
        Row("BiasTensor", _OPTIONAL, tensors, _I32),
        Row("OutputScaleTensor", "Input", parameters, _F32),
        Row("OutputZeroPointTensor", _OPTIONAL, parameters, EIGHT_BITS),
        Row("OutputTensor", "Output", tensors, EIGHT_BITS),
    )


def _integer_rows(
    tensors: tuple[int, int], parameters: tuple[int, int], dimensions: tuple[str, ...]
) -> tuple[Row, ...]:
    input, input_zero_point, filter, filter_zero_point, output = dimensions
    return (
        Row("InputTensor", "Input", tensors, EIGHT_BITS, input),
        Row("InputZeroPointTensor", _OPTIONAL, parameters, EIGHT_BITS, input_zero_point),
        Row("FilterTensor", "Input", tensors, EIGHT_BITS, filter),
        Row("FilterZeroPointTensor", _OPTIONAL, parameters, EIGHT_BITS, filter_zero_point),
        Row("OutputTensor", "Output", tensors, _I32, output),
    )


def _call_quantized(desc: QuantizedLinearConvolutionOperatorDesc, tensors: Tensors) -> Tensors:
    output = quantized_linear_convolution(
        tensors["input_tensor"],
        tensors["filter_tensor"],
        flat(tensors, "bias_tensor"),
        input_scale=flat(tensors, "input_scale_tensor"),
        filter_scale=flat(tensors, "filter_scale_tensor"),
        output_scale=flat(tensors, "output_scale_tensor"),
        input_zero_point=flat(tensors, "input_zero_point_tensor"),
        filter_zero_point=flat(tensors, "filter_zero_point_tensor"),
        output_zero_point=flat(tensors, "output_zero_point_tensor"),
        output_dtype=desc.output_tensor.dtype,
        **_window_options(desc),
    )
    return {"output_tensor": output}


def _call_integer(desc: ConvolutionIntegerOperatorDesc, tensors: Tensors) -> Tensors:
    output = convolution_integer(
        tensors["input_tensor"],
        tensors["filter_tensor"],
        input_zero_point=flat(tensors, "input_zero_point_tensor"),
        filter_zero_point=flat(tensors, "filter_zero_point_tensor"),
        **_window_options(desc),
    )
    return {"output_tensor": output}


def _window_options(
    desc: QuantizedLinearConvolutionOperatorDesc | ConvolutionIntegerOperatorDesc,
) -> dict[str, Any]:
    return {
        "strides": desc.strides,
        "dilations": desc.dilations,
        "start_padding": desc.start_padding,
        "end_padding": desc.end_padding,
        "group_count": desc.group_count,
        "dimension_numbers": _LAYOUTS[desc.dimension_count],
    }


QUANTIZED_LINEAR_CONVOLUTION = Support(
    QuantizedLinearConvolutionOperatorDesc,
    _QUANTIZED,
    (
        Table(FeatureLevel.LEVEL_2_1, _quantized_rows((4, 4), (4, 4), (4, 4)), _QUANTIZED_RULES),
        Table(FeatureLevel.LEVEL_4_0, _quantized_rows((3, 4), (1, 4), (3, 4)), _QUANTIZED_RULES),
        Table(FeatureLevel.LEVEL_5_2, _quantized_rows((3, 4), (1, 4), (1, 4)), _QUANTIZED_RULES),
    ),
    _call_quantized,
)
CONVOLUTION_INTEGER = Support(
    ConvolutionIntegerOperatorDesc,
    _INTEGER,
    (
        Table(
            FeatureLevel.LEVEL_2_1,
            _integer_rows(
                (4, 4),
                (4, 4),
                (
                    "{ BatchCount, InputChannelCount, InputHeight, InputWidth }",
                    "{ 1, 1, 1, 1 }",
                    "{ FilterBatchCount, FilterChannelCount, FilterHeight, FilterWidth }",
                    "{ 1, FilterZeroPointChannelCount, 1, 1 }",
                    "{ BatchCount, OutputChannelCount, OutputHeight, OutputWidth }",
                ),
            ),
            _INTEGER_RULES,
        ),
        Table(
            FeatureLevel.LEVEL_4_0,
            _integer_rows(
                (3, 4),
                (1, 4),
                (
                    "{ BatchCount, InputChannelCount, [InputHeight], InputWidth }",
                    "{ [1], [1], [1], 1 }",
                    "{ FilterBatchCount, FilterChannelCount, [FilterHeight], FilterWidth }",
                    "{ [1], FilterZeroPointChannelCount, [1], [1] }",
                    "{ BatchCount, OutputChannelCount, [OutputHeight], OutputWidth }",
                ),
            ),
            _INTEGER_RULES,
        ),
    ),
    _call_integer,
)
