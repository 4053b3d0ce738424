"""One spelling for every JSON value, made for reading and for line-by-line diffs.

Keys follow `KEY_ORDER`, then the alphabet. A value that fits on its line stays there; a longer
list of scalars is filled like a paragraph; anything else puts one member on a line. Descs of
tensors always stay on theirs: they are read as rows of a table.
"""

import json
from typing import Any, NamedTuple

WIDTH = 100
KEY_ORDER = (
    *("schema", "operator", "topic", "source", "clauses", "notes", "vectors"),
    *("id", "rev", "comment", "clause", "flags", "requires", "memory", "since"),
    *("twin", "partial", "beside", "after"),
    *("feature_levels", "feature_level", "desc"),
    *("attributes", "inputs", "outputs", "expect", "error", "code", "field", "also"),
    *("dtype", "sizes", "compare", "rows", "listed", "recipe", "sha256", "data", "bits"),
    *("index", "any_of", "why"),
    *("InputTensor", "InputScaleTensor", "InputZeroPointTensor"),
    *("ATensor", "AScaleTensor", "AZeroPointTensor"),
    *("BTensor", "BScaleTensor", "BZeroPointTensor"),
    *("FilterTensor", "FilterScaleTensor", "FilterZeroPointTensor", "BiasTensor"),
    *("ScaleTensor", "ZeroPointTensor", "OutputScaleTensor", "OutputZeroPointTensor"),
    *("AddendTensor", "AddendScaleTensor", "AddendZeroPointTensor"),
    *("SumScaleTensor", "SumZeroPointTensor"),
    *("OutputTensor", "OutputIndicesTensor", "OutputCountTensor", "OutputCoordinatesTensor"),
    *("DataType", "Flags", "DimensionCount", "Sizes", "Strides"),
    *("TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment"),
    *("WindowSize", "Dilations", "StartPadding", "EndPadding", "IncludePadding", "GroupCount"),
    "AddendFirst",
)
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # takes values of any length
_RANK = {key: rank for rank, key in enumerate(KEY_ORDER)}


class Layout(NamedTuple):
    """Names of what stays on its line: objects in which one is a string, and members."""

    rows: tuple[str, ...] = ("DataType",)
    members: tuple[str, ...] = ()


PLAIN = Layout()
VECTORS = Layout(("DataType", "dtype"), ("attributes",))  # tensors and attributes on lines


def dumps(value: Any, layout: Layout = PLAIN) -> str:
    """Return `value` as canonical JSON text that ends in a newline."""
    return _render(value, layout, 0, 0) + "\n"


def _render(value: Any, layout: Layout, indent: int, used: int) -> str:
    if used + len(_encode(value)) + 1 <= WIDTH or not isinstance(value, dict | list) or not value:
        return _line(value)
    if isinstance(value, dict) and any(isinstance(value.get(name), str) for name in layout.rows):
        return _line(value)
    if isinstance(value, dict):
        return _block(_members(value, layout, indent + 2), "{}", indent)
    if all(not isinstance(item, dict | list) for item in value):
        return _block(_filled([_line(item) for item in value], indent + 2), "[]", indent)
    return _block([_render(item, layout, indent + 2, indent + 2) for item in value], "[]", indent)


def _members(value: dict[str, Any], layout: Layout, indent: int) -> list[str]:
    rendered = []
    for key in _sorted(value):
        name, own = f"{_line(key)}: ", value[key]
        is_line, used = key in layout.members, indent + len(name)
        rendered.append(name + (_line(own) if is_line else _render(own, layout, indent, used)))
    return rendered


def _filled(items: list[str], indent: int) -> list[str]:
    """Join items into lines as long as the width allows."""
    lines = [items[0]]
    for item in items[1:]:
        if indent + len(lines[-1]) + len(item) + 3 <= WIDTH:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return lines


def _block(lines: list[str], brackets: str, indent: int) -> str:
    pad = " " * (indent + 2)
    body = ",\n".join(pad + line for line in lines)
    return f"{brackets[0]}\n{body}\n{' ' * indent}{brackets[1]}"


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_line(k)}: {_line(value[k])}" for k in _sorted(value)) + "}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[" + ", ".join(map(_line, value)) + "]"
    return _encode(value)


def _sorted(value: dict[str, Any]) -> list[str]:
    return sorted(value, key=lambda key: (_RANK.get(key, len(_RANK)), key))
