"""Strided tensors: vectors that every operator has."""

from collections.abc import Mapping, Sequence
from math import prod

from ...format.descs import gather, tensor_desc
from ...format.tensors import Tensor
from ..desc_topics import Call, DescTopic
from ..topics import drawn


class StridedTopic(DescTopic):
    """The file `desc-strides`, whose ids begin with its name."""

    def __init__(self, operator: str, topic: str = "desc-strides") -> None:
        """Start an empty file."""
        super().__init__(operator, topic)

    def add(self, name: str, comment: str, made: Call, **tensors: Sequence[int]) -> None:
        """Add a call of which some tensors have these strides."""
        for tensor, strides in tensors.items():
            made = made.laid_out(tensor, strides)
        self.accepted(self._id(name), comment, made, clause="tensor-buffer", flags="Strided")

    def add_roomy(self, comment: str, made: Call, **tensors: tuple[Sequence[int], int]) -> None:
        """Add a call whose strided buffers are larger than they have to be."""
        for tensor, (strides, size) in tensors.items():
            made = made.laid_out(tensor, strides, size)
        name, flags = self._id("roomy"), "Strided Buffer"
        self.accepted(name, comment, made, clause="tensor-buffer", flags=flags)

    def shorten_buffer(self, name: str, tensor: str) -> None:
        """Take 4 bytes from a strided tensor."""
        base, made = self._id(name), self.made(self._id(name))
        total = made.desc[tensor]["TotalTensorSizeInBytes"] - 4
        changed, flags = made.patched(tensor, TotalTensorSizeInBytes=total), "Invalid Strided"
        text, rule = f"{tensor} ends 4 bytes before its last element does", "tensor-byte-size"
        self.refused(f"{base}-short", text, base, rule, tensor, changed, flags=flags)

    def overlap(self, name: str, tensor: str, *choices: Sequence[int]) -> None:
        """Let elements of an output share offsets."""
        base, rule, flags = self._id(name), "tensor-output-overlap", "Invalid Strided"
        made, size = self.made(base), "TotalTensorSizeInBytes"
        for strides in choices:
            changed = made.described(tensor, None, strides)
            changed[tensor][size] = max(changed[tensor][size], made.desc[tensor][size])
            whole = f"{base}-by-{'-'.join(map(str, strides))}"
            text = f"{tensor} has strides {list(strides)}, so elements meet"
            self.refused(whole, text, base, rule, tensor, changed, flags=flags)

    def _id(self, name: str) -> str:
        return f"{self.topic}-{name}"


def reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many elements a buffer has to have."""
    return 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


def sliding(dtype: str, length: int, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Return the elements that overlapping strides read from a drawn row."""
    row = drawn(dtype, (length,), 17, 0, 3)
    return gather(tensor_desc(dtype.upper(), sizes, strides, length), row)


PARAMETERS = ("Scale", "ZeroPoint", "Bias", "Indices")


def of_parameters(operator: str, calls: Mapping[str, Call]) -> StridedTopic:
    """Return the file of calls whose parameters, and indices, have gaps between their elements."""
    topic = StridedTopic(operator, "corner-strides")
    for gap, (text, made) in enumerate(calls.items(), 2):
        sizes = {name: own["Sizes"] for name, own in made.desc.items() if isinstance(own, dict)}
        many = [name for name, own in sizes.items() if prod(own) > 1]
        named = [name for name in many if any(word in name for word in PARAMETERS)]
        strides = {name: with_gaps(sizes[name], gap) for name in named}
        topic.add(f"gap-{gap}", f"{text}: every parameter has gaps", made, **strides)
    return topic


def with_gaps(sizes: Sequence[int], gap: int) -> list[int]:
    """Return strides with gaps between elements, and between rows."""
    strides = [gap]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size + gap)
    return strides
