"""Pairs of options in calls of many elements, and calls of equal sizes.

Each parameter changes along its axis, each call has ties and saturates, and the outputs are
digests. Calls of equal sizes differ in one tensor or attribute, so that nothing kept from one of
them is right for another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, NamedTuple

from ...format.recipe import Cycle, Recipe
from ...format.tensors import DTYPES, Tensor, from_recipe
from ...format.vectors import Request
from ..topics import Files, Topic, ints
from .covering import Apart, Factors, Row, rows
from .near_ties import float32
from .rounding import RANGES

IN_A_FILE = 25
EIGHT = ("int8", "uint8")
PER_UNIT = 45045  # 9 * 5 * 7 * 11 * 13, so that quotients of scales are exact
STEPS = (  # what a scale makes of a sum: ties of both parities, most of which floats get wrong
    *(Fraction(1, 2), Fraction(1, 6), Fraction(5, 2), Fraction(1, 2), Fraction(1, 22)),
    *(Fraction(6), Fraction(3, 14)),
)


class Call(NamedTuple):
    """The parts of a call."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Request]
    attributes: Mapping[str, Any] = {}


Make = Callable[[Row, int], Call]


def fractions(*values: str | int) -> tuple[Fraction, ...]:
    """Return numbers as fractions."""
    return tuple(Fraction(value) for value in values)


def add_files(
    topics: Files[Topic], clause: str, factors: Factors, make: Make, apart: Apart | None = None
) -> None:
    """Register files with a call for each row of options."""
    found = list(enumerate(rows(factors, apart or {}), 1))
    for first in range(0, len(found), IN_A_FILE):
        part = found[first : first + IN_A_FILE]
        topics.file(f"large-pairs-{first // IN_A_FILE + 1}")(partial(_fill, clause, make, part))


def _fill(clause: str, make: Make, part: Iterable[tuple[int, Row]], topic: Topic) -> None:
    topic.has_digests, topic.has_input_digests = True, False
    for number, row in part:
        sizes, *others = row.values()
        text = ", ".join((sizes, *others)) if topic.is_written_out else f"a large call of {sizes}"
        _add(topic, f"large-pairs-{number}", text, clause, make(row, number), "Large")
    topic.pair_zeros()


def _add(topic: Topic, name: str, text: str, clause: str, call: Call, flags: str) -> None:
    topic.valid(name, text, clause, call.inputs, call.outputs, call.attributes, flags)


def add_equal_sizes(
    topics: Files[Topic],
    clause: str,
    base: Call,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    tensors: Mapping[str, Tensor] | None = None,
) -> None:
    """Register the file of a call, and of calls that differ from it in a tensor or an attribute."""

    def fill(topic: Topic) -> None:
        add = partial(_add, topic, clause=clause, flags="Extreme")
        add("equal-sizes", "the call from which others of equal sizes differ", call=base)
        changed = {name: _other(tensor) for name, tensor in base.inputs.items()}
        changed.update(tensors or {})
        for name, tensor in changed.items():
            own = base._replace(inputs={**base.inputs, name: tensor})
            add(f"equal-sizes-{_slug(name)}", f"the same sizes, another {name}", call=own)
        for name, values in (attributes or {}).items():
            own = base._replace(attributes={**base.attributes, **values})
            add(f"equal-sizes-{name}", f"the same sizes, other {name}", call=own)

    topics.file("equal-sizes")(fill)


def _slug(name: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


def _other(tensor: Tensor) -> Tensor:
    """Return a tensor of the same sizes with other elements; scales are doubled."""
    low, high = DTYPES[tensor.dtype].low, DTYPES[tensor.dtype].high
    if DTYPES[tensor.dtype].kind == "bits":
        step = {"float16": 1 << 10, "float32": 1 << 23}[tensor.dtype]
        return ints(tensor.dtype, tensor.sizes, (word + step for word in reversed(tensor.words)))
    return ints(tensor.dtype, tensor.sizes, (low + high - word for word in reversed(tensor.words)))


# -- tensors -----------------------------------------------------------------------------------


def sizes_of(text: str) -> tuple[int, ...]:
    """Read sizes, such as `2x3x5`."""
    return tuple(int(each) for each in text.split("x")) if text != "none" else ()


def cycled(dtype: str, sizes: Sequence[int], words: Sequence[int]) -> Tensor:
    """Return a tensor that runs through words, by a recipe if it is longer than they are."""
    count = prod(sizes)
    if count <= len(words):
        return ints(dtype, sizes, words[:count])
    return from_recipe(dtype, tuple(sizes), Cycle(tuple(words)))


def drawn(dtype: str, sizes: Sequence[int], seed: int, low: int, high: int) -> Tensor:
    """Return integers drawn by a recipe."""
    return from_recipe(dtype, tuple(sizes), Recipe(seed, low, high))


POINTS = {  # of all elements' range, and of a part of it
    ("uint8", "full"): (131, 3, 250, 77, 255, 0, 128),
    ("int8", "full"): (-5, 120, -128, 33, 127, 0, -77),
    ("uint8", "narrow"): (131, 128, 133, 126, 129, 125, 132),
    ("int8", "narrow"): (3, -1, 4, -3, 1, -4, 2),
}


def points(dtype: str, sizes: Sequence[int], number: int, spread: str = "full") -> Tensor:
    """Return zero points; one of them is another for each call."""
    words = POINTS[dtype, spread]
    at = number % 5 if prod(sizes) == 1 else 0
    return cycled(dtype, sizes, words[at:] if prod(sizes) == 1 else words)


def operand(
    dtype: str, sizes: Sequence[int], seed: int, spread: str, has_point: bool = True
) -> Tensor:
    """Return elements of the whole range, or about the zero point, or about 0 without one."""
    low, high = RANGES[dtype]
    if spread == "narrow":
        middle = 129 if dtype == "uint8" and has_point else 0
        low, high = max(middle - 6, low), middle + 7
    return drawn(dtype, sizes, seed, low, high)


def words_of(values: Iterable[Fraction], sign: str = "plus") -> list[int]:
    """Return scales as words; with `minus` the first, the third and so on are negative."""
    flip = -1 if sign == "minus" else 1
    return [float32(value * (flip if at % 2 == 0 else 1)) for at, value in enumerate(values)]


def steps(number: int, count: int, sign: str = "plus", unit: Fraction = Fraction(1)) -> list[int]:
    """Return one scale, another for each call, or all that channels have in turn."""
    values = [step * unit for step in STEPS]
    return words_of([values[number % len(values)]] if count == 1 else values, sign)
