"""ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from fractions import Fraction

from ...format.tensors import DTYPES
from .._shared import element_wise_cases as shared
from .._shared.covering import Factors, Row
from .._shared.element_wise_cases import ElementWiseTopic, row, whole, words
from .._shared.floats import encode, exactly, nearest
from .._shared.near_ties import Draw
from .._shared.systematic import PERIOD, each_pair, each_size, repeat, sizes_of
from ..topics import Files, bits, drawn, ints

OPERATOR = "element_wise_dequantize_linear"
topics = Files(OPERATOR, ElementWiseTopic)
INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


@topics.file("types")
def _types(topic: ElementWiseTopic) -> None:
    for dtype in INTEGERS:
        low, high = DTYPES[dtype].low, DTYPES[dtype].high
        x, zero = whole(dtype, low, high, 0, 1, high // 2, low + 1), whole(dtype, high // 3)
        for scale in ("float32", "float16"):
            text, clause = f"{dtype} to {scale} at the ends of the range", "DQT-1 DQT-2 DQT-3"
            given = x, row(scale, 0.375), zero
            topic.add(f"{dtype}-{scale}", text, clause, scale, "Extreme", *given)
        name, text = f"{dtype}-no-zero-point", f"{dtype} without a zero point"
        three_eighths = row("float32", 0.375)
        topic.add(name, text, "DQT-6", "float32", "Extreme Optional", x, three_eighths)


@topics.file("rounding")
def _rounding(topic: ElementWiseTopic) -> None:
    _add_wide(topic)
    _add_double_rounding(topic)
    steps, flags = whole("int8", -128, -3, -1, 1, 2, 3, 127), "SpecialFloat OddScale"
    for dtype, end, text in (
        ("float32", "", "results at or near the subnormal range"),
        ("float16", "-float16", "FLOAT16 results near the subnormal range"),
    ):
        for name, word in SMALL[dtype].items():
            about = f"{text}: scale is the {name.replace('-', ' ')}"
            scale = words(dtype, word)
            topic.add(f"subnormal-{name}{end}", about, "DQT-1", dtype, flags, steps, scale)
    _add_float16(topic)
    x, scale = whole("int8", 7, -7, 7, 7), row("float32", -2.5, -2.5, 2.5, 2.5)
    text, flags = "a difference of zero gives plus zero, whatever the sign of the scale", "OddScale"
    given = x, scale, whole("int8", 7, -7, 7, 6)
    topic.add("plus-zero", text, "DQT-1", "float32", f"{flags} SpecialFloat", *given)
    given = whole("int8", -3, -1, 0, 1, 3), words("float32", 0xBDCCCCCD), whole("int8", 1)
    text = "a negative scale of -0.1"
    topic.add("negative-scale", text, "DQT-1 DQT-5", "float32", flags, *given)
    x, scale = whole("int8", -128, -2, 2, 127), words("float32", 0x7F7FFFFF)
    name, text = "overflow-float32", "the largest scale overflows to both infinities"
    topic.add(name, text, "DQT-1", "float32", f"{flags} SpecialFloat", x, scale)


SMALL = {
    "float32": {"smallest": 1, "largest-subnormal": 0x007FFFFF, "smallest-normal": 0x00800000},
    "float16": {"smallest": 1, "largest-subnormal": 0x03FF, "smallest-normal": 0x0400},
}


def _add_wide(topic: ElementWiseTopic) -> None:
    low, high = -(2**31), 2**31 - 1
    x = whole("int32", high, low, 2**24 + 1, 2**24 + 3, 2**25 + 5, -(2**24) - 1)
    text = "integers that FLOAT32 cannot hold, over a scale of 1"
    flags, one = "WideInteger Rounding Tie", row("float32", 1)
    topic.add("int32-beyond-24-bits", text, "DQT-1", "float32", flags, x, one)
    x, zero = whole("int32", high, low, high, -2), whole("int32", low, high, -1, high)
    text, flags = "differences that leave 32 bits and must not wrap", "WideInteger Extreme"
    name, clause, half = "int32-difference-33-bits", "DQT-1 DQT-2", row("float32", 0.5)
    topic.add(name, text, clause, "float32", flags, x, half, zero)
    x, zero = whole("uint32", 0, 2**32 - 1, 5, 2**31), whole("uint32", 2**32 - 1, 0, 6, 2**31 + 1)
    name, text = "uint32-negative-difference", "unsigned differences below zero"
    topic.add(name, text, clause, "float32", flags, x, row("float32", 2), zero)
    given = whole("int32", 2**24 + 1, 2**30 + 1), one, whole("int32", 2**24, 2**30)
    text = "a difference of 1 between integers that FLOAT32 cannot tell apart"
    topic.add("int32-subtract-first", text, "DQT-1", "float32", "WideInteger", *given)
    x = drawn("int32", (16,), 4, low, high)
    scale = bits("float32", (16,), [0x3DCCCCCD + 99991 * i for i in range(16)])
    text = "31-bit integers times full mantissas: the product is rounded once"
    topic.add("int32-round-once", text, "DQT-1", "float32", "WideInteger Rounding", x, scale)


def _add_double_rounding(topic: ElementWiseTopic) -> None:
    """Choose factors whose product float64 rounds to a tie of float32, which it is not."""
    draw = Draw(6)
    found: list[tuple[int, int]] = []
    while len(found) < 12:
        mantissa, step = draw.odd(24), (1, -1, 3, -3)[draw.below(4)]
        x = (2**31 + step) * pow(mantissa, -1, 2**32) % 2**32
        product = exactly(Fraction(x * mantissa))
        if encode(nearest(product, "float64"), "float32") != encode(product, "float32"):
            found.append((x, mantissa))
    given = whole("uint32", *(x for x, _ in found)), row("float32", *(s for _, s in found))
    text = "products beside a tie of FLOAT32 that rounding to FLOAT64 first would create"
    name, flags = "double-rounding-float64", "WideInteger Rounding"
    topic.add(name, text, "DQT-1", "float32", flags, *given)


def _add_float16(topic: ElementWiseTopic) -> None:
    one, flags = row("float16", 1), "Rounding Tie SpecialFloat"
    x = whole("int32", 65504, 65519, 65520, 65521, -65519, -65520, 2**31 - 1)
    text = "around the largest FLOAT16: the tie at 65520 goes to infinity"
    topic.add("overflow-float16", text, "DQT-1 DQT-3", "float16", flags, x, one)
    x = whole("int32", (2049 << 13) + 1, 2049 << 13, (2051 << 13) - 1, -(2049 << 13) - 1)
    text = "beside a tie of FLOAT16 that rounding to FLOAT32 first would create"
    name, flags, scale = "double-rounding-float16", "Rounding WideInteger", row("float16", 2.0**-14)
    topic.add(name, text, "DQT-1", "float16", flags, x, scale)
    x = whole("int16", 2047, 2048, 2049, 2050, 2051, 4097, 4098, 4099, 4102, -2049, -2051)
    text = "integers that FLOAT16 rounds, with ties of both parities"
    topic.add("ties-float16", text, "DQT-1", "float16", "Rounding Tie", x, one)
    given = whole("uint8", *range(3, 255, 12)), words("float16", 0x2E66), whole("uint8", 131)
    name, text = "products-float16", "products of 8 by 11 bits in FLOAT16"
    topic.add(name, text, "DQT-1", "float16", "Rounding Broadcast", *given)


@topics.file("shapes")
def _shapes(topic: ElementWiseTopic) -> None:
    x, zero = drawn("uint8", (2, 3, 4), 3, 0, 255), drawn("uint8", (2, 1, 4), 9, 100, 150)
    without = ("axes-0-2", "rank-1-single")
    topic.add_shapes("DQT-4", "float32", x, zero, (2**20, 2**21), without)
    topic.add_rank_8("DQT-4", "float16", ints("int16", (1, 2, 1, 1, 2, 1, 1, 2), range(-4, 4)))


@topics.file("invalid")
def _invalid(topic: ElementWiseTopic) -> None:
    topic.add_twin("twin", "DQT-4", "float32", ints("uint8", (2, 3), range(6)))
    for clause, names in WRONG:
        topic.wrong("twin", "data_type", clause, "{field} is {dtype}", shared.WRONG_TYPES, names)
    x, text = whole("int32", 1, 2), "the twin: INT32 without a zero point"
    topic.add("twin-int32", text, "DQT-6", "float32", "", x, row("float32", 1, 2))
    for name, text, clause, field, tensor in (
        ("int64-input", "an INT64 input", "DQT-2", "InputTensor", whole("int64", 1, 2)),
        ("float64-scale", "a FLOAT64 scale", "DQT-3", "ScaleTensor", row("float64", 1, 2)),
    ):
        need = f"dtype:{tensor.dtype}"
        topic.invalid(name, text, clause, "twin-int32", "data_type", {field: tensor}, requires=need)
    topic.refuse_sizes("twin", "DQT-4", "scale-2-for-3 scale-grows-input zero-point-2-for-3")
    for dtype in ("float32", "float16"):
        base, text = f"twin-value-{dtype}", f"the twin: a known {dtype} scale"
        topic.refuse_values(base, text, "DQT-5", dtype, whole("int8", 1, 2), dtype)


WRONG = (
    ("DQT-2", "float32-input complex-input"),
    ("DQT-3", "int32-scale"),
    ("DQT-2", "int8-zero-point float32-zero-point"),
)


@topics.file("kills")
def _survivors(topic: ElementWiseTopic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    cube = drawn("uint8", (3, 3, 3), 103, 0, 255)
    topic.add_survivors("DQT-4", "float32", cube, "uint8", [40, 0, 200])
    topic.add_twin("twin-kills", "DQT-4", "float32", ints("uint8", (2, 3), range(6)))
    names = "zero-point-grows-input scale-rank-3 zero-point-rank-3"
    topic.refuse_sizes("twin-kills", "DQT-4", names)


FACTORS: Factors = {
    "input": ("int8", "uint8", "int16", "uint16", "int32", "uint32"),
    "output": ("float32", "float16"),
    "scale": shared.PARAMETERS[1:],
    "zero point": shared.PARAMETERS,
    "rank": ("1", "2", "4"),
    "elements": ("few", "129"),
}
APART = shared.APART


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: ElementWiseTopic, name: str, text: str, options: Row, number: int) -> None:
    sizes, dtype = shared.SIZES[options["elements"]][options["rank"]], options["input"]
    x = drawn(dtype, sizes, 930 + number, DTYPES[dtype].low, DTYPES[dtype].high)
    own = shared.parameters(options, options["output"], dtype, number)
    topic.add(name, text, "DQT-1 DQT-2 DQT-3 DQT-4", options["output"], "", x, *own)


@topics.file("size-classes")
@each_size
def _of_size(topic: ElementWiseTopic, count: int, number: int) -> None:
    dtype = ("uint8", "int8", "int16", "uint16")[number % 4]
    x = repeat(drawn(dtype, (PERIOD,), 720 + number, 0, 127), sizes_of(count))
    topic.add_size(count, x, "float32", (dtype, 740 + number), ("DQT-1 DQT-4", "DQT-4"))
