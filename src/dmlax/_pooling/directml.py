"""DirectML's descriptors of the poolings: fields, support tables, rules and calls."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

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
from dmlax._pooling.api import max_pooling, quantized_linear_average_pooling


@dataclass(frozen=True, kw_only=True)
class QuantizedLinearAveragePoolingOperatorDesc(OperatorDesc):
    """DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC; `strides` are the windows'."""

    operator: ClassVar[str] = "QuantizedLinearAveragePooling"
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

    operator: ClassVar[str] = "MaxPooling"
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

    operator: ClassVar[str] = "MaxPooling1"
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    output_indices_tensor: BufferTensorDesc | None = None
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MaxPooling2OperatorDesc(OperatorDesc):
    """DML_MAX_POOLING2_OPERATOR_DESC, which adds dilations."""

    operator: ClassVar[str] = "MaxPooling2"
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    output_indices_tensor: BufferTensorDesc | None = None
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class WindowFits(Rule):
    """The dilated window is no larger than the padded input."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        found = rules.read_windows(call, call.option("WindowSize"))
        if not found.fit:
            text = f"is {braces(call.option('WindowSize'))} and spans {braces(found.spans)} pixels"
            padded = braces(found.padded)
            yield Broken("WindowSize", f"{text}, expected at most the padded {padded}")


@dataclass(frozen=True, kw_only=True)
class PooledSizes(Rule):
    """OutputTensor is {N, C, (padded - span) // stride + 1 ...}."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        windows = rules.read_windows(call, call.option("WindowSize"))
        if not windows.fit:
            return
        images = call.tensor("InputTensor").sizes[:2]
        wanted, found = (*images, *windows.counts), call.tensor("OutputTensor").sizes
        if found != wanted:
            text = f"has Sizes {braces(found)}, expected {braces(wanted)}"
            yield Broken("OutputTensor", f"{text} of this InputTensor and WindowSize")


@dataclass(frozen=True, kw_only=True)
class OneOrPerInputChannel(Rule):
    """`tensor` holds one element or one per channel, on axis 1 if it has all axes."""

    code = "sizes"
    tensor: str

    def _broken(self, call: Call) -> Iterator[Broken]:
        sizes, input = call.tensor(self.tensor).sizes, call.tensor("InputTensor").sizes
        channels, rank = input[1], len(input)
        long = [axis for axis, size in enumerate(sizes) if size != 1]
        placed = not long or (len(long) == 1 and sizes[long[0]] == channels)
        if not placed or (long and len(sizes) == rank and long != [1]):
            each = braces((1, channels, *(1,) * (rank - 2)))
            wanted = each if len(sizes) == rank else f"{channels} elements"
            text = f"has Sizes {braces(sizes)}, expected one element or {wanted}, one per"
            yield Broken(self.tensor, f"{text} channel of InputTensor")


_AVERAGE = page("ns-directml-dml_quantized_linear_average_pooling_operator_desc")
_MAX = tuple(page(f"ns-directml-dml_max_pooling{n}_operator_desc") for n in ("", "1", "2"))
_F32 = (DataType.FLOAT32,)
_OPTIONAL: Kind = "Optional input"
_FLOATS_AND_8 = (*FLOATS, *EIGHT_BITS)
_ALL = (*FLOATS, DataType.INT64, *INTEGERS, DataType.UINT64)
_U32 = (DataType.UINT32,)
_U64_AND_U32 = (DataType.UINT64, DataType.UINT32)


def _window_rules(prefix: str, page: str, dilated: bool) -> tuple[Rule, ...]:
    """The rules of the options that shape the windows, and of the sizes that they give."""
    arrays = ("WindowSize", "Strides", *(["Dilations"] if dilated else ()))
    return (
        rules.SpatialDimensionCount(
            name=f"{prefix}-spatial-dimension-count",
            sentence="DimensionCount, of the spatial axes, is InputTensor's less 2.",
            page=page,
        ),
        *rules.entries_per_axis(prefix, page, *arrays, "StartPadding", "EndPadding"),
        WindowFits(
            name=f"{prefix}-window-fits",
            sentence="The dilated window spans no more than the padded input.",
            page=page,
        ),
        PooledSizes(
            name=f"{prefix}-output-sizes",
            sentence="The output is {BatchCount, ChannelCount, windows ...}, as many windows, "
            "dilated ones where there are dilations, as fit.",
            page=page,
        ),
    )


_PARAMETERS = (
    ("input-scale", "InputScaleTensor"),
    ("input-zero-point", "InputZeroPointTensor"),
    ("output-scale", "OutputScaleTensor"),
    ("output-zero-point", "OutputZeroPointTensor"),
)
_AVERAGE_RULES = (
    same_dimension_count("avgpool-same-dimension-count", _AVERAGE, "InputTensor", "OutputTensor"),
    *(
        same_data_type(f"avgpool-{name}-zero-point-data-type", _AVERAGE, tensor, other)
        for name, tensor, other in (
            ("input", "InputZeroPointTensor", "InputTensor"),
            ("output", "OutputZeroPointTensor", "OutputTensor"),
        )
    ),
    *_window_rules("avgpool", _AVERAGE, True),
    *(
        OneOrPerInputChannel(
            name=f"avgpool-{name}-channels",
            sentence=f"{tensor} is {{1, 1, 1, 1}}, or {{1, ChannelCount, 1, 1}}; with fewer axes, "
            "where the page does not say which are left out, the channels may be on any.",
            page=_AVERAGE,
            tensor=tensor,
        )
        for name, tensor in _PARAMETERS
    ),
)
_AVERAGE_ROWS = (
    Row("InputTensor", "Input", (4, 5), EIGHT_BITS),
    Row("InputScaleTensor", "Input", (1, 5), _F32),
    Row("InputZeroPointTensor", _OPTIONAL, (1, 5), EIGHT_BITS),
    Row("OutputScaleTensor", "Input", (1, 5), _F32),
    Row("OutputZeroPointTensor", _OPTIONAL, (1, 5), EIGHT_BITS),
    Row("OutputTensor", "Output", (4, 5), EIGHT_BITS),
)


def _max_rules(version: int) -> tuple[Rule, ...]:
    prefix, page = ("maxpool0", "maxpool1", "maxpool")[version], _MAX[version]
    tensors = ("InputTensor", "OutputTensor", "OutputIndicesTensor")
    indices = rules.SameSizes(
        name=f"{prefix}-indices-sizes",
        sentence="OutputIndicesTensor has the Sizes of OutputTensor.",
        page=page,
        tensors=tensors[1:],
    )
    return (
        same_dimension_count(
            f"{prefix}-same-dimension-count", page, *tensors[: 3 if version else 2]
        ),
        same_data_type(f"{prefix}-output-data-type", page, "OutputTensor", "InputTensor"),
        *_window_rules(prefix, page, version == 2),
        *((indices,) if version else ()),
    )


def _max_rows(
    data_types: tuple[DataType, ...], indices: tuple[DataType, ...] = ()
) -> tuple[Row, ...]:
    optional = (Row("OutputIndicesTensor", "Optional output", (4, 5), indices),) if indices else ()
    return (
        Row("InputTensor", "Input", (4, 5), data_types),
        Row("OutputTensor", "Output", (4, 5), data_types),
        *optional,
    )


def _max_tables(version: int, first: FeatureLevel) -> tuple[Table, ...]:
    narrow, wide = (_U32, _U64_AND_U32) if version else ((), ())
    return tuple(
        Table(level, _max_rows(data_types, indices), _max_rules(version))
        for level, data_types, indices in (
            (first, FLOATS, narrow),
            (FeatureLevel.LEVEL_3_0, _FLOATS_AND_8, narrow),
            (FeatureLevel.LEVEL_5_0, _ALL, wide),
        )
    )


def _call_average(desc: QuantizedLinearAveragePoolingOperatorDesc, tensors: Tensors) -> Tensors:
    output = quantized_linear_average_pooling(
        tensors["input_tensor"],
        input_scale=flat(tensors, "input_scale_tensor"),
        output_scale=flat(tensors, "output_scale_tensor"),
        input_zero_point=flat(tensors, "input_zero_point_tensor"),
        output_zero_point=flat(tensors, "output_zero_point_tensor"),
        output_dtype=desc.output_tensor.dtype,
        include_padding=desc.include_padding,
        **_window_options(desc),
    )
    return {"output_tensor": output}


def _call_max(desc: Any, tensors: Tensors) -> Tensors:
    return {"output_tensor": max_pooling(tensors["input_tensor"], **_window_options(desc))}


def _why_not_max(desc: Any) -> str | None:
    """Names what max_pooling does not compute."""
    data_type = desc.input_tensor.data_type
    if data_type not in EIGHT_BITS:
        return f"InputTensor has DataType {data_type}, and only INT8 and UINT8 are supported"
    if getattr(desc, "output_indices_tensor", None) is not None:
        return "OutputIndicesTensor is not supported"
    return None


def _window_options(desc: Any) -> dict[str, Any]:
    return {
        "window_size": desc.window_size,
        "strides": desc.strides,
        "start_padding": desc.start_padding,
        "end_padding": desc.end_padding,
        "dilations": getattr(desc, "dilations", None),
    }


QUANTIZED_LINEAR_AVERAGE_POOLING = Support(
    QuantizedLinearAveragePoolingOperatorDesc,
    _AVERAGE,
    (Table(FeatureLevel.LEVEL_6_2, _AVERAGE_ROWS, _AVERAGE_RULES),),
    _call_average,
)
MAX_POOLING, MAX_POOLING1, MAX_POOLING2 = (
    Support(desc, _MAX[version], _max_tables(version, first), _call_max, _why_not_max)
    for version, (desc, first) in enumerate(
        (
            (MaxPoolingOperatorDesc, FeatureLevel.LEVEL_1_0),
            (MaxPooling1OperatorDesc, FeatureLevel.LEVEL_2_0),
            (MaxPooling2OperatorDesc, FeatureLevel.LEVEL_2_1),
        )
    )
)
