"""Every line of every tensor support table: just inside, and just outside."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...format.descs import tensor_desc
from ...operators.tables import TABLES, Row, rows
from .desc_builder import Call, DescTopic
from .desc_calls import (
    DEQUANTIZE,
    INTEGER,
    NONZERO,
    QUANTIZE,
    QUANTIZED,
    dequantize,
    integer,
    nonzero,
    quantize,
    quantized,
)

NEIGHBOURS = ("FLOAT16", "INT32", "INT64", "INT8")
FULL, BARE = "full", "bare"
TEXTS = {
    "low": "the lowest dimension counts",
    "high": "the highest dimension counts",
    FULL: "every tensor present",
    BARE: "no optional tensor",
}
Calls = Mapping[str, Call]


def topics() -> Iterator[DescTopic]:
    """Yield one file for each table, or two when some tensors are optional."""
    for operator, tables in TABLES.items():
        for level in tables:
            calls = _calls(operator, level)
            has_bare = f"low-{BARE}" in calls
            for kind in (BARE, FULL) if has_bare else (FULL,):
                end = "-optional" if has_bare and kind == FULL else ""
                topic = DescTopic(operator, f"desc-rows-{level.replace('_', '-')}{end}")
                _fill(topic, level, calls, kind, has_bare)
                yield topic


def _fill(topic: DescTopic, level: str, calls: Calls, kind: str, has_bare: bool) -> None:
    """Add the calls of one kind and the lines that are left from there."""
    for end in ("low", "high"):
        text = f"the twin: the table of {level}, {TEXTS[end]}, {TEXTS[kind]}"
        name, made = _name(level, f"{end}-{kind}"), calls[f"{end}-{kind}"]
        topic.accepted(name, text, made, level, "tensor-dimension-count", "Row")
    for row in rows(topic.operator, level):
        if not has_bare or row.is_optional == (kind == FULL):
            _outside(topic, level, row, calls, kind)


def _name(level: str, rest: str) -> str:
    return f"row-{level.replace('_', '-')}-{rest}"


def _outside(topic: DescTopic, level: str, row: Row, calls: Calls, kind: str) -> None:
    """Leave one line in every direction, from the nearest call that keeps it."""
    low, high = f"low-{kind}", f"high-{kind}"
    wrong = [(row.highest + 1, high)]
    wrong += [(row.lowest - 1, low)] if row.lowest > 1 else []
    for rank, twin in wrong:
        text = f"{row.tensor} has {rank} dimensions, the table has {row.lowest} to {row.highest}"
        old = calls[twin].desc[row.tensor]
        changed = {row.tensor: tensor_desc(old["DataType"], _reshaped(old["Sizes"], rank))}
        _refuse(topic, level, row, f"rank-{rank}", text, twin, "dimension-count", changed)
    _other_type(topic, level, row, calls, high)
    if not row.is_optional:
        text = f"{row.tensor} is absent"
        _refuse(topic, level, row, "absent", text, high, "required", {row.tensor: None})


def _other_type(topic: DescTopic, level: str, row: Row, calls: Calls, twin: str) -> None:
    data_type = next(each for each in NEIGHBOURS if each not in row.data_types)
    changed = {row.tensor: tensor_desc(data_type, calls[twin].desc[row.tensor]["Sizes"])}
    text = f"{row.tensor} is {data_type}"
    _refuse(topic, level, row, data_type.lower(), text, twin, "data-type", changed)


CODES = {
    "dimension-count": "dimension_count",
    "data-type": "data_type",
    "required": "missing_tensor",
}


def _refuse(
    topic: DescTopic,
    level: str,
    row: Row,
    name: str,
    text: str,
    twin: str,
    rule: str,
    changed: Mapping[str, Any],
) -> None:
    """Add a desc outside of one line of the table."""
    tensor = row.tensor.removesuffix("Tensor")
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in tensor)
    whole = _name(level, f"{words.lstrip('-')}-{name}")
    error = (CODES[rule], row.tensor)
    flags = "Invalid Row"
    topic.refused(whole, text, _name(level, twin), f"tensor-{rule}", error, changed, flags=flags)


def _reshaped(sizes: list[int], rank: int) -> list[int]:
    """Return one leading size of 1 more, or one size fewer."""
    if rank > len(sizes):
        return [1] * (rank - len(sizes)) + sizes
    return sizes[1:] if sizes[0] == 1 else sizes[:-1]


def _calls(operator: str, level: str) -> Calls:
    """Return the calls with the lowest and with the highest DimensionCounts of a table."""
    by_name = {row.tensor: row for row in rows(operator, level)}
    if operator == NONZERO:
        return _nonzero_calls(by_name)
    if operator in (QUANTIZE, DEQUANTIZE):
        return _element_wise_calls(operator, by_name)
    calls = {}
    for kind in (FULL, BARE):
        is_bare = kind == BARE
        for end in ("low", "high"):
            ranks = {k: row.lowest if end == "low" else row.highest for k, row in by_name.items()}
            calls[f"{end}-{kind}"] = _convolution(operator, ranks, is_bare)
    return calls


def _convolution(operator: str, ranks: Mapping[str, int], is_bare: bool) -> Call:
    rank, own = ranks["InputTensor"], ranks["InputZeroPointTensor"]
    if operator == INTEGER:
        return integer(rank, own, is_bare)
    assert operator == QUANTIZED
    return quantized(rank, own, ranks["FilterScaleTensor"], is_bare)


def _nonzero_calls(by_name: Mapping[str, Row]) -> Calls:
    names = ("InputTensor", "OutputCountTensor", "OutputCoordinatesTensor")
    image, count, table = (by_name[name] for name in names)
    low, high = (1,) * (image.lowest - 1), (1,) * (image.highest - 1)
    return {
        f"low-{FULL}": nonzero((*low, 4), None, count.lowest, table.lowest),
        f"high-{FULL}": nonzero((*high, 4), None, count.highest, table.highest),
    }


def _element_wise_calls(operator: str, by_name: Mapping[str, Row]) -> Calls:
    row = by_name["InputTensor"]
    make = quantize if operator == QUANTIZE else dequantize
    sizes = {"low": (1,) * (row.lowest - 1) + (2,), "high": (1,) * (row.highest - 1) + (2,)}
    calls = {f"{end}-{FULL}": make(own) for end, own in sizes.items()}
    if by_name["ZeroPointTensor"].is_optional:
        calls |= {f"{end}-{BARE}": make(own, is_bare=True) for end, own in sizes.items()}
    return calls
