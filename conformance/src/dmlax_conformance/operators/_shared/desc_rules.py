"""Rules that descs of several operators share, read off the pages one by one."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

from ...format import layout
from ...format.layout import ELEMENT_BITS
from .tables import Row, dashed

Desc = Mapping[str, Any]
UINT_MAX = 2**32 - 1


class Violation(NamedTuple):
    """A rule that is broken, its code, and the field to blame."""

    rule: str
    code: str
    field: str


Found = Iterator[Violation]


def check_tensor(tensor: Desc | None, row: Row) -> Found:
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
    bits = ELEMENT_BITS.get(tensor["DataType"], 0)
    alignment = tensor["GuaranteedBaseOffsetAlignment"]
    steps = layout.strides_of(tensor)
    has_offsets = len(steps) == len(sizes) and min(sizes or [1]) > 0
    is_scattered = row.is_output and strides is not None and has_offsets
    yield "data-type", "data_type", tensor["DataType"] in row.data_types
    yield "dimension-count", "dimension_count", row.lowest <= count <= row.highest
    yield "sizes-count", "dimension_count", len(sizes) == count
    yield "strides-count", "strides", strides is None or len(strides) == count
    yield "sizes-positive", "sizes", all(size >= 1 for size in sizes)
    yield "element-limit", "sizes", prod(sizes) <= UINT_MAX
    if bits:
        needed = layout.minimum_bytes(tensor["DataType"], sizes, steps) if has_offsets else 0
        yield "byte-size", "byte_size", tensor["TotalTensorSizeInBytes"] >= needed
        yield "byte-size-limit", "byte_size", layout.buffer_length(tensor) <= UINT_MAX
    is_power = alignment > 0 and alignment & (alignment - 1) == 0
    yield "alignment", "alignment", alignment == 0 or (is_power and alignment * 8 >= bits)
    yield "flags", "flags", tensor["Flags"] == "NONE" or not row.is_output
    yield "output-overlap", "strides", not (is_scattered and layout.overlaps(sizes, strides))


def same_counts(prefix: str, desc: Desc, names: str, first: str = "InputTensor") -> Found:
    """Yield a violation for each tensor whose DimensionCount is not the first one's."""
    for name in differing(desc, names, "DimensionCount", first):
        yield Violation(f"{prefix}-same-dimension-count", "dimension_count", name)


def differing(desc: Desc, names: str, key: str, first: str = "InputTensor") -> list[str]:
    """Return the tensors, of those there, that differ from the first one in one field."""
    one = desc[first]
    there = [name for name in names.split() if desc[name] is not None and one is not None]
    return [name for name in there if desc[name][key] != one[key]]


def same_types(prefix: str, desc: Desc, pairs: Mapping[str, str]) -> Found:
    """Check that tensors have the data types of others, if both are there."""
    for name, other in pairs.items():
        one, two = desc.get(name), desc.get(other)
        if one is not None and two is not None and one["DataType"] != two["DataType"]:
            yield Violation(f"{prefix}-{dashed(name)}-data-type", "data_type", name)


def type_clauses(pairs: Mapping[str, str]) -> dict[str, str]:
    """Return what `same_types` checks, in words."""
    return {f"{dashed(a)}-data-type": f"{a} has the data type of {b}." for a, b in pairs.items()}


def all_ones(rule: str, desc: Desc, name: str) -> Found:
    """Check that a tensor, if it is there, has only sizes of 1."""
    if desc.get(name) is not None and any(size != 1 for size in desc[name]["Sizes"]):
        yield Violation(rule, "sizes", name)
