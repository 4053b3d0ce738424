"""ELEMENT_WISE_QUANTIZE_LINEAR."""

from fractions import Fraction

from ...format.tensors import Tensor
from ...format.vectors import Request
from .._shared import floats as exact
from .._shared.element_wise_cases import add, add_too_deep, add_values, operands, row, whole, words
from .._shared.floats import Real, round_half_even
from .._shared.near_ties import Draw
from .._shared.rounding import quantize
from .._shared.window_cases import SIDES
from ..topics import Files, Topic, bits, drawn, floats, ints

OPERATOR = "element_wise_quantize_linear"
topics = Files(OPERATOR, Topic)
INF, NAN, ONE = 0x7F800000, 0x7FC00000, 0x3F800000
MINUS = 1 << 31


@topics.file("rounding")
def _rounding(topic: Topic) -> None:
    for dtype in ("float32", "float16"):
        for out, points in {"int8": (0, 3, -4), "uint8": (128, 7)}.items():
            for zero in points:
                x = row(dtype, *(step / 2 for step in range(-11, 12)))
                given = operands(x, row(dtype, 1.0), whole(out, zero))
                name = f"ties-{dtype}-{out}-{zero}".replace("--", "-minus-")
                text = f"halves of {dtype}, then zero point {zero}"
                add(topic, name, text, "QNT-2 QNT-4", given, out, "Tie")
    given = operands(whole("int32", *range(-9, 10)), row("float32", 2.0), whole("int8", 1))
    add(topic, "ties-int32", "halves from INT32", "QNT-2 QNT-4", given, "int8", "Tie")
    _saturation(topic)


def _saturation(topic: Topic) -> None:
    for out, (low, high) in SIDES.items():
        for zero in (low, high):
            steps = [end - zero + half for end in (low, high) for half in (-1, -0.5, 0, 0.5, 1)]
            given = operands(row("float32", *steps, 2.0**127, -(2.0**100)), row("float32", 1.0))
            given["ZeroPointTensor"] = whole(out, zero)
            name = f"saturation-{out}-{zero}".replace("--", "-minus-")
            text = f"half steps around both ends of {out} with zero point {zero}"
            add(topic, name, text, "QNT-3", given, out, "Saturation Tie")
    extremes = whole("int32", 2**31 - 1, -(2**31), 1, -1, 0)
    given = operands(extremes, row("float32", 2.0**24))
    text = "the ends of INT32 come to 128 and -128; no zero point"
    add(topic, "int32-extremes", text, "QNT-3 QNT-8", given, "int8", "Extreme WideInteger")
    given = operands(extremes, row("float32", 2.0**23), whole("uint8", 255))
    text = "the ends of INT32 leave UINT8 although the zero point draws them back"
    add(topic, "int32-extremes-uint8", text, "QNT-3", given, "uint8", "Extreme WideInteger")


@topics.file("near-ties")
def _near_ties(topic: Topic) -> None:
    for name, method in {"division": _divided, "reciprocal": _by_reciprocal}.items():
        for dtype in ("float32", "float16"):
            x, scale = _misplaced(dtype, method)
            given = operands(x, scale, ints("int8", x.sizes, [1] * len(x.words)))
            text = f"quotients beside a half that a {dtype} {name} misplaces"
            flag = "NearTieFloat32" if dtype == "float32" else "Rounding"
            add(topic, f"{name}-{dtype}", text, "QNT-1", given, "int8", flag)
    large = [2**24 + 1, 3 * 2**24 + 1, -(2**24) - 1, 2**25 + 3, 2**24 - 1, 5 * 2**24 + 1]
    given = operands(whole("int32", *large), row("float32", 2.0**25))
    text = "INT32 beside a half, lost when it becomes FLOAT32"
    add(topic, "int32-lost-bit", text, "QNT-1", given, "int8", "WideInteger")
    given = operands(whole("int32", 2**30 + 1, -(2**30) - 1, 2**30 - 1), row("float32", 2.0**31))
    add(topic, "int32-half-of-31", "INT32 over 2^31", "QNT-1", given, "int8", "WideInteger")


def _misplaced(dtype: str, method: object) -> tuple[Tensor, Tensor]:
    """Return twelve inputs and scales for which a float method rounds to the wrong integer."""
    digits = exact.FORMATS[dtype].fraction + 1
    draw = Draw(digits)
    found: list[tuple[int, int]] = []
    while len(found) < 12:
        scale = Fraction(draw.odd(digits), 2**digits)
        tie = Fraction(2 * draw.below(60) + 1, 2)
        x = exact.nearest(Real(bool(draw.below(2)), tie * scale), dtype)
        s = exact.nearest(exact.exactly(scale), dtype)
        if round_half_even(method(x, s, dtype).value) != quantize(x, s.value, 0, "int8"):  # type: ignore[operator]
            found.append((exact.encode(x, dtype), exact.encode(s, dtype)))
    return words(dtype, *(x for x, _ in found)), words(dtype, *(s for _, s in found))


def _divided(x: Real, scale: Real, dtype: str) -> Real:
    return exact.divide(x, scale, dtype)


def _by_reciprocal(x: Real, scale: Real, dtype: str) -> Real:
    return exact.multiply(x, exact.divide(exact.exactly(Fraction(1)), scale, dtype), dtype)


@topics.file("special")
def _special(topic: Topic) -> None:
    x = words("float32", INF, INF | MINUS, 0, MINUS, ONE, ONE | MINUS)
    for name, scale in {"positive": 0.5, "negative": -0.5}.items():
        for out in SIDES:
            given = operands(x, row("float32", scale), whole(out, 9))
            text = f"infinities and zeros, {name} scale"
            add(topic, f"infinity-{name}-{out}", text, "QNT-7", given, out, "SpecialFloat OddScale")
    _nan(topic)
    tiny = words("float32", 1, 2, 3, 5, MINUS | 3, 0x007FFFFF, 0x00800000, MINUS | 0x00400000)
    given = operands(tiny, words("float32", 2))
    text = "subnormal inputs over a subnormal scale"
    add(topic, "subnormal-both", text, "QNT-1 QNT-6", given, "int8", "SpecialFloat OddScale")
    given = operands(words("float16", 1, 3, 5, 0x03FF, 0x8003), words("float16", 2))
    text = "FLOAT16 subnormal inputs over a subnormal scale"
    add(topic, "subnormal-float16", text, "QNT-1 QNT-6", given, "int8", "SpecialFloat OddScale")
    given = operands(tiny, row("float32", 2.0**-126), whole("uint8", 128))
    text = "subnormal inputs over the smallest normal scale"
    add(topic, "subnormal-input", text, "QNT-1", given, "uint8", "SpecialFloat")
    given = operands(row("float32", 2.0**100, -(2.0**100), 2.0**-126), words("float32", 1))
    text = "quotients too large for FLOAT32, over the smallest scale"
    add(topic, "quotient-overflows", text, "QNT-3", given, "int8", "Saturation OddScale")
    given = operands(
        row("float32", 1, -1, 2.0**-149), words("float32", 0x7F7FFFFF), whole("int8", 5)
    )
    text = "quotients too small for FLOAT32, over the largest scale"
    add(topic, "quotient-vanishes", text, "QNT-1", given, "int8", "OddScale")
    given = operands(whole("int32", -5, -3, -1, 0, 1, 3, 5), row("float32", -2.0), whole("int8", 2))
    text = "INT32 over a negative scale"
    add(topic, "negative-int32", text, "QNT-6", given, "int8", "OddScale Tie")


def _nan(topic: Topic) -> None:
    patterns = {"float32": (NAN, 0x7F800001, 0xFFC00000), "float16": (0x7E00, 0x7C01, 0xFE00)}
    for dtype, nans in patterns.items():
        for out, (low, high) in SIDES.items():
            x = words(dtype, nans[0], 0, nans[1], nans[2])
            given = operands(x, row(dtype, 1.0), whole(out, 9))
            why = "the pages do not say what becomes of NaN"
            listed = dict.fromkeys((0, 2, 3), ((low, 9, high), why))
            text = f"quiet, signalling and negative NaN of {dtype} around a zero"
            name = f"nan-{dtype}-{out}"
            add(topic, name, text, "QNT-7", given, out, "SpecialFloat", listed=listed)


@topics.file("shapes")
def _shapes(topic: Topic) -> None:
    x = floats("float32", (2, 3, 4), (step * 0.75 for step in range(-12, 12)))
    parameters = {
        "each-element": (2, 3, 4),
        "axis-0": (2, 1, 1),
        "axis-1": (1, 3, 1),
        "axis-2": (1, 1, 4),
        "axes-0-2": (2, 1, 4),
        "single": (1, 1, 1),
        "lower-rank": (3, 4),
        "rank-1-single": (1,),
        "rank-0": (),
    }
    for name, sizes in parameters.items():
        given = operands(x, _scales(sizes), drawn("int8", sizes, 8, -9, 9))
        flags = "" if name == "each-element" else "Broadcast"
        text = f"scale and zero point of sizes {list(sizes)}"
        add(topic, name, text, "QNT-5", given, "int8", flags)
    given = operands(x, _scales((1, 3, 1)), drawn("uint8", (2, 1, 4), 9, 100, 150))
    text = "scale and zero point repeat along different axes"
    add(topic, "different-axes", text, "QNT-5", given, "uint8", "Broadcast")
    given = operands(x, _scales((1, 3, 1)))
    text = "no zero point, UINT8"
    add(topic, "no-zero-point", text, "QNT-8", given, "uint8", "Optional Broadcast")
    eight = floats("float16", (1, 2, 1, 1, 2, 1, 1, 2), range(-4, 4))
    given = operands(eight, floats("float16", eight.sizes, [0.5] * 8))
    add(topic, "rank-8", "rank 8, every size equal", "QNT-5", given, "int8")


def _scales(sizes: tuple[int, ...]) -> Tensor:
    mantissas = drawn("int32", sizes, 17, 1, 40).words
    return floats("float32", sizes, (mantissa / 16 for mantissa in mantissas))


@topics.file("invalid")
def _invalid(topic: Topic) -> None:
    x = floats("float32", (2, 3), range(6))
    given = operands(x, floats("float32", (1, 3), [1, 2, 3]), ints("uint8", (1, 3), [1, 2, 3]))
    text = "the twin: scale and zero point for each column"
    add(topic, "twin", text, "QNT-5", given, "uint8", "Broadcast")
    half = operands(floats("float16", (2,), [1, 2]), floats("float16", (2,), [1, 2]))
    add(topic, "twin-float16", "the twin: FLOAT16 throughout", "QNT-4", half, "uint8")
    integer = operands(whole("int32", 1, 2), row("float32", 1, 2))
    add(topic, "twin-int32", "the twin: INT32 with a FLOAT32 scale", "QNT-4", integer, "uint8")
    _invalid_types(topic)
    _invalid_sizes(topic)
    known = operands(row("float32", 1, 2), row("float32", 1))
    text, flags = "the twin: a known scale", "KnownValue Broadcast"
    add(topic, "twin-value", text, "QNT-6", known, "uint8", flags, "values:known")
    add_values(topic, "twin-value", "float32", "QNT-6")
    known = operands(row("float16", 1, 2), row("float16", 1))
    text = "the twin: a known FLOAT16 scale"
    add(topic, "twin-value-float16", text, "QNT-6", known, "uint8", flags, "values:known")
    add_values(topic, "twin-value-float16", "float16", "QNT-6")


def _invalid_types(topic: Topic) -> None:
    cases: dict[str, tuple[str, str, Tensor]] = {
        "uint8-input": ("twin", "InputTensor", ints("uint8", (2, 3), range(6))),
        "int16-input": ("twin", "InputTensor", ints("int16", (2, 3), range(6))),
        "complex-input": ("twin", "InputTensor", bits("complex64", (2, 3), [ONE] * 6)),
        "float16-scale": ("twin", "ScaleTensor", floats("float16", (1, 3), [1, 2, 3])),
        "int32-scale": ("twin", "ScaleTensor", ints("int32", (1, 3), [1, 2, 3])),
        "float32-scale": ("twin-float16", "ScaleTensor", row("float32", 1, 2)),
        "float16-scale-for-int32": ("twin-int32", "ScaleTensor", row("float16", 1, 2)),
        "int8-zero-point": ("twin", "ZeroPointTensor", ints("int8", (1, 3), [1, 2, 3])),
        "float32-zero-point": ("twin", "ZeroPointTensor", floats("float32", (1, 3), [1, 2, 3])),
    }
    for name, (base, field, tensor) in cases.items():
        text = f"{field} is {tensor.dtype}"
        topic.invalid(name, text, "QNT-4", base, ("data_type", field), {field: tensor})
    error, outputs = ("data_type", "OutputTensor"), {"OutputTensor": Request("int16", (2,))}
    text = "an INT16 output is asked for"
    topic.invalid("int16-output", text, "QNT-4", "twin-float16", error, outputs=outputs)


def _invalid_sizes(topic: Topic) -> None:
    cases = {
        "scale-2-for-3": ("QNT-5", "ScaleTensor", floats("float32", (1, 2), [1, 2])),
        "scale-grows-input": ("QNT-5", "ScaleTensor", floats("float32", (4, 3), [1] * 12)),
        "scale-rank-3": ("QNT-5", "ScaleTensor", floats("float32", (1, 1, 3), [1, 2, 3])),
        "zero-point-2-for-3": ("QNT-5", "ZeroPointTensor", ints("uint8", (1, 2), [1, 2])),
        "zero-point-grows-input": ("QNT-5", "ZeroPointTensor", ints("uint8", (4, 3), [1] * 12)),
    }
    topic.wrong("twin", "sizes", "{field} of sizes {sizes} does not repeat to [2, 3]", cases)


@topics.file("kills")
def _survivors(topic: Topic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    x, scale = _lost_ties()
    given = operands(x, scale, ints("int8", x.sizes, [1] * len(x.words)))
    text = "FLOAT16 ties that a reciprocal in FLOAT32 misplaces"
    add(topic, "float16-reciprocal-ties", text, "QNT-1 QNT-2", given, "int8", "Tie")
    cube = floats("float32", (3, 3, 3), (step * 0.75 for step in range(-13, 14)))
    scales = floats("float32", (1, 1, 3), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("int8", (1, 3, 1), [-40, 0, 40]))
    text = "every axis has 3 places; the scale is for axis 2, the zero point for axis 1"
    add(topic, "every-axis-3", text, "QNT-5", given, "int8", "Broadcast")
    scales = floats("float32", (3,), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("int8", (3, 1), [-40, 0, 40]))
    text = "every axis has 3 places; parameters of lower rank align on the right"
    add(topic, "every-axis-3-lower-rank", text, "QNT-5", given, "int8", "Broadcast")
    base = "twin-kills"
    plane = floats("float32", (2, 3), range(6))
    given = operands(plane, floats("float32", (1, 3), [1, 2, 3]), ints("uint8", (1, 3), [1, 2, 3]))
    text = "the twin: scale and zero point for each column"
    add(topic, base, text, "QNT-5", given, "uint8", "Broadcast")
    add_too_deep(topic, base, "QNT-5", {"ZeroPointTensor": ints("uint8", (1, 1, 3), [1, 2, 3])})


def _lost_ties() -> tuple[Tensor, Tensor]:
    """Return twelve exact ties x / scale for which x * (1 / scale) in FLOAT32 is not one."""
    draw = Draw(7)
    found: list[tuple[int, int]] = []
    while len(found) < 12:
        scale, steps = draw.odd(6), 2 * draw.below(15) + 1
        x, s = exact.exactly(Fraction(scale * steps, 2)), exact.exactly(Fraction(scale))
        reciprocal = exact.divide(exact.exactly(Fraction(1)), s, "float32")
        rounded = round_half_even(exact.multiply(x, reciprocal, "float32").value)
        if rounded != round_half_even(Fraction(steps, 2)):
            found.append((exact.encode(x, "float16"), exact.encode(s, "float16")))
    return words("float16", *(x for x, _ in found)), words("float16", *(s for _, s in found))
