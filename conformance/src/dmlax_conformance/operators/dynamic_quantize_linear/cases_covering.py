"""DYNAMIC_QUANTIZE_LINEAR: every value class at every structure, in few calls."""

from fractions import Fraction
from functools import cache
from math import prod

from ...format.recipe import Cycle
from ...format.tensors import from_recipe
from .._shared import floats
from .._shared.floats import encode, exactly, round_half_even
from .._shared.near_ties import Draw
from ..topics import Files, bits
from .cases import OPERATOR, DynamicTopic
from .meaning import parameters

topics = Files(OPERATOR, DynamicTopic)
HALVES = (  # in steps of the scale, between both ends of the range
    *(0.5, 1.5, -0.5, -1.5, 3, 0, 7.25, -2.5, 102.5, -60.75, 2.5, 44, -0.25),
)
LOW, HIGH = -100, 155
LINES = """
71 float32 uint8
73 float32 int8
79 float16 int8
289 float32 int8
291 float16 uint8
293 float32 uint8
7 float32 uint8
7 float32 int8
6 float16 uint8
7 float16 int8
7 float16 uint8
3x47 float32 uint8
5x39 float16 int8
3x43 float32 int8
2x3x15 float32 int8
3x2x31 float32 uint8
2x3x2x9 float16 uint8
3x2x2x7 float32 int8
2x2x3x9 float32 uint8
2x2x2x2x5 float32 uint8
2x2x3x2x3 float32 int8
2x2x2x2x2x3 float32 int8
3x2x2x2x2x2 float32 uint8
2x2x2x2x2x2x2 float32 uint8
2x2x2x2x2x2x3 float32 int8
2x2x2x2x2x2x2x2 float32 int8
2x2x2x2x2x2x2x3 float32 uint8
"""


@cache
def _near_ties(seed: int) -> list[Fraction]:
    """Return both ends of a range, and numbers that float32 takes for halves of its scale."""
    draw = Draw(500 + seed)
    low = Fraction(-draw.odd(23), 2**20)
    high = floats.nearest(exactly(low * -Fraction(3, 2)), "float32").value
    scale, found = parameters([low, high], "uint8")[0].value, [low, high]
    for numerator in (5, -7, 13, 23, -31, 47, 91, -77, 101, -3, 121, 65, 33, -55, 111, 19):
        x = floats.nearest(exactly(Fraction(numerator, 2) * scale), "float32").value
        single = floats.nearest(exactly(x / scale), "float32").value
        if low < x < high and round_half_even(single) != round_half_even(x / scale):
            found.append(x)
    return found


@topics.file("covering")
def _covering(topic: DynamicTopic) -> None:
    for number, line in enumerate(LINES.strip().splitlines(), 1):
        text, source, result = line.split()
        ties = [Fraction(each) / 8 for each in (LOW, HIGH, *HALVES)]
        _add(topic, f"covering-{number}", text, source, result, ties, 5 * number)
        if source == "float32":
            _add(topic, f"covering-near-{number}", text, source, result, _near_ties(number), number)


def _add(
    topic: DynamicTopic,
    name: str,
    sizes: str,
    source: str,
    result: str,
    values: list[Fraction],
    turn: int,
) -> None:
    """Add a call with these numbers in turn; a short one has the ends of the range, too."""
    shape = tuple(map(int, sizes.split("x")))
    others = values[2:]
    turned = [*others[turn % len(others) :], *others[: turn % len(others)]]
    kept = turned if prod(shape) >= len(values) else turned[: prod(shape) - 2]
    at = turn % (len(kept) + 1)
    order = [*kept[:at], *values[:2], *kept[at:]]
    words = tuple(encode(exactly(each), source) for each in order)
    x = from_recipe(source, shape, Cycle(words))
    text, flags = f"{source} of sizes {list(shape)}, halves of the scale", "Tie BlockEdge"
    topic.add(name, text, "DYN-4 DYN-5 DYN-8", result, flags, x)


@topics.file("covering-late")
def _covering_late(topic: DynamicTopic) -> None:
    """Add a large tensor whose range the last elements decide."""
    words, count = [encode(exactly(each), "float32") for each in _near_ties(1)], 1031
    order = [words[2 + at % (len(words) - 2)] for at in range(count - 2)]
    x = bits("float32", (count,), [*order, *words[:2]])
    text, flags = f"the last two of {count} elements decide the range", "Tie BlockEdge"
    topic.add("covering-late", text, "DYN-4 DYN-5 DYN-8", "uint8", flags, x)
