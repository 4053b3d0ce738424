"""Calls that cover element-wise operators: sizes, types, and along which axes parameters change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ...format.tensors import Tensor
from .element_wise import broadcast


@dataclass(frozen=True)
class Plan:
    """A call: sizes, the data types of input and output, and how its parameters repeat.

    A parameter is `absent`, `one`, `each`, or along the `first`, `last`, `even` or `odd` axes.
    """

    sizes: tuple[int, ...]
    source: str
    output: str
    scale: str
    zero_point: str

    @classmethod
    def of(cls, text: str) -> "Plan":
        """Read a plan, such as `3x29 float32 int8 one absent`."""
        sizes, *words = text.split()
        return cls(tuple(map(int, sizes.split("x"))), *words)

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.sizes)

    @property
    def about(self) -> str:
        """The plan in words."""
        parameters = f"scale: {self.scale}, zero point: {self.zero_point}"
        return f"every value class in sizes {list(self.sizes)}; {parameters}"


def parameter_sizes(kind: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a parameter that changes along some axes."""
    last = len(sizes) - 1
    axes = {
        "one": [],
        "each": range(len(sizes)),
        "first": [0],
        "last": [last],
        "even": range(0, len(sizes), 2),
        "odd": range(1, len(sizes), 2),
    }[kind]
    return tuple(size if axis in axes else 1 for axis, size in enumerate(sizes))


def places(own: tuple[int, ...], sizes: tuple[int, ...]) -> list[int]:
    """Return for each element the index of its parameter."""
    return broadcast(Tensor("int32", own, tuple(range(prod(own)))), sizes)


def kinds(names: Sequence[str], plan: Plan, number: int) -> Iterator[str]:
    """Yield a kind of value for each element; the last elements of calls take turns."""
    for index in range(plan.count):
        yield names[(7 * number + plan.count - 1 - index) % len(names)]
