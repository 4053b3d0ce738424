"""The rules of every tensor desc, on every operator: layout, bytes, alignment, flags, levels."""

from collections.abc import Iterator
from typing import Any

from ...format.descs import tensor_desc
from ...operators.tables import LEVELS, introduced, rows
from .desc_builder import NEWEST, Call, DescTopic
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

TWIN = "desc-twin"
EARLY = "desc-twin-early"
UINT_MAX = 2**32 - 1
CALLS = {
    NONZERO: nonzero((1, 1, 2, 3)),
    QUANTIZED: quantized(is_bare=True),
    INTEGER: integer(is_bare=True),
    QUANTIZE: quantize((1, 1, 2, 3)),
    DEQUANTIZE: dequantize((1, 1, 2, 3)),
}


def topics() -> Iterator[DescTopic]:
    """Yield one file for each operator."""
    for operator, made in CALLS.items():
        topic = DescTopic(operator, "desc-tensors")
        text = "the twin: a packed desc at the newest level"
        topic.accepted(TWIN, text, made, flags="Buffer")
        _introduced(topic, made)
        _fine(topic, made)
        _layout(topic, made)
        _buffer(topic, made)
        _outputs(topic, made)
        yield topic


def _introduced(topic: DescTopic, made: Call) -> None:
    """Ask for the operator at its first level, and at the levels before."""
    first = introduced(topic.operator)
    earlier = LEVELS[: LEVELS.index(first)]
    if not earlier:
        return
    text = f"the twin: the level that introduced the operator, {first}"
    topic.accepted(EARLY, text, made, first, flags="Level")
    for level in dict.fromkeys((earlier[0], earlier[-1])):
        name, text = f"desc-before-{level.replace('_', '-')}", f"{level} is before {first}"
        rule, error = "operator-feature-level", ("feature_level", "FeatureLevel")
        topic.refused(name, text, EARLY, rule, error, level=level, flags="Invalid Level")


def _fine(topic: DescTopic, made: Call) -> None:
    """Add what is allowed and looks strange: owned inputs, alignments, room to spare."""
    owned, roomy, aligned = made, made, made
    for row in rows(topic.operator, NEWEST):
        if made.desc[row.tensor] is None:
            continue
        least = made.desc[row.tensor]["TotalTensorSizeInBytes"]
        roomy = roomy.edited(row.tensor, TotalTensorSizeInBytes=least + 52)
        aligned = aligned.edited(row.tensor, GuaranteedBaseOffsetAlignment=256)
        if not row.is_output:
            owned = owned.edited(row.tensor, Flags="OWNED_BY_DML")
    text = "DirectML owns the inputs, which changes no result"
    topic.accepted("desc-owned", text, owned, clause="tensor-flags", flags="Buffer")
    text = "52 bytes more than needed in every packed tensor"
    topic.accepted("desc-roomy", text, roomy, clause="tensor-byte-size", flags="Buffer")
    text = "a base offset alignment of 256 everywhere"
    topic.accepted("desc-aligned", text, aligned, clause="tensor-alignment", flags="Buffer")
    most = made.edited("InputTensor", TotalTensorSizeInBytes=UINT_MAX * _size(made))
    text = "InputTensor's buffer holds 2^32 - 1 elements, most of them padding"
    clause = "tensor-byte-size-limit"
    topic.accepted("desc-largest-buffer", text, most, clause=clause, flags="Buffer")


def _size(made: Call) -> int:
    """Return the element size of the input, in bytes."""
    return 4 if made.desc["InputTensor"]["DataType"] == "FLOAT32" else 1


def _layout(topic: DescTopic, made: Call) -> None:
    image = made.desc["InputTensor"]
    sizes, data_type = image["Sizes"], image["DataType"]
    many = [65536, 65536, *sizes[2:]]
    broken: dict[str, tuple[str, str, str, dict[str, Any]]] = {
        "unknown": ("data-type", "data_type", "is UNKNOWN", {"DataType": "UNKNOWN"}),
        "uint4": ("data-type", "data_type", "is UINT4", {"DataType": "UINT4"}),
        "sizes-too-few": (
            *("sizes-count", "dimension_count", "has 3 Sizes for a DimensionCount of 4"),
            {"Sizes": sizes[1:]},
        ),
        "sizes-too-many": (
            *("sizes-count", "dimension_count", "has 5 Sizes for a DimensionCount of 4"),
            {"Sizes": [1, *sizes]},
        ),
        "strides-too-few": (
            *("strides-count", "strides", "has 3 Strides for a DimensionCount of 4"),
            {"Strides": [6, 3, 1]},
        ),
        "strides-none": (
            *("strides-count", "strides", "has Strides without entries"),
            {"Strides": []},
        ),
        "size-0": ("sizes-positive", "sizes", "has a size of 0", {"Sizes": [*sizes[:-1], 0]}),
        "elements-2-32": (
            *("element-limit", "sizes", "repeats one element 2^32 times or more"),
            tensor_desc(data_type, many, [0] * 4),
        ),
    }
    for name, (rule, code, text, fields) in broken.items():
        changed = {"InputTensor": {**image, **fields}}
        whole, text = f"desc-input-{name}", f"InputTensor {text}"
        error, flags = (code, "InputTensor"), "Invalid Layout"
        topic.refused(whole, text, TWIN, f"tensor-{rule}", error, changed, flags=flags)
    _dimension_counts(topic, made)


def _dimension_counts(topic: DescTopic, made: Call) -> None:
    rule, error = "tensor-dimension-count", ("dimension_count", "InputTensor")
    for count in (0, 9):
        sizes = [1] * (count - 4) + made.desc["InputTensor"]["Sizes"] if count else []
        changed = {"InputTensor": tensor_desc(made.desc["InputTensor"]["DataType"], sizes)}
        text = f"InputTensor has {count} dimensions"
        name, flags = f"desc-input-dimensions-{count}", "Invalid Layout"
        topic.refused(name, text, TWIN, rule, error, changed, flags=flags)


def _buffer(topic: DescTopic, made: Call) -> None:
    """Take bytes away, add too many, and align wrongly, in the first and last tensor."""
    last = [row.tensor for row in rows(topic.operator, NEWEST) if row.is_output][-1]
    for name in ("InputTensor", last):
        tensor = made.desc[name]
        least = tensor["TotalTensorSizeInBytes"]
        wrong: dict[str, tuple[str, str, str, Any]] = {
            "byte-short": ("byte-size", "byte_size", "TotalTensorSizeInBytes", least - 1),
            "bytes-0": ("byte-size", "byte_size", "TotalTensorSizeInBytes", 0),
            "bytes-too-many": ("byte-size-limit", "byte_size", "TotalTensorSizeInBytes", 2**34),
            "alignment-24": ("alignment", "alignment", "GuaranteedBaseOffsetAlignment", 24),
        }
        if tensor["DataType"] in ("FLOAT32", "UINT32", "INT32"):
            field = "GuaranteedBaseOffsetAlignment"
            wrong["alignment-2"] = ("alignment", "alignment", field, 2)
        for end, (rule, code, field, value) in wrong.items():
            whole, text = f"desc-{_short(name)}-{end}", f"{name}: {field} is {value}"
            changed = {name: {**tensor, field: value}}
            error, flags = (code, name), "Invalid Buffer"
            topic.refused(whole, text, TWIN, f"tensor-{rule}", error, changed, flags=flags)


def _outputs(topic: DescTopic, made: Call) -> None:
    """Let DirectML own outputs, and let their elements overlap."""
    for row in rows(topic.operator, NEWEST):
        name = row.tensor
        if not row.is_output:
            continue
        changed = {name: {**made.desc[name], "Flags": "OWNED_BY_DML"}}
        whole, text = f"desc-{_short(name)}-owned", f"DirectML owns {name}, an output"
        error, flags = ("flags", name), "Invalid Buffer"
        topic.refused(whole, text, TWIN, "tensor-flags", error, changed, flags=flags)
        for end, strides in _overlapping(made.desc[name]["Sizes"]).items():
            old = made.desc[name]
            changed = {name: tensor_desc(old["DataType"], old["Sizes"], strides)}
            whole, text = f"desc-{_short(name)}-{end}", f"{name} has strides {strides}"
            error, flags = ("strides", name), "Invalid Strided"
            rule = "tensor-output-overlap"
            topic.refused(whole, text, TWIN, rule, error, changed, flags=flags)


def _overlapping(sizes: list[int]) -> dict[str, list[int]]:
    """Return strides of 0, and strides that step back into the row before; none for a scalar."""
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    if not axes:
        return {}
    *_, last = axes
    repeated = [int(axis != last) * 60 * (4 - axis) for axis in range(4)]
    found = {"stride-0": repeated}
    if len(axes) > 1:
        step_back = [60 * (4 - axis) for axis in range(4)]
        step_back[axes[-2]], step_back[last] = sizes[last] - 1, 1
        found["rows-overlap"] = step_back
    return found


def _short(name: str) -> str:
    return {"OutputCountTensor": "count", "OutputCoordinatesTensor": "coordinates"}.get(
        name, name.removesuffix("Tensor").lower()
    )
