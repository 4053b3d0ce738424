"""Sizes of element-wise operators with a scale and a zero point, and scales refused at the end."""

from ...format.tensors import Tensor
from ...format.vectors import Request
from ..topics import Topic
from .large_pairs import cycled

PRIMES = (1, 2, 3, 5, 7)
SIZES = (
    *("523", "9x67", "69x9", "5x131", "3x1x17x13"),
    *("3x3x1x7x11", "3x1x3x7x1x11", "1x3x1x3x7x1x11", "3x1x3x1x7x1x1x11"),
)
PARAMETERS = ("one", "each", "first axis", "last axis", "last two axes")


def sizes_of_parameter(kind: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of a parameter that repeats to these."""
    rank = len(sizes)
    kept = {
        "one": set[int](),
        "each": set(range(rank)),
        "first axis": {0},
        "last axis": {rank - 1},
        "last two axes": {rank - 2, rank - 1},
    }[kind]
    found = tuple(size if axis in kept else 1 for axis, size in enumerate(sizes))
    return (1,) if kind == "one" else found


def add_later_scales(topic: Topic, clause: str, x: Tensor, dtype: str) -> None:
    """Refuse a scale that is zero or not finite behind others that are fine, nine in all."""
    base, need, one = "twin-later-scales", "values:known", 0x3F800000
    given = {"InputTensor": x, "ScaleTensor": cycled("float32", (9,), [one] * 9)}
    asked = {"OutputTensor": Request(dtype, x.sizes)}
    text, flags = "the twin: nine known scales", "KnownValue Broadcast"
    topic.valid(base, text, clause, given, asked, None, flags, need)
    wrong = {"zero": (0, 8), "minus-zero": (1 << 31, 7), "infinity": (0x7F800000, 4)}
    wrong |= {"nan": (0x7FC00000, 8), "zero-second": (0, 1)}
    for name, (word, at) in wrong.items():
        words = [word if at == place else one for place in range(9)]
        changed = {"ScaleTensor": cycled("float32", (9,), words)}
        name, text = f"later-scale-{name}", f"scale {at} of nine is {name.replace('-', ' ')}"
        topic.invalid(name, text, clause, base, "value", changed, "Invalid KnownValue", need)
