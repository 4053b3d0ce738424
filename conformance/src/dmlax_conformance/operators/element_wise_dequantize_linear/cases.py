"""ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from fractions import Fraction

from ...format.tensors import DTYPES, Tensor
from .._shared.element_wise_cases import add, add_too_deep, add_values, operands, row, whole, words
from .._shared.floats import encode, exactly, nearest
from .._shared.near_ties import Draw
from ..topics import Files, Topic, bits, drawn, floats, ints

OPERATOR = "element_wise_dequantize_linear"
topics = Files(OPERATOR, Topic)
INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


@topics.file("types")
def _types(topic: Topic) -> None:
    for dtype in INTEGERS:
        low, high = DTYPES[dtype].low, DTYPES[dtype].high
        x = whole(dtype, low, high, 0, 1, high // 2, low + 1)
        for scale in ("float32", "float16"):
            given = operands(x, row(scale, 0.375), whole(dtype, high // 3))
            text = f"{dtype} to {scale} at the ends of the range"
            add(topic, f"{dtype}-{scale}", text, "DQT-1 DQT-2 DQT-3", given, scale, "Extreme")
        given = operands(x, row("float32", 0.375))
        text = f"{dtype} without a zero point"
        add(topic, f"{dtype}-no-zero-point", text, "DQT-6", given, "float32", "Extreme Optional")


@topics.file("rounding")
def _rounding(topic: Topic) -> None:
    _wide(topic)
    _double_rounding(topic)
    _small(topic)
    _float16(topic)
    zeros = operands(
        whole("int8", 7, -7, 7, 7), row("float32", -2.5, -2.5, 2.5, 2.5), whole("int8", 7, -7, 7, 6)
    )
    text = "a difference of zero gives plus zero, whatever the sign of the scale"
    add(topic, "plus-zero", text, "DQT-1", zeros, "float32", "OddScale SpecialFloat")
    given = operands(whole("int8", -3, -1, 0, 1, 3), words("float32", 0xBDCCCCCD), whole("int8", 1))
    text = "a negative scale of -0.1"
    add(topic, "negative-scale", text, "DQT-1 DQT-5", given, "float32", "OddScale")
    given = operands(whole("int8", -128, -2, 2, 127), words("float32", 0x7F7FFFFF))
    text = "the largest scale overflows to both infinities"
    add(topic, "overflow-float32", text, "DQT-1", given, "float32", "OddScale SpecialFloat")


def _wide(topic: Topic) -> None:
    ends = operands(
        whole("int32", 2**31 - 1, -(2**31), 2**24 + 1, 2**24 + 3, 2**25 + 5, -(2**24) - 1),
        words("float32", 0x3F800000),
    )
    text = "integers that FLOAT32 cannot hold, over a scale of 1"
    add(topic, "int32-beyond-24-bits", text, "DQT-1", ends, "float32", "WideInteger Rounding Tie")
    given = operands(
        whole("int32", 2**31 - 1, -(2**31), 2**31 - 1, -2),
        row("float32", 0.5),
        whole("int32", -(2**31), 2**31 - 1, -1, 2**31 - 1),
    )
    text = "differences that leave 32 bits and must not wrap"
    name = "int32-difference-33-bits"
    add(topic, name, text, "DQT-1 DQT-2", given, "float32", "WideInteger Extreme")
    given = operands(
        whole("uint32", 0, 2**32 - 1, 5, 2**31),
        row("float32", 2.0),
        whole("uint32", 2**32 - 1, 0, 6, 2**31 + 1),
    )
    text = "unsigned differences below zero"
    flags = "WideInteger Extreme"
    add(topic, "uint32-negative-difference", text, "DQT-1 DQT-2", given, "float32", flags)
    given = operands(
        whole("int32", 2**24 + 1, 2**30 + 1), row("float32", 1.0), whole("int32", 2**24, 2**30)
    )
    text = "a difference of 1 between integers that FLOAT32 cannot tell apart"
    add(topic, "int32-subtract-first", text, "DQT-1", given, "float32", "WideInteger")
    odd = drawn("int32", (16,), 4, -(2**31), 2**31 - 1)
    given = operands(odd, bits("float32", (16,), [0x3DCCCCCD + 99991 * i for i in range(16)]))
    text = "31-bit integers times full mantissas: the product is rounded once"
    add(topic, "int32-round-once", text, "DQT-1", given, "float32", "WideInteger Rounding")


def _double_rounding(topic: Topic) -> None:
    """Choose factors whose product float64 rounds to a tie of float32, which it is not."""
    draw = Draw(6)
    found: list[tuple[int, int]] = []
    while len(found) < 12:
        mantissa, step = draw.odd(24), (1, -1, 3, -3)[draw.below(4)]
        x = (2**31 + step) * pow(mantissa, -1, 2**32) % 2**32
        product = exactly(Fraction(x * mantissa))
        if encode(nearest(product, "float64"), "float32") != encode(product, "float32"):
            found.append((x, mantissa))
    given = operands(
        whole("uint32", *(x for x, _ in found)), row("float32", *(s for _, s in found))
    )
    text = "products beside a tie of FLOAT32 that rounding to FLOAT64 first would create"
    add(topic, "double-rounding-float64", text, "DQT-1", given, "float32", "WideInteger Rounding")


def _small(topic: Topic) -> None:
    steps = whole("int8", -128, -3, -1, 1, 2, 3, 127)
    scales = {"smallest": 1, "largest-subnormal": 0x007FFFFF, "smallest-normal": 0x00800000}
    for name, word in scales.items():
        given = operands(steps, words("float32", word))
        text = f"results at or near the subnormal range: scale is the {name.replace('-', ' ')}"
        add(topic, f"subnormal-{name}", text, "DQT-1", given, "float32", "SpecialFloat OddScale")
    scales = {"smallest": 1, "largest-subnormal": 0x03FF, "smallest-normal": 0x0400}
    for name, word in scales.items():
        given = operands(steps, words("float16", word))
        text = f"FLOAT16 results near the subnormal range: scale is the {name.replace('-', ' ')}"
        flags = "SpecialFloat OddScale"
        add(topic, f"subnormal-{name}-float16", text, "DQT-1", given, "float16", flags)


def _float16(topic: Topic) -> None:
    x = whole("int32", 65504, 65519, 65520, 65521, -65519, -65520, 2**31 - 1)
    given = operands(x, row("float16", 1.0))
    text = "around the largest FLOAT16: the tie at 65520 goes to infinity"
    flags = "Rounding Tie SpecialFloat"
    add(topic, "overflow-float16", text, "DQT-1 DQT-3", given, "float16", flags)
    x = whole("int32", (2049 << 13) + 1, 2049 << 13, (2051 << 13) - 1, -(2049 << 13) - 1)
    given = operands(x, row("float16", 2.0**-14))
    text = "beside a tie of FLOAT16 that rounding to FLOAT32 first would create"
    add(topic, "double-rounding-float16", text, "DQT-1", given, "float16", "Rounding WideInteger")
    x = whole("int16", 2047, 2048, 2049, 2050, 2051, 4097, 4098, 4099, 4102, -2049, -2051)
    given = operands(x, row("float16", 1.0))
    text = "integers that FLOAT16 rounds, with ties of both parities"
    add(topic, "ties-float16", text, "DQT-1", given, "float16", "Rounding Tie")
    x = whole("uint8", *range(3, 255, 12))
    given = operands(x, words("float16", 0x2E66), whole("uint8", 131))
    text = "products of 8 by 11 bits in FLOAT16"
    add(topic, "products-float16", text, "DQT-1", given, "float16", "Rounding Broadcast")


@topics.file("shapes")
def _shapes(topic: Topic) -> None:
    x = drawn("uint8", (2, 3, 4), 3, 0, 255)
    parameters = {
        "each-element": (2, 3, 4),
        "axis-0": (2, 1, 1),
        "axis-1": (1, 3, 1),
        "axis-2": (1, 1, 4),
        "single": (1, 1, 1),
        "lower-rank": (3, 4),
        "rank-0": (),
    }
    for name, sizes in parameters.items():
        given = operands(x, _scales(sizes), drawn("uint8", sizes, 8, 100, 150))
        flags = "" if name == "each-element" else "Broadcast"
        text = f"scale and zero point of sizes {list(sizes)}"
        add(topic, name, text, "DQT-4", given, "float32", flags)
    given = operands(x, _scales((1, 3, 1)), drawn("uint8", (2, 1, 4), 9, 100, 150))
    text = "scale and zero point repeat along different axes"
    add(topic, "different-axes", text, "DQT-4", given, "float32", "Broadcast")
    eight = ints("int16", (1, 2, 1, 1, 2, 1, 1, 2), range(-4, 4))
    given = operands(eight, floats("float16", eight.sizes, [0.5] * 8))
    add(topic, "rank-8", "rank 8, every size equal", "DQT-4", given, "float16")


def _scales(sizes: tuple[int, ...]) -> Tensor:
    mantissas = drawn("int32", sizes, 17, 1, 2**20).words
    return floats("float32", sizes, (mantissa / 2**21 for mantissa in mantissas))


@topics.file("invalid")
def _invalid(topic: Topic) -> None:
    x, zero = ints("uint8", (2, 3), range(6)), ints("uint8", (1, 3), [1, 2, 3])
    given = operands(x, floats("float32", (1, 3), [1, 2, 3]), zero)
    text = "the twin: scale and zero point for each column"
    add(topic, "twin", text, "DQT-4", given, "float32", "Broadcast")
    cases = {
        "float32-input": ("DQT-2", "InputTensor", floats("float32", (2, 3), range(6))),
        "complex-input": ("DQT-2", "InputTensor", bits("complex64", (2, 3), [0x3F800000] * 6)),
        "int32-scale": ("DQT-3", "ScaleTensor", ints("int32", (1, 3), [1, 2, 3])),
        "int8-zero-point": ("DQT-2", "ZeroPointTensor", ints("int8", (1, 3), [1, 2, 3])),
        "float32-zero-point": ("DQT-2", "ZeroPointTensor", floats("float32", (1, 3), [1, 2, 3])),
    }
    topic.wrong("twin", "data_type", "{field} is {dtype}", cases)
    _invalid_wide(topic)
    _invalid_sizes(topic)
    for dtype in ("float32", "float16"):
        known = operands(whole("int8", 1, 2), row(dtype, 1))
        text, flags = f"the twin: a known {dtype} scale", "KnownValue Broadcast"
        add(topic, f"twin-value-{dtype}", text, "DQT-5", known, dtype, flags, "values:known")
        add_values(topic, f"twin-value-{dtype}", dtype, "DQT-5")


def _invalid_wide(topic: Topic) -> None:
    given = operands(whole("int32", 1, 2), row("float32", 1, 2))
    add(topic, "twin-int32", "the twin: INT32 without a zero point", "DQT-6", given, "float32")
    for name, text, clause, field, tensor in (
        ("int64-input", "an INT64 input", "DQT-2", "InputTensor", whole("int64", 1, 2)),
        ("float64-scale", "a FLOAT64 scale", "DQT-3", "ScaleTensor", row("float64", 1, 2)),
    ):
        error, need = ("data_type", field), f"dtype:{tensor.dtype}"
        topic.invalid(name, text, clause, "twin-int32", error, {field: tensor}, requires=need)


def _invalid_sizes(topic: Topic) -> None:
    cases = {
        "scale-2-for-3": ("DQT-4", "ScaleTensor", floats("float32", (1, 2), [1, 2])),
        "scale-grows-input": ("DQT-4", "ScaleTensor", floats("float32", (4, 3), [1] * 12)),
        "zero-point-2-for-3": ("DQT-4", "ZeroPointTensor", ints("uint8", (1, 2), [1, 2])),
    }
    topic.wrong("twin", "sizes", "{field} of sizes {sizes} does not repeat to [2, 3]", cases)


@topics.file("kills")
def _survivors(topic: Topic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    cube = drawn("uint8", (3, 3, 3), 103, 0, 255)
    scales = floats("float32", (1, 1, 3), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("uint8", (1, 3, 1), [40, 0, 200]))
    text = "every axis has 3 places; the scale is for axis 2, the zero point for axis 1"
    add(topic, "every-axis-3", text, "DQT-4", given, "float32", "Broadcast")
    scales = floats("float32", (3,), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("uint8", (3, 1), [40, 0, 200]))
    text = "every axis has 3 places; parameters of lower rank align on the right"
    add(topic, "every-axis-3-lower-rank", text, "DQT-4", given, "float32", "Broadcast")
    base = "twin-kills"
    plane = ints("uint8", (2, 3), range(6))
    given = operands(plane, floats("float32", (1, 3), [1, 2, 3]), ints("uint8", (1, 3), [1, 2, 3]))
    text = "the twin: scale and zero point for each column"
    add(topic, base, text, "DQT-4", given, "float32", "Broadcast")
    error, field = ("sizes", "ZeroPointTensor"), "ZeroPointTensor"
    text = "ZeroPointTensor of sizes [4, 3] does not repeat to [2, 3]"
    tensor = {field: ints("uint8", (4, 3), [1] * 12)}
    topic.invalid("zero-point-grows-input", text, "DQT-4", base, error, tensor)
    deep = {
        "ScaleTensor": floats("float32", (1, 1, 3), [1, 2, 3]),
        "ZeroPointTensor": ints("uint8", (1, 1, 3), [1, 2, 3]),
    }
    add_too_deep(topic, base, "DQT-4", deep)
