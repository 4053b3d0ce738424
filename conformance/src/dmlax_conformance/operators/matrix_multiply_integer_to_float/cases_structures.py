"""MATRIX_MULTIPLY_INTEGER_TO_FLOAT: classes of values in many rows and columns."""

from collections.abc import Iterator
from fractions import Fraction

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from .._shared.convolution_cases import Parameters
from ..topics import Files, floats, ints
from .cases import OPERATOR, FloatTopic

topics = Files(OPERATOR, FloatTopic)
COUNT = 35
SIZES = {"rows": ((COUNT, 1), (1, 1)), "columns": ((1, 1), (1, COUNT))}
TINY, LAST = Fraction(2) ** -30, 2.0**-24


def _classes() -> Iterator[tuple[str, str, str, Parameters]]:
    """Yield a name, what the results are, clauses and parameters, where the products count."""
    text = "subnormal results, some of them ties"
    yield "subnormal", text, "MMF-1", {"sa": [1], "sb": [TINY]}
    text = "results around the largest, without a bias: some are infinities"
    yield "overflow", text, "MMF-1", {"sa": [Fraction(7)], "sb": [1.5]}
    yield (
        "negative",
        "scales of both signs: zeros are plus zero",
        "MMF-8",
        {"sa": [-3], "sb": [0.5]},
    )


@topics.file("structures-float16")
def _structures(topic: FloatTopic) -> None:
    for number, (place, (a, b)) in enumerate(SIZES.items()):
        left = from_recipe("uint8", a, Recipe(720 + number, 0, 255))
        right = from_recipe("int8", b, Recipe(730 + number, -128, 127))
        zero = left.words[0]
        for name, text, clause, own in _classes():
            given = {**own, "za": [zero if place == "rows" else zero ^ 85]}
            words, flags = f"{text}: {place}", "SpecialFloat Rounding BlockEdge"
            label = f"{name}-float16-{place}"
            topic.add(label, words, clause, left, right, given, flags, "float16")
        ones, one = (
            from_recipe("uint8", a, Recipe(0, 1, 1)),
            from_recipe("int8", b, Recipe(0, 1, 1)),
        )
        for turn in (1, -1):
            bias = floats("float16", (), [turn * LAST])
            own = {"sa": [2 + 2.0**-10 * (2 * number + 1)], "sb": [1], "bias": bias}
            words = f"a tie of FLOAT16 and a bias that FLOAT32 loses: {place}"
            label = f"lost-bias-{'more' if turn > 0 else 'less'}-{place}"
            topic.add(label, words, "MMF-1", ones, one, own, "Tie Rounding BlockEdge", "float16")
    zeros = ints("uint8", (2, 3), [9] * 6)
    held = from_recipe("int8", (3, 5), Recipe(740, -128, 127))
    for dtype in ("float32", "float16"):
        own = {"za": [9], "sa": [-2], "sb": [3]}
        text, base = (
            f"all sums are 0, a scale is negative: plus zero of {dtype}",
            "negative-float16-rows",
        )
        topic.add(f"zeros-{dtype}", text, "MMF-8", zeros, held, own, "OddScale", dtype, "", base)
