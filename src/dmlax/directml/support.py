"""DirectML's support tables and constraints, as data: what each feature level allows.

The rows are those of the pages; validation, the pages of these docs and the suite's coverage read
them from here.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from dmlax.directml import rules
from dmlax.directml.descs import (
    ConvolutionIntegerOperatorDesc,
    ElementWiseDequantizeLinearOperatorDesc,
    ElementWiseQuantizeLinearOperatorDesc,
    NonzeroCoordinatesOperatorDesc,
    OperatorDesc,
    QuantizedLinearConvolutionOperatorDesc,
)
from dmlax.directml.enums import DataType, FeatureLevel
from dmlax.directml.rules import Rule

Kind = Literal["Input", "Optional input", "Output"]
_PAGES = "https://learn.microsoft.com/windows/win32/api/directml/"


class Row(NamedTuple):
    """One row of a page's table.

    Attributes:
      tensor: DirectML's name.
      kind: whether it is read or written, and whether it may be absent.
      dimension_counts: the lowest and the highest.
      data_types: those that are supported.
      dimensions: the pattern that the page prints, brackets around what may be left out; None
        where it prints none.
    """

    tensor: str
    kind: Kind
    dimension_counts: tuple[int, int]
    data_types: tuple[DataType, ...]
    dimensions: str | None = None


class Table(NamedTuple):
    """What holds from one feature level on, until the next table of the operator."""

    feature_level: FeatureLevel
    rows: tuple[Row, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Support:
    """One operator: its page, and its tables by ascending feature level."""

    desc: type[OperatorDesc]
    page: str
    tables: tuple[Table, ...]

    @property
    def introduced(self) -> FeatureLevel:
        """The first feature level that has the operator."""
        return self.tables[0].feature_level

    def at(self, feature_level: FeatureLevel) -> Table:
        """The table that holds at a feature level."""
        return [table for table in self.tables if table.feature_level <= feature_level][-1]


def page(name: str) -> str:
    """The address of a page of DirectML's reference."""
    return f"{_PAGES}{name}"


# --- abbreviations of this file ---------------------------------------------------------

_I8U8 = (DataType.INT8, DataType.UINT8)
_INTEGERS = (
    *(DataType.INT32, DataType.INT16, DataType.INT8),
    *(DataType.UINT32, DataType.UINT16, DataType.UINT8),
)
_F32 = (DataType.FLOAT32,)
_FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_I32 = (DataType.INT32,)
_U32 = (DataType.UINT32,)
_U8 = (DataType.UINT8,)
_OPTIONAL: Kind = "Optional input"

# --- nonzero coordinates ----------------------------------------------------------------

_NONZERO = page("ns-directml-dml_nonzero_coordinates_operator_desc")
_ANY = (*_FLOATS, *_INTEGERS)
_NONZERO_RULES = (
    rules.OneElement(
        name="nonzero-count-scalar",
        sentence="The count is a scalar: all its sizes are 1.",
        page=_NONZERO,
        tensor="OutputCountTensor",
    ),
    rules.LeadingOnes(
        name="nonzero-coordinates-leading",
        sentence="The coordinates are a matrix: {1, ..., 1, M, N}.",
        page=_NONZERO,
    ),
    rules.RowPerElement(
        name="nonzero-coordinates-rows",
        sentence="M is the number of elements of the input, the worst case.",
        page=_NONZERO,
    ),
    rules.ColumnPerAxis(
        name="nonzero-coordinates-columns",
        sentence="N is at least the input's effective rank, which leaves leading sizes of 1 out, "
        "and at most its DimensionCount; it is at least 1, since no size may be 0.",
        page=_NONZERO,
    ),
)
_NONZERO_SAME = rules.SameDimensionCount(
    name="nonzero-same-dimension-count",
    sentence="Input, count and coordinates have the same DimensionCount (until 4.0).",
    page=_NONZERO,
    tensors=("InputTensor", "OutputCountTensor", "OutputCoordinatesTensor"),
)

NONZERO_COORDINATES = Support(
    NonzeroCoordinatesOperatorDesc,
    _NONZERO,
    (
        Table(
            FeatureLevel.LEVEL_3_0,
            (
                Row("InputTensor", "Input", (4, 5), _ANY, "{ [D0], D1, D2, D3, D4 }"),
                Row("OutputCountTensor", "Output", (4, 5), _U32, "{ [1], 1, 1, 1, 1 }"),
                Row("OutputCoordinatesTensor", "Output", (4, 5), _U32, "{ [1], 1, 1, M, N }"),
            ),
            (_NONZERO_SAME, *_NONZERO_RULES),
        ),
        Table(
            FeatureLevel.LEVEL_4_0,
            (
                Row(
                    *("InputTensor", "Input", (1, 8), _ANY),
                    "{ [D0], [D1], [D2], [D3], [D4], [D5], [D6], D7 }",
                ),
                Row(
                    *("OutputCountTensor", "Output", (1, 8), _U32),
                    "{ [1], [1], [1], [1], [1], [1], [1], 1 }",
                ),
                Row(
                    *("OutputCoordinatesTensor", "Output", (2, 8), _U32),
                    "{ [1], [1], [1], [1], [1], [1], M, N }",
                ),
            ),
            _NONZERO_RULES,
        ),
    ),
)

# --- convolutions -----------------------------------------------------------------------

_QUANTIZED = page("ns-directml-dml_quantized_linear_convolution_operator_desc")
_INTEGER = page("ns-directml-dml_convolution_integer_operator_desc")


def _same_dimension_count(name: str, page: str, *tensors: str) -> Rule:
    return rules.SameDimensionCount(
        name=name,
        sentence=f"{', '.join(tensors[:-1])} and {tensors[-1]} have the same DimensionCount.",
        page=page,
        tensors=tensors,
    )


def _windows(prefix: str, page: str) -> tuple[Rule, ...]:
    """What shapes the windows, of both convolutions."""
    return (
        rules.SpatialDimensionCount(
            name=f"{prefix}-spatial-dimension-count",
            sentence="DimensionCount, of the spatial axes, is 2; here also 1, for tensors of "
            "three axes, which the tables support from 4.0 on.",
            page=page,
        ),
        *(
            rules.EntryPerAxis(
                name=f"{prefix}-{name}",
                sentence=f"{array} has an entry of at least {least} for each spatial axis.",
                page=page,
                array=array,
                least=least,
            )
            for name, array, least in (
                ("strides", "Strides", 1),
                ("dilations", "Dilations", 1),
                ("start-padding", "StartPadding", 0),
                ("end-padding", "EndPadding", 0),
            )
        ),
        rules.AtLeastOneGroup(
            name=f"{prefix}-group-count",
            sentence="The convolution is divided into at least one group.",
            page=page,
        ),
    )


def _sizes(prefix: str, page: str) -> tuple[Rule, ...]:
    """How input, filter and output fit each other, of both convolutions."""
    return (
        rules.ChannelsInGroups(
            name=f"{prefix}-channels",
            sentence="InputChannelCount is FilterChannelCount * GroupCount.",
            page=page,
        ),
        rules.GroupsDivideFilters(
            name=f"{prefix}-groups-divide",
            sentence="GroupCount divides FilterBatchCount.",
            page=page,
        ),
        rules.KernelFits(
            name=f"{prefix}-kernel-fits",
            sentence="The dilated filter spans no more than the padded input.",
            page=page,
        ),
        rules.OutputSizes(
            name=f"{prefix}-output-sizes",
            sentence="The output is {InputBatchCount, FilterBatchCount, windows ...}, as many "
            "windows as fit.",
            page=page,
        ),
    )


def _same_data_type(name: str, page: str, tensor: str, other: str) -> Rule:
    return rules.SameDataType(
        name=name,
        sentence=f"{tensor} has the DataType of {other}.",
        page=page,
        tensor=tensor,
        other=other,
    )


def _one(name: str, page: str, tensor: str) -> Rule:
    return rules.OneElement(
        name=name, sentence=f"{tensor} is {{1, 1, 1, 1}}.", page=page, tensor=tensor
    )


def _one_or_per_channel(name: str, page: str, tensor: str) -> Rule:
    return rules.OneOrPerChannel(
        name=name,
        sentence=f"{tensor} is {{1, 1, 1, 1}}, or {{1, OutputChannelCount, 1, 1}}; with fewer "
        "axes, where the page does not say which are left out, the channels may be on any.",
        page=page,
        tensor=tensor,
    )


_QUANTIZED_RULES = (
    _same_dimension_count(
        *("qconv-same-dimension-count", _QUANTIZED),
        *("InputTensor", "FilterTensor", "BiasTensor", "OutputTensor"),
    ),
    *(
        _same_data_type(f"qconv-{name}-zero-point-data-type", _QUANTIZED, tensor, other)
        for name, tensor, other in (
            ("input", "InputZeroPointTensor", "InputTensor"),
            ("filter", "FilterZeroPointTensor", "FilterTensor"),
            ("output", "OutputZeroPointTensor", "OutputTensor"),
        )
    ),
    *_windows("qconv", _QUANTIZED),
    *_sizes("qconv", _QUANTIZED),
    _one("qconv-input-zero-point-one", _QUANTIZED, "InputZeroPointTensor"),
    _one("qconv-input-scale-one", _QUANTIZED, "InputScaleTensor"),
    _one("qconv-output-scale-one", _QUANTIZED, "OutputScaleTensor"),
    _one("qconv-output-zero-point-one", _QUANTIZED, "OutputZeroPointTensor"),
    _one_or_per_channel("qconv-filter-scale-channels", _QUANTIZED, "FilterScaleTensor"),
    _one_or_per_channel("qconv-filter-zero-point-channels", _QUANTIZED, "FilterZeroPointTensor"),
    rules.BiasPerChannel(
        name="qconv-bias-channels",
        sentence="BiasTensor is {1, OutputChannelCount, 1, 1}.",
        page=_QUANTIZED,
    ),
)
_INTEGER_RULES = (
    _same_dimension_count(
        *("intconv-same-dimension-count", _INTEGER),
        *("InputTensor", "FilterTensor", "OutputTensor"),
    ),
    _same_dimension_count(
        *("intconv-zero-points-dimension-count", _INTEGER),
        *("InputZeroPointTensor", "FilterZeroPointTensor"),
    ),
    *(
        _same_data_type(f"intconv-{name}-zero-point-data-type", _INTEGER, tensor, other)
        for name, tensor, other in (
            ("input", "InputZeroPointTensor", "InputTensor"),
            ("filter", "FilterZeroPointTensor", "FilterTensor"),
        )
    ),
    *_windows("intconv", _INTEGER),
    *_sizes("intconv", _INTEGER),
    _one("intconv-input-zero-point-one", _INTEGER, "InputZeroPointTensor"),
    _one_or_per_channel("intconv-filter-zero-point-channels", _INTEGER, "FilterZeroPointTensor"),
)


def _quantized_rows(
    tensors: tuple[int, int], parameters: tuple[int, int], filter_scale: tuple[int, int]
) -> tuple[Row, ...]:
    return (
        Row("InputTensor", "Input", tensors, _I8U8),
        Row("InputScaleTensor", "Input", parameters, _F32),
        Row("InputZeroPointTensor", _OPTIONAL, parameters, _I8U8),
        Row("FilterTensor", "Input", tensors, _I8U8),
        Row("FilterScaleTensor", "Input", filter_scale, _F32),
        Row("FilterZeroPointTensor", _OPTIONAL, parameters, _I8U8),
        Row("BiasTensor", _OPTIONAL, tensors, _I32),
        Row("OutputScaleTensor", "Input", parameters, _F32),
        Row("OutputZeroPointTensor", _OPTIONAL, parameters, _I8U8),
        Row("OutputTensor", "Output", tensors, _I8U8),
    )


def _integer_rows(
    tensors: tuple[int, int], parameters: tuple[int, int], dimensions: tuple[str, ...]
) -> tuple[Row, ...]:
    input, input_zero_point, filter, filter_zero_point, output = dimensions
    return (
        Row("InputTensor", "Input", tensors, _I8U8, input),
        Row("InputZeroPointTensor", _OPTIONAL, parameters, _I8U8, input_zero_point),
        Row("FilterTensor", "Input", tensors, _I8U8, filter),
        Row("FilterZeroPointTensor", _OPTIONAL, parameters, _I8U8, filter_zero_point),
        Row("OutputTensor", "Output", tensors, _I32, output),
    )


QUANTIZED_LINEAR_CONVOLUTION = Support(
    QuantizedLinearConvolutionOperatorDesc,
    _QUANTIZED,
    (
        Table(FeatureLevel.LEVEL_2_1, _quantized_rows((4, 4), (4, 4), (4, 4)), _QUANTIZED_RULES),
        Table(FeatureLevel.LEVEL_4_0, _quantized_rows((3, 4), (1, 4), (3, 4)), _QUANTIZED_RULES),
        Table(FeatureLevel.LEVEL_5_2, _quantized_rows((3, 4), (1, 4), (1, 4)), _QUANTIZED_RULES),
    ),
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
)

# --- element-wise -----------------------------------------------------------------------

_QUANTIZE = page("ns-directml-dml_element_wise_quantize_linear_operator_desc")
_DEQUANTIZE = page("ns-directml-dml_element_wise_dequantize_linear_operator_desc")
_ELEMENTS = ("InputTensor", "ScaleTensor", "ZeroPointTensor", "OutputTensor")


def _same(prefix: str, page: str) -> tuple[Rule, ...]:
    """All four tensors have one shape."""
    return (
        _same_dimension_count(f"{prefix}-same-dimension-count", page, *_ELEMENTS),
        rules.SameSizes(
            name=f"{prefix}-same-sizes",
            sentence="All tensors have the same Sizes.",
            page=page,
            tensors=_ELEMENTS,
        ),
    )


_QUANTIZE_RULES = (
    *_same("quantize", _QUANTIZE),
    rules.ScaleDataType(
        name="quantize-scale-data-type",
        sentence="ScaleTensor is FLOAT32 if InputTensor is INT32, else it has the input's "
        "DataType.",
        page=_QUANTIZE,
    ),
    _same_data_type("quantize-zero-point-data-type", _QUANTIZE, "ZeroPointTensor", "OutputTensor"),
)
_DEQUANTIZE_RULES = (
    *_same("dequantize", _DEQUANTIZE),
    _same_data_type(
        "dequantize-zero-point-data-type", _DEQUANTIZE, "ZeroPointTensor", "InputTensor"
    ),
    _same_data_type("dequantize-output-data-type", _DEQUANTIZE, "OutputTensor", "ScaleTensor"),
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


_F32_I32 = (DataType.FLOAT32, DataType.INT32)
_FLOATS_I32 = (*_FLOATS, DataType.INT32)

ELEMENT_WISE_QUANTIZE_LINEAR = Support(
    ElementWiseQuantizeLinearOperatorDesc,
    _QUANTIZE,
    tuple(
        Table(level, rows, _QUANTIZE_RULES)
        for level, rows in (
            (FeatureLevel.LEVEL_1_0, _element_rows((4, 4), _F32, _F32, _U8, _U8)),
            (FeatureLevel.LEVEL_2_1, _element_rows((4, 4), _F32_I32, _F32, _I8U8, _I8U8)),
            (FeatureLevel.LEVEL_3_0, _element_rows((1, 8), _F32_I32, _F32, _I8U8, _I8U8)),
            (FeatureLevel.LEVEL_6_0, _element_rows((1, 8), _FLOATS_I32, _FLOATS, _I8U8, _I8U8)),
            (
                FeatureLevel.LEVEL_6_2,
                _element_rows((1, 8), _FLOATS_I32, _FLOATS, _I8U8, _I8U8, _OPTIONAL),
            ),
        )
    ),
)
ELEMENT_WISE_DEQUANTIZE_LINEAR = Support(
    ElementWiseDequantizeLinearOperatorDesc,
    _DEQUANTIZE,
    tuple(
        Table(level, rows, _DEQUANTIZE_RULES)
        for level, rows in (
            (FeatureLevel.LEVEL_1_0, _element_rows((4, 4), _U8, _F32, _U8, _F32)),
            (FeatureLevel.LEVEL_2_1, _element_rows((4, 4), _INTEGERS, _F32, _INTEGERS, _F32)),
            (FeatureLevel.LEVEL_3_0, _element_rows((1, 8), _INTEGERS, _F32, _INTEGERS, _F32)),
            (FeatureLevel.LEVEL_6_0, _element_rows((1, 8), _INTEGERS, _FLOATS, _INTEGERS, _FLOATS)),
            (
                FeatureLevel.LEVEL_6_2,
                _element_rows((1, 8), _INTEGERS, _FLOATS, _INTEGERS, _FLOATS, _OPTIONAL),
            ),
        )
    ),
)

SUPPORT = {
    support.desc: support
    for support in (
        NONZERO_COORDINATES,
        QUANTIZED_LINEAR_CONVOLUTION,
        CONVOLUTION_INTEGER,
        ELEMENT_WISE_QUANTIZE_LINEAR,
        ELEMENT_WISE_DEQUANTIZE_LINEAR,
    )
}
