"""Strided tensors: vectors that every operator has."""

from collections.abc import Sequence

from ...format.descs import gather, tensor_desc
from ...format.tensors import Tensor
from ..desc_topics import Call, DescTopic
from ..topics import drawn


def add_strided(
    topic: DescTopic, name: str, comment: str, made: Call, **tensors: Sequence[int]
) -> None:
    """Add a call of which some tensors have these strides."""
    for tensor, strides in tensors.items():
        made = made.laid_out(tensor, strides)
    clause, flags = "tensor-buffer", "Strided"
    topic.accepted(f"desc-strides-{name}", comment, made, clause=clause, flags=flags)


def short_by_one(topic: DescTopic, name: str, tensor: str) -> None:
    """Take 4 bytes from a strided tensor."""
    base = f"desc-strides-{name}"
    made = topic.made(base)
    least = made.desc[tensor]["TotalTensorSizeInBytes"] - 4
    changed = made.patched(tensor, TotalTensorSizeInBytes=least)
    text, flags = f"{tensor} ends 4 bytes before its last element does", "Invalid Strided"
    topic.refused(f"{base}-short", text, base, "tensor-byte-size", tensor, changed, flags=flags)


def overlapping(topic: DescTopic, name: str, tensor: str, *choices: Sequence[int]) -> None:
    """Let elements of an output share offsets."""
    base, flags, rule = f"desc-strides-{name}", "Invalid Strided", "tensor-output-overlap"
    made = topic.made(base)
    for strides in choices:
        changed = made.described(tensor, None, strides)
        held = made.desc[tensor]["TotalTensorSizeInBytes"]
        total = max(changed[tensor]["TotalTensorSizeInBytes"], held)
        changed[tensor]["TotalTensorSizeInBytes"] = total
        end, text = "-".join(map(str, strides)), f"{tensor} has strides {list(strides)}"
        text = f"{text}, so elements meet"
        topic.refused(f"{base}-by-{end}", text, base, rule, tensor, changed, flags=flags)


def sliding(dtype: str, length: int, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Return the elements that overlapping strides read from a drawn row."""
    row = drawn(dtype, (length,), 17, 0, 3)
    return gather(tensor_desc(dtype.upper(), sizes, strides, length), row)
