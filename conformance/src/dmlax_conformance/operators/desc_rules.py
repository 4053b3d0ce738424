"""The rules of an operator desc at a feature level, read off the pages one by one.

Every rule that can be evaluated is, in the order of the pages' parts: the level, each tensor, the
operator. One mistake may so break several rules.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from ..format import layout
from ..format.layout import ELEMENT_BITS
from . import tables
from .nonzero_coordinates.meaning import effective_rank
from .tables import LEVELS, Row

Desc = Mapping[str, Any]
UINT_MAX = 2**32 - 1


class Violation(NamedTuple):
    """A rule that is broken, its code, and the field to blame."""

    rule: str
    code: str
    field: str


Found = Iterator[Violation]


def violations(operator: str, desc: Desc, feature_level: str) -> list[Violation]:
    """Return every rule that the desc breaks at the level."""
    if LEVELS.index(feature_level) < LEVELS.index(tables.introduced(operator)):
        return [Violation("operator-feature-level", "feature_level", "FeatureLevel")]
    rows = tables.rows(operator, feature_level)
    found = [each for row in rows for each in _tensor(desc[row.tensor], row)]
    return [*found, *_OPERATORS[operator](desc, feature_level)]


def _tensor(tensor: Desc | None, row: Row) -> Found:
    """Check one tensor against its row."""
    if tensor is None:
        if not row.is_optional:
            yield Violation("tensor-required", "missing_tensor", row.tensor)
        return
    for rule, code, is_kept in _tensor_rules(tensor, row):
        if not is_kept:
            yield Violation(f"tensor-{rule}", code, row.tensor)


def _tensor_rules(tensor: Desc, row: Row) -> Iterator[tuple[str, str, bool]]:
    """Yield each rule of a tensor by name and code, and whether it is kept."""
    sizes, strides, count = tensor["Sizes"], tensor["Strides"], tensor["DimensionCount"]
    yield "data-type", "data_type", tensor["DataType"] in row.data_types
    yield "dimension-count", "dimension_count", row.lowest <= count <= row.highest
    yield "sizes-count", "dimension_count", len(sizes) == count
    yield "strides-count", "strides", strides is None or len(strides) == count
    yield "sizes-positive", "sizes", all(size >= 1 for size in sizes)
    yield "element-limit", "sizes", prod(sizes) <= UINT_MAX
    if tensor["DataType"] in ELEMENT_BITS:
        yield "byte-size", "byte_size", _has_room(tensor)
        yield "byte-size-limit", "byte_size", layout.buffer_length(tensor) <= UINT_MAX
    yield "alignment", "alignment", _is_aligned(tensor)
    yield "flags", "flags", tensor["Flags"] == "NONE" or not row.is_output
    yield "output-overlap", "strides", not row.is_output or not _overlaps(tensor)


def _has_places(tensor: Desc) -> bool:
    """Say whether sizes and strides give every element an offset."""
    return (
        len(layout.strides_of(tensor)) == len(tensor["Sizes"]) and min(tensor["Sizes"] or [1]) > 0
    )


def _has_room(tensor: Desc) -> bool:
    if not _has_places(tensor):
        return True
    sizes, strides = tensor["Sizes"], layout.strides_of(tensor)
    needed = layout.minimum_bytes(tensor["DataType"], sizes, strides)
    return bool(tensor["TotalTensorSizeInBytes"] >= needed)


def _is_aligned(tensor: Desc) -> bool:
    alignment: int = tensor["GuaranteedBaseOffsetAlignment"]
    is_power = alignment > 0 and alignment & (alignment - 1) == 0
    return alignment == 0 or (is_power and alignment * 8 >= ELEMENT_BITS.get(tensor["DataType"], 0))


def _overlaps(tensor: Desc) -> bool:
    if tensor["Strides"] is None or not _has_places(tensor):
        return False
    return layout.overlaps(tensor["Sizes"], tensor["Strides"])


# -- rules that compare tensors ----------------------------------------------------------------


def _same_counts(prefix: str, desc: Desc, names: str) -> Found:
    """Yield a violation for each tensor whose DimensionCount is not InputTensor's."""
    for name in _differing(desc, names, "DimensionCount"):
        yield Violation(f"{prefix}-same-dimension-count", "dimension_count", name)


def _differing(desc: Desc, names: str, key: str) -> list[str]:
    """Return the tensors, of those there, that differ from InputTensor in one field."""
    first = desc["InputTensor"]
    there = [name for name in names.split() if desc[name] is not None and first is not None]
    return [name for name in there if desc[name][key] != first[key]]


def _data_type_of(rule: str, desc: Desc, name: str, other: str) -> Found:
    """Check that a tensor has the data type of another, if both are there."""
    one, two = desc[name], desc[other]
    if one is not None and two is not None and one["DataType"] != two["DataType"]:
        yield Violation(rule, "data_type", name)


def _all_ones(rule: str, desc: Desc, name: str) -> Found:
    if desc[name] is not None and any(size != 1 for size in desc[name]["Sizes"]):
        yield Violation(rule, "sizes", name)


# -- nonzero -----------------------------------------------------------------------------------


def _nonzero(desc: Desc, feature_level: str) -> Found:
    if feature_level in ("3_0", "3_1"):
        yield from _same_counts("nonzero", desc, "OutputCountTensor OutputCoordinatesTensor")
    yield from _all_ones("nonzero-count-scalar", desc, "OutputCountTensor")
    if desc["OutputCoordinatesTensor"] is not None:
        yield from _coordinates(desc["OutputCoordinatesTensor"]["Sizes"], desc["InputTensor"])


def _coordinates(sizes: Sequence[int], image: Desc | None) -> Found:
    """Check {1, ..., 1, M, N} as far as there are M, N and an input."""
    name = "OutputCoordinatesTensor"
    if any(size != 1 for size in sizes[:-2]):
        yield Violation("nonzero-coordinates-leading", "sizes", name)
    if image is None:
        return
    if len(sizes) >= 2 and sizes[-2] != prod(image["Sizes"]):
        yield Violation("nonzero-coordinates-rows", "sizes", name)
    lowest = max(effective_rank(image["Sizes"]), 1)
    if sizes and not lowest <= sizes[-1] <= image["DimensionCount"]:
        yield Violation("nonzero-coordinates-columns", "sizes", name)


# -- convolutions ------------------------------------------------------------------------------


def _quantized(desc: Desc, feature_level: str) -> Found:
    yield from _same_counts("qconv", desc, "FilterTensor BiasTensor OutputTensor")
    yield from _zero_points("qconv", desc)
    rule = "qconv-output-zero-point-data-type"
    yield from _data_type_of(rule, desc, "OutputZeroPointTensor", "OutputTensor")
    yield from _windows("qconv", desc)
    yield from _all_ones("qconv-input-zero-point-one", desc, "InputZeroPointTensor")
    yield from _all_ones("qconv-input-scale-one", desc, "InputScaleTensor")
    yield from _all_ones("qconv-output-scale-one", desc, "OutputScaleTensor")
    yield from _all_ones("qconv-output-zero-point-one", desc, "OutputZeroPointTensor")
    yield from _per_channel("qconv-filter-scale-channels", desc, "FilterScaleTensor")
    yield from _per_channel("qconv-filter-zero-point-channels", desc, "FilterZeroPointTensor")
    yield from _bias(desc)


def _integer(desc: Desc, feature_level: str) -> Found:
    yield from _same_counts("intconv", desc, "FilterTensor OutputTensor")
    one, two = desc["InputZeroPointTensor"], desc["FilterZeroPointTensor"]
    if one is not None and two is not None and one["DimensionCount"] != two["DimensionCount"]:
        rule = "intconv-zero-points-dimension-count"
        yield Violation(rule, "dimension_count", "FilterZeroPointTensor")
    yield from _zero_points("intconv", desc)
    yield from _windows("intconv", desc)
    yield from _all_ones("intconv-input-zero-point-one", desc, "InputZeroPointTensor")
    yield from _per_channel("intconv-filter-zero-point-channels", desc, "FilterZeroPointTensor")


def _zero_points(p: str, desc: Desc) -> Found:
    rule = f"{p}-input-zero-point-data-type"
    yield from _data_type_of(rule, desc, "InputZeroPointTensor", "InputTensor")
    rule = f"{p}-filter-zero-point-data-type"
    yield from _data_type_of(rule, desc, "FilterZeroPointTensor", "FilterTensor")


_OPTIONS = {
    "Strides": ("strides", 1),
    "Dilations": ("dilations", 1),
    "StartPadding": ("start-padding", 0),
    "EndPadding": ("end-padding", 0),
}


def _windows(p: str, desc: Desc) -> Found:
    """Check the options, then the sizes that follow from them."""
    image = desc["InputTensor"]
    if image is not None and desc["DimensionCount"] != image["DimensionCount"] - 2:
        yield Violation(f"{p}-spatial-dimension-count", "dimension_count", "DimensionCount")
    for field, (rule, lowest) in _OPTIONS.items():
        if not _is_option(desc[field], desc["DimensionCount"], lowest):
            yield Violation(f"{p}-{rule}", "option", field)
    if not 1 <= desc["GroupCount"] <= UINT_MAX:
        yield Violation(f"{p}-group-count", "option", "GroupCount")
    if desc["FilterTensor"] is not None:
        kernel = desc["FilterTensor"]["Sizes"]
        yield from _channels(p, desc["GroupCount"], image["Sizes"] if image else [], kernel)
        if image is not None:
            yield from _window_sizes(p, desc, image["Sizes"], kernel)


def _is_option(entries: Sequence[int], count: int, lowest: int) -> bool:
    return len(entries) == count and all(lowest <= entry <= UINT_MAX for entry in entries)


def _channels(p: str, groups: int, image: Sequence[int], kernel: Sequence[int]) -> Found:
    if len(image) > 1 and len(kernel) > 1 and image[1] != kernel[1] * groups:
        yield Violation(f"{p}-channels", "sizes", "FilterTensor")
    if len(kernel) > 0 and groups >= 1 and kernel[0] % groups:
        yield Violation(f"{p}-groups-divide", "sizes", "GroupCount")


def _window_sizes(p: str, desc: Desc, image: Sequence[int], kernel: Sequence[int]) -> Found:
    """Check kernel and output, as far as the options are sound."""
    axes = len(image) - 2
    sound = [f for f, (_, low) in _OPTIONS.items() if _is_option(desc[f], axes, low)]
    if axes < 1 or len(kernel) != len(image) or not {*_OPTIONS} - {"Strides"} <= {*sound}:
        return
    room = _room(desc, image, kernel)
    if any(left < 0 for left in room):
        yield Violation(f"{p}-kernel-fits", "sizes", "FilterTensor")
    elif "Strides" in sound and desc["OutputTensor"] is not None:
        spatial = [left // step + 1 for left, step in zip(room, desc["Strides"], strict=True)]
        if list(desc["OutputTensor"]["Sizes"]) != [image[0], kernel[0], *spatial]:
            yield Violation(f"{p}-output-sizes", "sizes", "OutputTensor")


def _room(desc: Desc, image: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """Return, for each spatial axis, how far the kernel can move; negative if it does not fit."""
    pads = zip(desc["StartPadding"], desc["EndPadding"], strict=True)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel[2:], desc["Dilations"], strict=True)]
    rows = zip(image[2:], pads, spans, strict=True)
    return [size + start + end - span for size, (start, end), span in rows]


def _per_channel(rule: str, desc: Desc, name: str) -> Found:
    """Check for one element, or one for each output channel: axis 1 of 4, any axis of fewer."""
    tensor, kernel = desc[name], desc["FilterTensor"]
    if tensor is None or prod(tensor["Sizes"]) == 1:
        return
    sizes = list(tensor["Sizes"])
    if len(sizes) > 3:
        is_kept = kernel is None or sizes == _channel_sizes(kernel, len(sizes))
    else:
        long = [size for size in sizes if size != 1]
        is_kept = kernel is None or long == list(kernel["Sizes"][:1])
    if not is_kept:
        yield Violation(rule, "sizes", name)


def _bias(desc: Desc) -> Found:
    bias, kernel = desc["BiasTensor"], desc["FilterTensor"]
    if bias is None or kernel is None:
        return
    if list(bias["Sizes"]) != _channel_sizes(kernel, len(bias["Sizes"])):
        yield Violation("qconv-bias-channels", "sizes", "BiasTensor")


def _channel_sizes(kernel: Desc, rank: int) -> list[int]:
    """Return {1, K, 1, ...}; a filter without sizes has no K, so nothing equals it."""
    return [1, *(kernel["Sizes"][:1] or [-1]), *[1] * (rank - 2)]


# -- element by element ------------------------------------------------------------------------


def _same_shape(p: str, desc: Desc) -> Found:
    names = "ScaleTensor ZeroPointTensor OutputTensor"
    yield from _same_counts(p, desc, names)
    for name in _differing(desc, names, "Sizes"):
        yield Violation(f"{p}-same-sizes", "sizes", name)


def _quantize(desc: Desc, feature_level: str) -> Found:
    yield from _same_shape("quantize", desc)
    image, scale = desc["InputTensor"], desc["ScaleTensor"]
    if image is not None and scale is not None:
        wanted = "FLOAT32" if image["DataType"] == "INT32" else image["DataType"]
        if scale["DataType"] != wanted:
            yield Violation("quantize-scale-data-type", "data_type", "ScaleTensor")
    rule = "quantize-zero-point-data-type"
    yield from _data_type_of(rule, desc, "ZeroPointTensor", "OutputTensor")


def _dequantize(desc: Desc, feature_level: str) -> Found:
    yield from _same_shape("dequantize", desc)
    rule = "dequantize-zero-point-data-type"
    yield from _data_type_of(rule, desc, "ZeroPointTensor", "InputTensor")
    rule = "dequantize-output-data-type"
    yield from _data_type_of(rule, desc, "OutputTensor", "ScaleTensor")


_OPERATORS: dict[str, Callable[[Desc, str], Found]] = {
    "nonzero_coordinates": _nonzero,
    "quantized_linear_convolution": _quantized,
    "convolution_integer": _integer,
    "element_wise_quantize_linear": _quantize,
    "element_wise_dequantize_linear": _dequantize,
}
