"""Valid descs of operators, in DirectML's spelling, to use and to break."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from dmlax import directml
from dmlax._operators.registry import OPERATORS

Fields = dict[str, Any]

DESCS = {row.name: row.directml.desc for row in OPERATORS if row.directml}
NAMES = {name: desc.operator for name, desc in DESCS.items()}
LEVELS = [level.name.removeprefix("LEVEL_") for level in directml.FeatureLevel]


def level(name: str) -> directml.FeatureLevel:
    """The feature level that vectors spell "3_0"."""
    return directml.FeatureLevel[f"LEVEL_{name}"]


def levels(first: str, last: str = "6_4") -> list[str]:
    """The feature levels from one to another, both included."""
    return LEVELS[LEVELS.index(first) : LEVELS.index(last) + 1]


def tensor(data_type: str, sizes: Sequence[int], strides: Any = None, **others: Any) -> Fields:
    """DimensionCount and TotalTensorSizeInBytes are left out: they follow from these."""
    return {"DataType": data_type, "Sizes": list(sizes), "Strides": strides, **others}


def made(operator: str, fields: Mapping[str, Any]) -> Any:
    """The record of a desc."""
    return DESCS[operator].from_dict(fields)


def edited(fields: Mapping[str, Any], **edits: Any) -> Fields:
    """Fields with these edits; a dict for a tensor that is there changes some of its fields."""
    return {
        name: {**value, **edits[name]}
        if isinstance(value, dict) and isinstance(edits.get(name), dict)
        else edits.get(name, value)
        for name, value in fields.items()
    }


def packed(sizes: Sequence[int]) -> list[int]:
    """The strides of a row-major tensor without gaps."""
    return [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def permuted(sizes: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of a tensor whose axes lie in memory in this order, the last one adjacent."""
    steps = packed([sizes[axis] for axis in order])
    return [steps[list(order).index(axis)] for axis in range(len(sizes))]


def nonzero(
    sizes: Sequence[int] = (1, 1, 2, 4),
    data_type: str = "FLOAT32",
    *,
    count_rank: int | None = None,
    rank: int | None = None,
    width: int | None = None,
) -> Fields:
    """Fields, by default with outputs of the input's DimensionCount and a column for each axis."""
    leading = [1] * ((rank or len(sizes)) - 2)
    rows = [*leading, prod(sizes), width or len(sizes)]
    return {
        "InputTensor": tensor(data_type, sizes),
        "OutputCountTensor": tensor("UINT32", [1] * (count_rank or len(sizes))),
        "OutputCoordinatesTensor": tensor("UINT32", rows),
    }


def window(rank: int, **options: Any) -> Fields:
    """The fields of a convolution that are no tensors."""
    spatial = rank - 2
    return {
        "DimensionCount": spatial,
        "Strides": [1] * spatial,
        "Dilations": [1] * spatial,
        "StartPadding": [0] * spatial,
        "EndPadding": [0] * spatial,
        "GroupCount": 1,
    } | options


def output_sizes(input: Sequence[int], filter: Sequence[int], options: Fields) -> list[int]:
    """{N, K, windows ...}."""
    names = ("Dilations", "StartPadding", "EndPadding", "Strides")
    rows = zip(input[2:], filter[2:], *(options[name] for name in names), strict=True)
    spatial = [(n + start + end - (k - 1) * d - 1) // s + 1 for n, k, d, start, end, s in rows]
    return [input[0], filter[0], *spatial]


def channels(count: int, rank: int) -> list[int]:
    """{1, K, 1, 1} in fewer axes."""
    return [count] if rank == 1 else [1, count, 1, 1][:rank]


def quantized(
    input: Sequence[int] = (1, 4, 4, 5),
    filter: Sequence[int] = (6, 2, 2, 3),
    *,
    data_types: Sequence[str] = ("UINT8", "INT8", "UINT8"),
    parameter_rank: int | None = None,
    scale_rank: int | None = None,
    per_channel: bool = True,
    optional: bool = True,
    **options: Any,
) -> Fields:
    """Two groups by default, and every optional tensor."""
    rank, (x, w, y) = len(input), data_types
    options = window(rank, GroupCount=input[1] // filter[1]) | options
    parameters, scales = parameter_rank or rank, scale_rank or parameter_rank or rank
    count = filter[0] if per_channel else 1
    one = [1] * parameters
    return {
        "InputTensor": tensor(x, input),
        "InputScaleTensor": tensor("FLOAT32", one),
        "InputZeroPointTensor": tensor(x, one) if optional else None,
        "FilterTensor": tensor(w, filter),
        "FilterScaleTensor": tensor("FLOAT32", channels(count, scales)),
        "FilterZeroPointTensor": tensor(w, channels(count, parameters)) if optional else None,
        "BiasTensor": tensor("INT32", channels(filter[0], rank)) if optional else None,
        "OutputScaleTensor": tensor("FLOAT32", one),
        "OutputZeroPointTensor": tensor(y, one) if optional else None,
        "OutputTensor": tensor(y, output_sizes(input, filter, options)),
        **options,
    }


def integer(
    input: Sequence[int] = (1, 4, 4, 5),
    filter: Sequence[int] = (6, 2, 2, 3),
    *,
    data_types: Sequence[str] = ("UINT8", "INT8"),
    parameter_rank: int | None = None,
    per_channel: bool = True,
    optional: bool = True,
    **options: Any,
) -> Fields:
    """Two groups by default, and both zero points."""
    rank, (x, w) = len(input), data_types
    options = window(rank, GroupCount=input[1] // filter[1]) | options
    parameters, count = parameter_rank or rank, filter[0] if per_channel else 1
    return {
        "InputTensor": tensor(x, input),
        "InputZeroPointTensor": tensor(x, [1] * parameters) if optional else None,
        "FilterTensor": tensor(w, filter),
        "FilterZeroPointTensor": tensor(w, channels(count, parameters)) if optional else None,
        "OutputTensor": tensor("INT32", output_sizes(input, filter, options)),
        **options,
    }


def elementwise(
    sizes: Sequence[int],
    input: str,
    scale: str,
    zero_point: str | None,
    output: str,
) -> Fields:
    """Either of the element-wise operators."""
    return {
        "InputTensor": tensor(input, sizes),
        "ScaleTensor": tensor(scale, sizes),
        "ZeroPointTensor": tensor(zero_point, sizes) if zero_point else None,
        "OutputTensor": tensor(output, sizes),
    }


def quantize(
    sizes: Sequence[int] = (1, 2, 3, 4),
    input: str = "FLOAT32",
    output: str = "UINT8",
    *,
    zero_point: bool = True,
) -> Fields:
    """Quantizing; the scale's data type follows the input's."""
    scale = "FLOAT32" if input == "INT32" else input
    return elementwise(sizes, input, scale, output if zero_point else None, output)


def dequantize(
    sizes: Sequence[int] = (1, 2, 3, 4),
    input: str = "UINT8",
    output: str = "FLOAT32",
    *,
    zero_point: bool = True,
) -> Fields:
    """Dequantizing; the scale has the output's data type."""
    return elementwise(sizes, input, output, input if zero_point else None, output)


def averaged(input: Sequence[int] = (1, 3, 4, 5), window: Sequence[int] = (2, 3)) -> Fields:
    """An average pooling with parameters for each channel."""
    axes = len(window)
    each = [1, input[1], *[1] * axes]
    spatial = [size - length + 1 for size, length in zip(input[2:], window, strict=True)]
    return {
        "InputTensor": tensor("UINT8", input),
        "InputScaleTensor": tensor("FLOAT32", each),
        "InputZeroPointTensor": tensor("UINT8", each),
        "OutputScaleTensor": tensor("FLOAT32", each),
        "OutputZeroPointTensor": tensor("INT8", each),
        "OutputTensor": tensor("INT8", [*input[:2], *spatial]),
        "DimensionCount": axes,
        "Strides": [1] * axes,
        "WindowSize": list(window),
        "StartPadding": [0] * axes,
        "EndPadding": [0] * axes,
        "Dilations": [1] * axes,
        "IncludePadding": False,
    }


VALID: dict[str, tuple[Fields, str]] = {  # fields at the level that introduced each
    "nonzero_coordinates": (nonzero(), "3_0"),
    "quantized_linear_convolution": (quantized(), "2_1"),
    "convolution_integer": (integer(), "2_1"),
    "element_wise_quantize_linear": (quantize(), "1_0"),
    "element_wise_dequantize_linear": (dequantize(), "1_0"),
}
