"""Calls that cover operators on two quantized tensors: a line has sizes, data types and points."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

from ...format.recipe import Cycle
from ...format.tensors import Tensor, from_recipe
from ..topics import drawn
from . import floats
from .binary_cases import BinaryTopic, Pair, Quantization, Sizes, Values
from .near_ties import float32
from .rounding import RANGES

PLANS = """
71 71 uint8 int8 uint8 one one one
79 79 int8 uint8 int8 absent one absent
7 7 int8 int8 uint8 one one one
6 6 uint8 uint8 int8 one one one
7 7 uint8 int8 int8 one absent absent
5 5 int8 uint8 int8 absent one one
7 7 int8 uint8 int8 one one one
7 7 uint8 uint8 uint8 one one one
289 289 int8 int8 int8 one absent one
none 71 uint8 int8 int8 one one one
79 1 int8 uint8 uint8 one one one
1 47 int8 int8 int8 absent one absent
71 71 int8 int8 int8 absent absent one
3x43 3x43 int8 int8 int8 absent absent one
2x2x3x39 2x2x3x39 uint8 uint8 int8 one one one
3x47 3x47 uint8 uint8 uint8 one one one
3x1 1x47 int8 uint8 int8 one one one
1x3 47x3 uint8 uint8 int8 one one one
2x3x31 31 uint8 uint8 int8 one one one
2x3x1 3x15 int8 int8 int8 one one absent
2x2x3x9 1x2x1x1 uint8 int8 int8 one one one
2x3x1x2x7 2x3x1x2x7 int8 uint8 int8 one one one
2x1x2x1x3x7 1x3x1x2x1x1 uint8 int8 int8 one one one
2x2x2x2x7 2x2x2x2x7 uint8 uint8 uint8 one one one
1x2x1x2x9 2x1x3x1x1 int8 int8 int8 one one one
2x1x2x3x2x7 2x1x2x3x2x7 uint8 int8 uint8 one one one
2x1x2x1x2x15 15 int8 uint8 int8 one one one
2x1x2x2x1x2x15 2x1x2x2x1x2x15 uint8 int8 int8 one one one
1x2x1x2x1x2x7 2x1x2x1x2x1x1 int8 uint8 uint8 one one one
2x1x2x1x2x2x2x7 2x1x2x1x2x2x2x7 int8 int8 uint8 one one one
1x2x1x2x1x2x1x7 2x1x2x1x2x1x2x1 uint8 uint8 int8 one one one
""".strip().splitlines()


class Family(NamedTuple):
    """Scales of the side that changes, the other and the output, and differences of the first.

    The differences of the other side are all alike.
    """

    scales: tuple[Fraction | float, Fraction | float, Fraction | float]
    other: int
    values: tuple[int, ...]


OTHER = 7
QUARTERS = (  # in steps of 7/4: ties of both parities, whole numbers, both ends, and beyond
    *(2, 6, -2, -6, 4, 1, 0, 71, 72, 73, -74, -75, -73, 127, -126, 100, -110, 10, -10),
)


HALVES = (1, 3, -1, -3, 5, -5, 7, 11, 2, 0, 13)  # in steps of 1/2
SUMS: Mapping[str, Family] = {  # of one changing term, and another that stays
    "plain": Family((1.75, 0.25, 1), OTHER, tuple(value - 1 for value in QUARTERS)),
    "far": Family((2.0**20, 2.0**-9, 2.0**-12), OTHER, (1, -1, 0, 5, -9, 127, -126)),
    "sticky": Family((0.5, Fraction(2) ** -149, 1), OTHER, HALVES),
}


def sums(name: str) -> Callable[[int, int], Family]:
    """Return what gives a family of sums; the small term of a sticky one has either sign."""
    own = SUMS[name]

    def family(number: int, side: int) -> Family:
        sign = (-1) ** number if name == "sticky" else 1
        return own._replace(scales=(own.scales[0], sign * own.scales[1], own.scales[2]))

    return family


def near_tie(found: Sequence[tuple[tuple[int, ...], Pair]], number: int, side: int) -> Family:
    """Return a family of one near tie, at most places."""
    words, pair = found[number % len(found)]
    sign, scales = (-1) ** number, [floats.decode(word, "float32").value for word in words]
    own, other = pair[side] * sign, pair[1 - side] * sign
    values = (own, own, 1, own, 0, own, own, -3, own, 2, own)
    return Family((scales[side], scales[1 - side], scales[2]), other, values)


def misleading(
    values: Iterable[Values], combine: Callable[[Fraction, Fraction], Fraction], dtype: str
) -> list[tuple[tuple[int, ...], Pair]]:
    """Return scales and differences whose quotient a float type rounds to another integer."""
    found = []
    for each in values:
        sa, sb, sy = (floats.decode(word, "float32").value for word in each.own.scales)
        for x, y in each.pairs:
            exact = floats.exactly(combine(x * sa, y * sb) / sy)
            near = floats.nearest(exact, dtype).value
            if floats.round_half_even(near) != floats.round_half_even(exact.value):
                found.append((each.own.scales, (x, y)))
                break
    return found


def add_covering(
    name: str, family: Callable[[int, int], Family], lines: Sequence[str] = PLANS
) -> Callable[[BinaryTopic], None]:
    """Return what adds a call of a family, which depends on the changing side, for each line."""

    def fill(topic: BinaryTopic) -> None:
        for number, line in enumerate(lines, 1):
            a, b, *words = line.split()
            sizes = [() if each == "none" else tuple(map(int, each.split("x"))) for each in (a, b)]
            side = 0 if prod(sizes[0]) > prod(sizes[1]) else 1
            made = Call(sizes, side, words[:3], [kind == "one" for kind in words[3:]])
            _add(topic, f"covering-{name}-{number}", made, family(number, side), number)

    return fill


class Call(NamedTuple):
    """Sizes of both sides, the one that changes, data types, and which zero points there are."""

    sizes: list[Sizes]
    side: int
    dtypes: list[str]
    has_points: list[bool]

    @property
    def points(self) -> list[int | None]:
        """The zero points, which leave room for differences from -127 to 127."""
        own = [{"uint8": 128, "int8": -1}[dtype] for dtype in self.dtypes[:2]]
        own.append({"uint8": 128, "int8": 3}[self.dtypes[2]])
        return [z if is_there else None for z, is_there in zip(own, self.has_points, strict=True)]


def _add(topic: BinaryTopic, name: str, made: Call, family: Family, number: int) -> None:
    one, two, sy = family.scales
    scales = (one, two, sy) if made.side == 0 else (two, one, sy)
    words = tuple(float32(Fraction(each)) for each in scales)
    own = Quantization(words, tuple(made.points), tuple(made.dtypes))
    turn = 7 * number % len(family.values)
    held = [*family.values[turn:], *family.values[:turn]]
    tensors = [
        _cycle(
            made.dtypes[at], made.sizes[at], point or 0, held if at == made.side else [family.other]
        )
        for at, point in enumerate(made.points[:2])
    ]
    text, flags = f"A of {list(made.sizes[0])}, B of {list(made.sizes[1])}", "Tie Saturation"
    topic.add(name, text, "1 2 3 4 5 8", flags, tensors[0], tensors[1], own)


def _cycle(dtype: str, sizes: Sizes, point: int, values: list[int]) -> Tensor:
    low, high = RANGES[dtype]
    words = tuple(min(max(value + point, low), high) for value in values)
    return from_recipe(dtype, sizes, Cycle(words))


REPEATED = """
2x3x3x4 2x3x1x1 uint8 int8 uint8
2x3x1x1 2x3x5x2 int8 uint8 int8
1x139 2x139 uint8 uint8 int8
""".strip().splitlines()


def add_repeated(*scales: float) -> Callable[[BinaryTopic], None]:
    """Return what adds calls where one operand repeats along some axes, and both change."""

    def fill(topic: BinaryTopic) -> None:
        for number, line in enumerate(REPEATED, 1):
            one, two, *dtypes = line.split()
            a, b = (
                drawn(dtype, tuple(map(int, each.split("x"))), 4700 + 2 * number, *RANGES[dtype])
                for each, dtype in zip((one, two), dtypes, strict=False)
            )
            middles = {"uint8": 121, "int8": 5}
            points = tuple(middles[dtype] for dtype in dtypes)
            own = Quantization.of(*scales, points=points, dtypes=tuple(dtypes))
            text = f"A of {list(a.sizes)}, B of {list(b.sizes)}, both drawn"
            topic.add(f"covering-repeated-{number}", text, "1 2 3 4 5 8", "Broadcast", a, b, own)

    return fill
