"""Pairs of options and size classes: files that every operator has."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...format.recipe import Cycle
from ...format.tensors import Tensor, from_recipe
from ..topics import Topic
from .covering import Apart, Factors, Row, rows
from .size_classes import COUNTS

T = TypeVar("T", bound=Topic)
PERIOD = 61  # divides none of the counts
LARGE = 999
SHORT = {127, 255, 999, 1001}  # where a parameter or an image is one too short
SHAPES = {
    128: (2, 4, 4, 4),
    129: (3, 43),
    255: (15, 17),
    256: (4, 4, 4, 4),
    999: (27, 37),
    1000: (2, 5, 10, 10),
    1001: (7, 11, 13),
    65_535: (255, 257),
    65_536: (16, 16, 16, 16),
}


@dataclass(frozen=True)
class Systematic(Generic[T]):
    """The two files: `pair` turns a row of options into a call, `of_size` makes those of a count.

    Large tensors repeat words of a prime number, so that a few say what all elements have to be.
    """

    operator: str
    kind: Callable[[str, str], T]
    factors: Factors
    apart: Apart
    pair: Callable[[T, str, str, Row, int], None]
    of_size: Callable[[T, int, int], None]

    def __call__(self) -> Iterator[T]:
        """Yield the filled topics."""
        topic = self.kind(self.operator, "pairs")
        for number, row in enumerate(rows(self.factors, self.apart), 1):
            text = ", ".join(f"{name}: {value}" for name, value in row.items())
            self.pair(topic, f"pairs-{number}", text, row, number)
        yield topic
        topic = self.kind(self.operator, "size-classes")
        for number, count in enumerate(COUNTS):
            self.of_size(topic, count, number)
        yield topic


def repeat(tensor: Tensor, sizes: Iterable[int]) -> Tensor:
    """Return the first words of a tensor over and over."""
    return from_recipe(tensor.dtype, tuple(sizes), Cycle(tensor.words[:PERIOD]))


def sizes_of(count: int) -> tuple[int, ...]:
    """Return the sizes of a tensor with so many elements."""
    return SHAPES.get(count, (count,))


def flags_of(count: int) -> str:
    """Return the flags of a call with so many elements."""
    return "BlockEdge Large" if count >= LARGE else "BlockEdge"
