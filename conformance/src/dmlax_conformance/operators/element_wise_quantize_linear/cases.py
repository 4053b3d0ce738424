"""ELEMENT_WISE_QUANTIZE_LINEAR."""

from fractions import Fraction
from itertools import product

from ...format.tensors import Tensor
from ...format.vectors import Request
from .._shared import element_wise_cases as shared
from .._shared import floats as exact
from .._shared.covering import Factors, Row
from .._shared.element_wise_cases import ElementWiseTopic, draw_scales, row, whole, words
from .._shared.floats import Real, exactly, round_half_even
from .._shared.near_ties import Draw
from .._shared.rounding import RANGES, quantize
from .._shared.systematic import PERIOD, each_pair, each_size, repeat, sizes_of
from ..topics import Files, drawn, floats

OPERATOR = "element_wise_quantize_linear"
topics = Files(OPERATOR, ElementWiseTopic)
INF, NAN, ONE = 0x7F800000, 0x7FC00000, 0x3F800000
MINUS = 1 << 31


@topics.file("rounding")
def _rounding(topic: ElementWiseTopic) -> None:
    outputs = (*product(["int8"], (0, 3, -4)), *product(["uint8"], (128, 7)))
    for dtype, (out, zero) in product(("float32", "float16"), outputs):
        x = row(dtype, *(step / 2 for step in range(-11, 12)))
        name = f"ties-{dtype}-{out}-{zero}".replace("--", "-minus-")
        text, own = f"halves of {dtype}, then zero point {zero}", (row(dtype, 1), whole(out, zero))
        topic.add(name, text, "QNT-2 QNT-4", out, "Tie", x, *own)
    given = whole("int32", *range(-9, 10)), row("float32", 2), whole("int8", 1)
    topic.add("ties-int32", "halves from INT32", "QNT-2 QNT-4", "int8", "Tie", *given)
    for out, (low, high) in RANGES.items():
        for zero in (low, high):
            steps = [end - zero + half for end in (low, high) for half in (-1, -0.5, 0, 0.5, 1)]
            x, one = row("float32", *steps, 2.0**127, -(2.0**100)), row("float32", 1)
            name = f"saturation-{out}-{zero}".replace("--", "-minus-")
            text = f"half steps around both ends of {out} with zero point {zero}"
            topic.add(name, text, "QNT-3", out, "Saturation Tie", x, one, whole(out, zero))
    x, flags = whole("int32", 2**31 - 1, -(2**31), 1, -1, 0), "Extreme WideInteger"
    name, text = "int32-extremes", "the ends of INT32 come to 128 and -128; no zero point"
    topic.add(name, text, "QNT-3 QNT-8", "int8", flags, x, row("float32", 2.0**24))
    name, given = f"{name}-uint8", (x, row("float32", 2.0**23), whole("uint8", 255))
    text = "the ends of INT32 leave UINT8 although the zero point draws them back"
    topic.add(name, text, "QNT-3", "uint8", flags, *given)


@topics.file("near-ties")
def _near_ties(topic: ElementWiseTopic) -> None:
    for by, dtype in product(("division", "reciprocal"), ("float32", "float16")):
        x, scale = _misplaced(dtype, by == "reciprocal")
        zero, name = whole("int8", *[1] * len(x.words)), f"{by}-{dtype}"
        text = f"quotients beside a half that a {dtype} {by} misplaces"
        flag = "NearTieFloat32" if dtype == "float32" else "Rounding"
        topic.add(name, text, "QNT-1", "int8", flag, x, scale, zero)
    large = [2**24 + 1, 3 * 2**24 + 1, -(2**24) - 1, 2**25 + 3, 2**24 - 1, 5 * 2**24 + 1]
    x, text = whole("int32", *large), "INT32 beside a half, lost when it becomes FLOAT32"
    topic.add("int32-lost-bit", text, "QNT-1", "int8", "WideInteger", x, row("float32", 2.0**25))
    x, scale = whole("int32", 2**30 + 1, -(2**30) - 1, 2**30 - 1), row("float32", 2.0**31)
    topic.add("int32-half-of-31", "INT32 over 2^31", "QNT-1", "int8", "WideInteger", x, scale)


def _misplaced(dtype: str, is_reciprocal: bool) -> tuple[Tensor, Tensor]:
    """Return twelve inputs and scales for which a float method rounds to the wrong integer."""
    digits = exact.FORMATS[dtype].fraction + 1
    draw = Draw(digits)
    found: list[tuple[int, int]] = []
    while len(found) < 12:
        scale = Fraction(draw.odd(digits), 2**digits)
        tie = Fraction(2 * draw.below(60) + 1, 2)
        x = exact.nearest(Real(bool(draw.below(2)), tie * scale), dtype)
        s = exact.nearest(exactly(scale), dtype)
        quotient = (_by_reciprocal if is_reciprocal else exact.divide)(x, s, dtype)
        if round_half_even(quotient.value) != quantize(x, s.value, 0, "int8"):
            found.append((exact.encode(x, dtype), exact.encode(s, dtype)))
    return words(dtype, *(x for x, _ in found)), words(dtype, *(s for _, s in found))


def _by_reciprocal(x: Real, scale: Real, dtype: str) -> Real:
    return exact.multiply(x, exact.divide(exactly(Fraction(1)), scale, dtype), dtype)


@topics.file("special")
def _special(topic: ElementWiseTopic) -> None:
    x = words("float32", INF, INF | MINUS, 0, MINUS, ONE, ONE | MINUS)
    for (sign, scale), out in product({"positive": 0.5, "negative": -0.5}.items(), RANGES):
        name, text = f"infinity-{sign}-{out}", f"infinities and zeros, {sign} scale"
        own = row("float32", scale), whole(out, 9)
        topic.add(name, text, "QNT-7", out, "SpecialFloat OddScale", x, *own)
    patterns = {"float32": (NAN, 0x7F800001, 0xFFC00000), "float16": (0x7E00, 0x7C01, 0xFE00)}
    for (dtype, nans), (out, (low, high)) in product(patterns.items(), RANGES.items()):
        x, own = words(dtype, nans[0], 0, *nans[1:]), (row(dtype, 1), whole(out, 9))
        why = "the pages do not say what becomes of NaN"
        listed = dict.fromkeys((0, 2, 3), ((low, 9, high), why))
        text = f"quiet, signalling and negative NaN of {dtype} around a zero"
        name, flags = f"nan-{dtype}-{out}", "SpecialFloat"
        topic.add(name, text, "QNT-7", out, flags, x, *own, listed=listed)
    tiny = words("float32", 1, 2, 3, 5, MINUS | 3, 0x007FFFFF, 0x00800000, MINUS | 0x00400000)
    given, flags = (tiny, words("float32", 2)), "SpecialFloat OddScale"
    text = "subnormal inputs over a subnormal scale"
    topic.add("subnormal-both", text, "QNT-1 QNT-6", "int8", flags, *given)
    given = words("float16", 1, 3, 5, 0x03FF, 0x8003), words("float16", 2)
    topic.add("subnormal-float16", f"FLOAT16 {text}", "QNT-1 QNT-6", "int8", flags, *given)
    own = row("float32", 2.0**-126), whole("uint8", 128)
    text = "subnormal inputs over the smallest normal scale"
    topic.add("subnormal-input", text, "QNT-1", "uint8", "SpecialFloat", tiny, *own)
    given = row("float32", 2.0**100, -(2.0**100), 2.0**-126), words("float32", 1)
    text, flags = "quotients too large for FLOAT32, over the smallest scale", "Saturation OddScale"
    topic.add("quotient-overflows", text, "QNT-3", "int8", flags, *given)
    x, own = row("float32", 1, -1, 2.0**-149), (words("float32", 0x7F7FFFFF), whole("int8", 5))
    text = "quotients too small for FLOAT32, over the largest scale"
    topic.add("quotient-vanishes", text, "QNT-1", "int8", "OddScale", x, *own)
    x, own = whole("int32", -5, -3, -1, 0, 1, 3, 5), (row("float32", -2), whole("int8", 2))
    text = "INT32 over a negative scale"
    topic.add("negative-int32", text, "QNT-6", "int8", "OddScale Tie", x, *own)


@topics.file("shapes")
def _shapes(topic: ElementWiseTopic) -> None:
    x = floats("float32", (2, 3, 4), (step * 0.75 for step in range(-12, 12)))
    topic.add_shapes("QNT-5", "int8", x, drawn("uint8", (2, 1, 4), 9, 100, 150), (40, 16))
    scale, flags = draw_scales((1, 3, 1), 40, 16), "Optional Broadcast"
    topic.add("no-zero-point", "no zero point, UINT8", "QNT-8", "uint8", flags, x, scale)
    topic.add_rank_8("QNT-5", "int8", floats("float16", (1, 2, 1, 1, 2, 1, 1, 2), range(-4, 4)))


@topics.file("invalid")
def _invalid(topic: ElementWiseTopic) -> None:
    topic.add_twin("twin", "QNT-5", "uint8", floats("float32", (2, 3), range(6)))
    half, text = row("float16", 1, 2), "the twin: FLOAT16 throughout"
    topic.add("twin-float16", text, "QNT-4", "uint8", "", half, half)
    text, x = "the twin: INT32 with a FLOAT32 scale", whole("int32", 1, 2)
    topic.add("twin-int32", text, "QNT-4", "uint8", "", x, row("float32", 1, 2))
    for base, names in WRONG:
        topic.wrong(base, "data_type", "QNT-4", "{field} is {dtype}", shared.WRONG_TYPES, names)
    text, asked = "an INT16 output is asked for", {"OutputTensor": Request("int16", (2,))}
    topic.invalid("int16-output", text, "QNT-4", "twin-float16", "data_type", asked)
    scales = "scale-2-for-3 scale-grows-input scale-rank-3"
    topic.refuse_sizes("twin", "QNT-5", f"{scales} zero-point-2-for-3 zero-point-grows-input")
    for dtype, end, text in (("float32", "", ""), ("float16", "-float16", " FLOAT16")):
        base, x = f"twin-value{end}", row(dtype, 1, 2)
        topic.refuse_values(base, f"the twin: a known{text} scale", "QNT-6", "uint8", x, dtype)


WRONG = (
    ("twin", "uint8-input int16-input complex-input float16-scale int32-scale"),
    ("twin-float16", "float32-scale"),
    ("twin-int32", "float16-scale-for-int32"),
    ("twin", "int8-zero-point float32-zero-point"),
)


@topics.file("kills")
def _survivors(topic: ElementWiseTopic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    x, scale = _lost_ties()
    zero, clause = whole("int8", *[1] * len(x.words)), "QNT-1 QNT-2"
    text = "FLOAT16 ties that a reciprocal in FLOAT32 misplaces"
    topic.add("float16-reciprocal-ties", text, clause, "int8", "Tie", x, scale, zero)
    cube = floats("float32", (3, 3, 3), (step * 0.75 for step in range(-13, 14)))
    topic.add_survivors("QNT-5", "int8", cube, "int8", [-40, 0, 40])
    topic.add_twin("twin-kills", "QNT-5", "uint8", floats("float32", (2, 3), range(6)))
    topic.refuse_sizes("twin-kills", "QNT-5", "zero-point-rank-3")


def _lost_ties() -> tuple[Tensor, Tensor]:
    """Return twelve exact ties x / scale for which x * (1 / scale) in FLOAT32 is not one."""
    draw = Draw(7)
    found: list[tuple[int, int]] = []
    while len(found) < 12:
        scale, steps = draw.odd(6), 2 * draw.below(15) + 1
        x, s = exactly(Fraction(scale * steps, 2)), exactly(Fraction(scale))
        rounded = round_half_even(_by_reciprocal(x, s, "float32").value)
        if rounded != round_half_even(Fraction(steps, 2)):
            found.append((exact.encode(x, "float16"), exact.encode(s, "float16")))
    return words("float16", *(x for x, _ in found)), words("float16", *(s for _, s in found))


FACTORS: Factors = {
    "input": ("float32", "float16", "int32"),
    "output": ("uint8", "int8"),
    "scale": shared.PARAMETERS[1:],
    "zero point": shared.PARAMETERS,
    "rank": ("1", "2", "4"),
    "elements": ("few", "129", "255"),
}
APART = shared.APART


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: ElementWiseTopic, name: str, text: str, options: Row, number: int) -> None:
    sizes, dtype = shared.SIZES[options["elements"]][options["rank"]], options["input"]
    x, scale = drawn("int32", sizes, 940 + number, -600, 600), "float32"
    if dtype != "int32":
        x, scale = floats(dtype, sizes, (word / 8 for word in x.words)), dtype
    own = shared.parameters(options, scale, options["output"], number)
    topic.add(name, text, "QNT-1 QNT-4 QNT-5", options["output"], "", x, *own)


@topics.file("size-classes")
@each_size
def _of_size(topic: ElementWiseTopic, count: int, number: int) -> None:
    whole = drawn("int32", (PERIOD,), 680 + number, -600, 600)
    x = repeat(floats("float32", (PERIOD,), (w / 8 for w in whole.words)), sizes_of(count))
    dtype, clauses = ("uint8", "int8")[number % 2], ("QNT-1 QNT-5", "QNT-5")
    topic.add_size(count, x, dtype, (dtype, 700 + number), clauses)
