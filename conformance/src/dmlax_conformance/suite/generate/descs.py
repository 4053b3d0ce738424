"""Desc vectors of every operator, from its table and one of its calls."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ...operators import OPERATORS
from ...operators.desc_topics import NEWEST, Call, DescTopic, dashed
from ...operators.tables import LEVELS, TABLES, Row, introduced, rows, tensors

UINT_MAX = 2**32 - 1


class Cases(Protocol):
    """The module `cases_descs` of an operator."""

    PACKED: Call
    SMALL: Call
    NO_ELEMENTS: Mapping[str, list[int]]

    def at_ranks(self, ranks: Mapping[str, int], is_bare: bool) -> Call:
        """Return a call whose tensors have these dimension counts."""
        ...

    def typed(self, lines: Mapping[str, Row]) -> dict[str, Call]:
        """Return calls that have, among them, every data type of a table."""
        ...

    def add_survivors(self, topic: DescTopic, base: str) -> None:
        """Add descs for planted bugs that survived all other vectors."""
        ...


def topics() -> Iterator[DescTopic]:
    """Yield the files that every operator has."""
    for operator in TABLES:
        cases: Cases = OPERATORS[operator].module("cases_descs")
        yield _tensors(operator, cases.PACKED)
        for level in TABLES[operator]:
            yield from _rows(operator, level, cases)
        yield _types(operator, cases)
        yield _survivors(operator, cases)


# -- the rules of every tensor -----------------------------------------------------------------

BASE = "desc-twin"


def _tensors(operator: str, made: Call) -> DescTopic:
    topic = DescTopic(operator, "desc-tensors")
    topic.accepted(BASE, "the twin: a packed desc at the newest level", made, flags="Buffer")
    _before(topic, made)
    _fine(topic, made)
    _layout(topic, made)
    outputs = [row for row in rows(operator, NEWEST) if row.kind == "output"]
    last = outputs[-1].tensor
    for name in (tensors(operator)[0], last):
        _buffer(topic, made, name)
    for row in outputs:
        _output(topic, made, row.tensor)
    return topic


def _before(topic: DescTopic, made: Call) -> None:
    """Ask for the operator at its first level, and at the levels before."""
    first, base = introduced(topic.operator), "desc-twin-early"
    earlier = LEVELS[: LEVELS.index(first)]
    if not earlier:
        return
    text = f"the twin: the level that introduced the operator, {first}"
    topic.accepted(base, text, made, first, flags="Level")
    rule, flags = "operator-feature-level", "Invalid Level"
    for level in dict.fromkeys((earlier[0], earlier[-1])):
        name, text = f"desc-before-{dashed(level)}", f"{level} is before {first}"
        topic.refused(name, text, base, rule, "FeatureLevel", level=level, flags=flags)


def _fine(topic: DescTopic, made: Call) -> None:
    """Add what is allowed and looks strange: owned inputs, alignments, room to spare."""
    owned, roomy, aligned = made, made, made
    for row in rows(topic.operator, NEWEST):
        name, tensor = row.tensor, made.desc[row.tensor]
        if tensor is not None:
            total = tensor["TotalTensorSizeInBytes"] + 52
            roomy = roomy.changed(made.patched(name, TotalTensorSizeInBytes=total))
            aligned = aligned.changed(made.patched(name, GuaranteedBaseOffsetAlignment=256))
            if not row.is_output:
                owned = owned.changed(made.patched(name, Flags="OWNED_BY_DML"))
    first = tensors(topic.operator)[0]
    total = UINT_MAX * (4 if made.desc[first]["DataType"] == "FLOAT32" else 1)
    most = made.changed(made.patched(first, TotalTensorSizeInBytes=total))
    for name, text, own, clause in (
        ("owned", "DirectML owns the inputs, which changes no result", owned, "flags"),
        ("roomy", "52 bytes more than needed in every packed tensor", roomy, "byte-size"),
        ("aligned", "a base offset alignment of 256 everywhere", aligned, "alignment"),
        (
            "largest-buffer",
            f"{first}'s buffer holds 2^32 - 1 elements, most of them padding",
            *(most, "byte-size-limit"),
        ),
    ):
        topic.accepted(f"desc-{name}", text, own, clause=f"tensor-{clause}", flags="Buffer")


def _layout(topic: DescTopic, made: Call) -> None:
    """Give the first input types, sizes and strides that describe no buffer."""
    name = tensors(topic.operator)[0]
    sizes = made.desc[name]["Sizes"]
    nine = made.described(name, [1] * 5 + sizes)[name]
    many = made.described(name, [65536, 65536, *sizes[2:]], [0] * 4)[name]
    broken: dict[str, tuple[str, str, dict[str, Any]]] = {
        "unknown": ("data-type", "is UNKNOWN", {"DataType": "UNKNOWN"}),
        "uint4": ("data-type", "is UINT4", {"DataType": "UINT4"}),
        "sizes-too-few": (
            *("sizes-count", "has 3 Sizes for a DimensionCount of 4"),
            {"Sizes": sizes[1:]},
        ),
        "sizes-too-many": (
            *("sizes-count", "has 5 Sizes for a DimensionCount of 4"),
            {"Sizes": [1, *sizes]},
        ),
        "strides-too-few": (
            *("strides-count", "has 3 Strides for a DimensionCount of 4"),
            {"Strides": [6, 3, 1]},
        ),
        "strides-none": ("strides-count", "has Strides without entries", {"Strides": []}),
        "size-0": ("sizes-positive", "has a size of 0", {"Sizes": [*sizes[:-1], 0]}),
        "elements-2-32": ("element-limit", "repeats one element 2^32 times or more", many),
        "dimensions-0": ("dimension-count", "has 0 dimensions", made.described(name, [])[name]),
        "dimensions-9": ("dimension-count", "has 9 dimensions", nine),
    }
    for end, (rule, text, fields) in broken.items():
        changed, text, flags = made.patched(name, **fields), f"{name} {text}", "Invalid Layout"
        whole, rule = f"desc-{dashed(name)}-{end}", f"tensor-{rule}"
        topic.refused(whole, text, BASE, rule, name, changed, flags=flags)


def _buffer(topic: DescTopic, made: Call, name: str) -> None:
    """Take bytes away, add too many, and align wrongly."""
    total, alignment = "TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment"
    tensor = made.desc[name]
    wrong = [
        ("byte-short", "byte-size", total, tensor[total] - 1),
        ("bytes-0", "byte-size", total, 0),
        ("bytes-too-many", "byte-size-limit", total, 2**34),
        ("alignment-24", "alignment", alignment, 24),
    ]
    if tensor["DataType"] in ("FLOAT32", "UINT32", "INT32"):
        wrong.append(("alignment-2", "alignment", alignment, 2))
    for end, rule, field, value in wrong:
        changed, flags = made.patched(name, **{field: value}), "Invalid Buffer"
        whole, text = f"desc-{_short(name)}-{end}", f"{name}: {field} is {value}"
        topic.refused(whole, text, BASE, f"tensor-{rule}", name, changed, flags=flags)


def _output(topic: DescTopic, made: Call, name: str) -> None:
    """Let DirectML own an output, and let its elements overlap."""
    whole, text = f"desc-{_short(name)}-owned", f"DirectML owns {name}, an output"
    changed, flags = made.patched(name, Flags="OWNED_BY_DML"), "Invalid Buffer"
    topic.refused(whole, text, BASE, "tensor-flags", name, changed, flags=flags)
    for end, strides in _overlapping(made.desc[name]["Sizes"]).items():
        whole, text = f"desc-{_short(name)}-{end}", f"{name} has strides {strides}"
        changed, rule, flags = (
            made.described(name, None, strides),
            "tensor-output-overlap",
            "Invalid Strided",
        )
        topic.refused(whole, text, BASE, rule, name, changed, flags=flags)


def _overlapping(sizes: list[int]) -> dict[str, list[int]]:
    """Return strides of 0, and strides that step back into the row before; none for a scalar."""
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    if not axes:
        return {}
    *_, last = axes
    far = [60 * (4 - axis) for axis in range(4)]
    found = {"stride-0": [0 if axis == last else step for axis, step in enumerate(far)]}
    if len(axes) > 1:
        far[axes[-2]], far[last] = sizes[last] - 1, 1
        found["rows-overlap"] = far
    return found


def _first(operator: str) -> str:
    """Return the name of the operator's first tensor."""
    return rows(operator, NEWEST)[0].tensor


def _short(name: str) -> str:
    """Return the last word of a tensor's name."""
    return dashed(name).removeprefix("output-")


# -- every line of every table: just inside, and just outside -----------------------------------

NEIGHBOURS = ("FLOAT16", "INT32", "INT64", "INT8", "FLOAT64")
ENDS = {"low": "the lowest dimension counts", "high": "the highest dimension counts"}


def _rows(operator: str, level: str, cases: Cases) -> Iterator[DescTopic]:
    """Yield one file for a table, or two when some tensors are optional."""
    table, name = rows(operator, level), f"desc-rows-{dashed(level)}"
    if not any(row.is_optional for row in table):
        yield _row_file(DescTopic(operator, name), level, cases, "full", table)
        return
    required = [row for row in table if not row.is_optional]
    optional = [row for row in table if row.is_optional]
    yield _row_file(DescTopic(operator, name), level, cases, "bare", required)
    yield _row_file(DescTopic(operator, f"{name}-optional"), level, cases, "full", optional)


def _row_file(
    topic: DescTopic, level: str, cases: Cases, kind: str, table: tuple[Row, ...] | list[Row]
) -> DescTopic:
    """Add calls at both ends of the table, and leave each line in every direction."""
    which = "every tensor present" if kind == "full" else "no optional tensor"
    for end, text in ENDS.items():
        of_end = {"low": "lowest", "high": "highest"}[end]
        ranks = {row.tensor: getattr(row, of_end) for row in rows(topic.operator, level)}
        text = f"the twin: the table of {level}, {text}, {which}"
        made, clause = cases.at_ranks(ranks, kind == "bare"), "tensor-dimension-count"
        topic.accepted(_row_name(level, end, kind), text, made, level, clause, "Row")
    for row in table:
        _outside(topic, level, row, kind)
    return topic


def _row_name(level: str, *rest: str) -> str:
    return "-".join(("row", dashed(level), *rest))


def _outside(topic: DescTopic, level: str, row: Row, kind: str) -> None:
    """Leave one line in every direction, from the nearest call that keeps it."""
    low, high = (_row_name(level, end, kind) for end in ENDS)
    name = row.tensor
    for rank, base in ((row.highest + 1, high), (row.lowest - 1, low)):
        if rank > 0:
            text = f"{name} has {rank} dimensions, the table has {row.lowest} to {row.highest}"
            made = topic.made(base)
            changed = made.described(name, _reshaped(made.desc[name]["Sizes"], rank))
            _refuse(topic, level, row, f"rank-{rank}", text, base, "dimension-count", changed)
    data_type = next(each for each in NEIGHBOURS if each not in row.data_types)
    changed, text = topic.made(high).described(name, data_type=data_type), f"{name} is {data_type}"
    _refuse(topic, level, row, data_type.lower(), text, high, "data-type", changed)
    if not row.is_optional:
        _refuse(topic, level, row, "absent", f"{name} is absent", high, "required", {name: None})


def _refuse(
    topic: DescTopic,
    level: str,
    row: Row,
    name: str,
    text: str,
    base: str,
    rule: str,
    changed: Mapping[str, Any],
) -> None:
    name, rule = _row_name(level, dashed(row.tensor), name), f"tensor-{rule}"
    topic.refused(name, text, base, rule, row.tensor, changed, flags="Invalid Row")


def _reshaped(sizes: list[int], rank: int) -> list[int]:
    """Return one leading size of 1 more, or one size fewer."""
    if rank > len(sizes):
        return [1] * (rank - len(sizes)) + sizes
    return sizes[1:] if sizes[0] == 1 else sizes[:-1]


# -- descs that were written because a planted bug survived all others --------------------------


def _types(operator: str, cases: Cases) -> DescTopic:
    """Return a file with every data type of every line."""
    topic = DescTopic(operator, "desc-kills-types")
    for level in TABLES[operator]:
        lines = {row.tensor: row for row in rows(operator, level)}
        for name, made in cases.typed(lines).items():
            label = f"{dashed(level)}-{name}"
            text = f"the table of {level} lists {name.replace('-', ' and ').upper()}"
            topic.accepted(f"desc-lists-{label}", text, made, level, "tensor-data-type", "Row")
    return topic


def _survivors(operator: str, cases: Cases) -> DescTopic:
    """Return a file with what is written for the operator, and what every operator has.

    Some rules make tensors agree, so that a mistake in one line of a table shows only in a desc
    that changes all of them; the ids of these say `together`.
    """
    topic, made, base = DescTopic(operator, "desc-kills"), cases.SMALL, "desc-kills-twin"
    text = "the twin: a packed desc of four dimensions at the newest level"
    topic.accepted(base, text, made)
    for row in rows(operator, NEWEST):
        if row.kind == "output":
            name, text = f"desc-{dashed(row.tensor)}-strides-too-few", "has 1 entry in Strides"
            rule, changed = "tensor-strides-count", made.patched(row.tensor, Strides=[1])
            text, flags = f"{row.tensor} {text}", "Invalid Layout"
            topic.refused(name, text, base, rule, row.tensor, changed, flags=flags)
    changed = {k: made.patched(k, Sizes=own)[k] for k, own in cases.NO_ELEMENTS.items()}
    text, rule = "the first size is 0, in every tensor that shares it", "tensor-sizes-positive"
    topic.together("size-0", text, base, rule, tensors(operator)[0], changed)
    cases.add_survivors(topic, base)
    return topic
