"""Pairs of options and size classes: files that every operator has."""

from collections.abc import Callable, Iterable
from typing import TypeVar

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


def each_pair(
    factors: Factors, apart: Apart
) -> Callable[[Callable[[T, str, str, Row, int], None]], Callable[[T], None]]:
    """Let a function, which adds the call of one row of options, fill the file of pairs."""

    def decorate(add: Callable[[T, str, str, Row, int], None]) -> Callable[[T], None]:
        def fill(topic: T) -> None:
            for number, row in enumerate(rows(factors, apart), 1):
                text = ", ".join(f"{name}: {value}" for name, value in row.items())
                add(topic, f"pairs-{number}", text, row, number)

        return fill

    return decorate


def each_size(add: Callable[[T, int, int], None]) -> Callable[[T], None]:
    """Let a function, which adds the calls of one count, fill the file of size classes.

    Large tensors repeat words of a prime number, so that a few say what all elements have to be.
    """

    def fill(topic: T) -> None:
        for number, count in enumerate(COUNTS):
            add(topic, count, number)

    return fill


def repeat(tensor: Tensor, sizes: Iterable[int]) -> Tensor:
    """Return the first words of a tensor over and over."""
    return from_recipe(tensor.dtype, tuple(sizes), Cycle(tensor.words[:PERIOD]))


def sizes_of(count: int) -> tuple[int, ...]:
    """Return the sizes of a tensor with so many elements."""
    return SHAPES.get(count, (count,))


def flags_of(count: int) -> str:
    """Return the flags of a call with so many elements."""
    return "BlockEdge Large" if count >= LARGE else "BlockEdge"
