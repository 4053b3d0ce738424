"""The pages' tables as data: fields, and at each feature level what a tensor may be."""

from collections.abc import Mapping
from typing import NamedTuple


class Row(NamedTuple):
    """One line of a "Tensor support" table."""

    tensor: str
    kind: str
    lowest: int
    highest: int
    data_types: frozenset[str]

    @property
    def is_optional(self) -> bool:
        """Whether the tensor may be absent."""
        return self.kind == "optional"

    @property
    def is_output(self) -> bool:
        """Whether the operator writes the tensor."""
        return self.kind == "output"


Rows = tuple[Row, ...]

LEVELS = (
    *("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1"),
    *("5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"),
)
WINDOW_FIELDS = (
    *("DimensionCount", "Strides", "Dilations", "StartPadding", "EndPadding"),
    "GroupCount",
)

_FLOATS = "FLOAT32 FLOAT16"
_WHOLE = "INT32 INT16 INT8 UINT32 UINT16 UINT8"
_BYTES = "INT8 UINT8"


def _row(tensor: str, kind: str, lowest: int, highest: int, data_types: str) -> Row:
    return Row(tensor, kind, lowest, highest, frozenset(data_types.split()))


def _nonzero(image: tuple[int, int], count: tuple[int, int], rows: tuple[int, int]) -> Rows:
    return (
        _row("InputTensor", "input", *image, f"{_FLOATS} {_WHOLE}"),
        _row("OutputCountTensor", "output", *count, "UINT32"),
        _row("OutputCoordinatesTensor", "output", *rows, "UINT32"),
    )


def _quantized(lowest: int, filter_scale: int, parameter: int) -> Rows:
    """Return the table whose lowest DimensionCounts are these; the highest is always 4."""
    return (
        _row("InputTensor", "input", lowest, 4, _BYTES),
        _row("InputScaleTensor", "input", parameter, 4, "FLOAT32"),
        _row("InputZeroPointTensor", "optional", parameter, 4, _BYTES),
        _row("FilterTensor", "input", lowest, 4, _BYTES),
        _row("FilterScaleTensor", "input", filter_scale, 4, "FLOAT32"),
        _row("FilterZeroPointTensor", "optional", parameter, 4, _BYTES),
        _row("BiasTensor", "optional", lowest, 4, "INT32"),
        _row("OutputScaleTensor", "input", parameter, 4, "FLOAT32"),
        _row("OutputZeroPointTensor", "optional", parameter, 4, _BYTES),
        _row("OutputTensor", "output", lowest, 4, _BYTES),
    )


def _integer(lowest: int, parameter: int) -> Rows:
    return (
        _row("InputTensor", "input", lowest, 4, _BYTES),
        _row("InputZeroPointTensor", "optional", parameter, 4, _BYTES),
        _row("FilterTensor", "input", lowest, 4, _BYTES),
        _row("FilterZeroPointTensor", "optional", parameter, 4, _BYTES),
        _row("OutputTensor", "output", lowest, 4, "INT32"),
    )


def _element_wise(
    counts: tuple[int, int], source: str, scale: str, zero_point: str, result: str, kind: str
) -> Rows:
    return (
        _row("InputTensor", "input", *counts, source),
        _row("ScaleTensor", "input", *counts, scale),
        _row("ZeroPointTensor", kind, *counts, zero_point),
        _row("OutputTensor", "output", *counts, result),
    )


def _quantize(counts: tuple[int, int], source: str, scale: str, result: str, kind: str) -> Rows:
    return _element_wise(counts, source, scale, result, result, kind)


def _dequantize(counts: tuple[int, int], source: str, scale: str, kind: str) -> Rows:
    return _element_wise(counts, source, scale, source, scale, kind)


TABLES: Mapping[str, Mapping[str, Rows]] = {
    "nonzero_coordinates": {
        "3_0": _nonzero((4, 5), (4, 5), (4, 5)),
        "4_0": _nonzero((1, 8), (1, 8), (2, 8)),
    },
    "quantized_linear_convolution": {
        "2_1": _quantized(4, 4, 4),
        "4_0": _quantized(3, 3, 1),
        "5_2": _quantized(3, 1, 1),
    },
    "convolution_integer": {
        "2_1": _integer(4, 4),
        "4_0": _integer(3, 1),
    },
    "element_wise_quantize_linear": {
        "1_0": _quantize((4, 4), "FLOAT32", "FLOAT32", "UINT8", "input"),
        "2_1": _quantize((4, 4), "FLOAT32 INT32", "FLOAT32", _BYTES, "input"),
        "3_0": _quantize((1, 8), "FLOAT32 INT32", "FLOAT32", _BYTES, "input"),
        "6_0": _quantize((1, 8), f"{_FLOATS} INT32", _FLOATS, _BYTES, "input"),
        "6_2": _quantize((1, 8), f"{_FLOATS} INT32", _FLOATS, _BYTES, "optional"),
    },
    "element_wise_dequantize_linear": {
        "1_0": _dequantize((4, 4), "UINT8", "FLOAT32", "input"),
        "2_1": _dequantize((4, 4), _WHOLE, "FLOAT32", "input"),
        "3_0": _dequantize((1, 8), _WHOLE, "FLOAT32", "input"),
        "6_0": _dequantize((1, 8), _WHOLE, _FLOATS, "input"),
        "6_2": _dequantize((1, 8), _WHOLE, _FLOATS, "optional"),
    },
}


def introduced(operator: str) -> str:
    """Return the level that brought the operator."""
    return next(iter(TABLES[operator]))


def table_level(operator: str, feature_level: str) -> str:
    """Return the level whose table holds at this one, which is not before the first."""
    held = LEVELS[: LEVELS.index(feature_level) + 1]
    return [level for level in TABLES[operator] if level in held][-1]


def rows(operator: str, feature_level: str) -> Rows:
    """Return the table that holds at a level."""
    return TABLES[operator][table_level(operator, feature_level)]


def tensors(operator: str) -> tuple[str, ...]:
    """Return the operator's tensors in the order of the desc."""
    return tuple(row.tensor for row in TABLES[operator][introduced(operator)])


def fields(operator: str) -> tuple[str, ...]:
    """Return all fields of the desc, in order."""
    return tensors(operator) + (WINDOW_FIELDS if "convolution" in operator else ())
