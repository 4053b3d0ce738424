"""Pairs of options of convolutions in calls of many elements."""

from fractions import Fraction
from typing import Any

from ...format.tensors import Tensor
from ...format.vectors import Request
from .convolution import Windows
from .convolution_cases import attributes
from .covering import Row
from .large_pairs import EIGHT, PER_UNIT, Call, cycled, operand, points, sizes_of, steps, words_of

SHAPES = (  # of the image and of the filter, and groups
    *("2x3x9x11 5x3x3x3 1", "1x2x35 19x2x3 1", "1x4x5x7 130x2x1x1 2", "3x6x7x6 6x1x3x3 6"),
    *("1x1x5x69 3x1x2x3 1", "1x3x69x4 3x3x3x2 1", "5x4x5x6 9x4x2x2 1", "1x67x3x4 67x1x1x2 67"),
    *("2x16x3x5 33x16x1x1 1", "9x4x9 30x2x2 2"),
)
WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strides": {"strides": (1, 2), "start": (1, 1)},
    "padding before": {"start": (1, 2)},
    "dilations and padding": {"dilations": (2, 2), "start": (1, 2), "end": (2, 3)},
}
SUMS = {
    "sizes": SHAPES,
    "windows": tuple(WINDOWS),
    "types": tuple(f"{x} {w}" for x in EIGHT for w in EIGHT),
    "input zero point": ("absent", "one"),
    "filter zero point": ("absent", "one", "each"),
    "elements": ("full", "narrow"),
}
RESCALED = {
    **SUMS,
    "filter scale": ("one", "each"),
    "bias": ("absent", "each"),
    "output zero point": ("absent", "one"),
    "output": EIGHT,
    "signs": ("plus", "minus"),
}
ADDED = {
    **RESCALED,
    "output": ("int8 int8", "int8 uint8", "uint8 int8", "uint8 uint8"),
    "addend zero point": ("absent", "one"),
    "sum zero point": ("absent", "one"),
    "addend first": ("yes", "no"),
    "sum": ("halves", "saturates", "quarters"),
}
EQUAL = {
    "sizes": "1x2x3x4 2x1x2x3 2",
    "windows": "strides",
    "types": "uint8 int8",
    "input zero point": "one",
    "filter zero point": "each",
    "elements": "narrow",
    "filter scale": "each",
    "bias": "each",
    "output zero point": "one",
    "output": "int8",
    "signs": "plus",
    "addend zero point": "one",
    "sum zero point": "one",
    "addend first": "no",
    "sum": "halves",
}
OTHERS = {"padding": {"StartPadding": [0, 0], "EndPadding": [1, 1]}}
SX, SY = Fraction(281, 2**27), Fraction(281 * PER_UNIT, 2**12)
FULL = Fraction(1, 390)


def options(kind: str, axes: int, groups: int) -> dict[str, Any]:
    """Return the attributes of a kind of window, or of a text such as `strides 2x1 end 0x3`."""
    two = {"strides": (1, 1), "dilations": (1, 1), "start": (0, 0), "end": (0, 0)}
    words = [] if kind in WINDOWS else kind.split()
    two |= WINDOWS.get(kind, dict(zip(words[::2], map(sizes_of, words[1::2]), strict=True)))
    return attributes(**{name: own[-axes:] for name, own in two.items()}, groups=groups)


def sums(row: Row, number: int) -> Call:
    """Return a call of the sums alone."""
    x, w, groups = row["sizes"].split()
    sizes, given = [sizes_of(each) for each in (x, w)], dict[str, Tensor]()
    attributes_ = options(row["windows"], len(sizes[0]) - 2, int(groups))
    for at, (side, dtype) in enumerate(zip(("Input", "Filter"), row["types"].split(), strict=True)):
        kind, seed = row[f"{side.lower()} zero point"], 5000 + 10 * number + at
        made = operand(dtype, sizes[at], seed, row["elements"], kind != "absent")
        given[f"{side}Tensor"] = made
        if kind != "absent":
            own = (1,) if kind == "one" else (sizes[1][0],)
            given[f"{side}ZeroPointTensor"] = points(dtype, own, number + at, row["elements"])
    spatial = Windows.of(attributes_).output_sizes(sizes[0][2:], sizes[1][2:])
    output = (sizes[0][0], sizes[1][0], *spatial)
    return Call(given, {"OutputTensor": Request("int32", output)}, attributes_)


def rescaled(row: Row, number: int) -> Call:
    """Return a quantized convolution."""
    call = sums(row, number)
    given, (asked,) = dict(call.inputs), call.outputs.values()
    filters, sign = asked.sizes[1], row["signs"]
    unit = SY / SX * (FULL if row["elements"] == "full" else 1)
    own = (1,) if row["filter scale"] == "one" else (filters,)
    given["InputScaleTensor"] = cycled("float32", (1,), words_of([SX]))
    made = steps(number, own[0], "plus" if own == (1,) else sign, unit)
    given["FilterScaleTensor"] = cycled("float32", own, made)
    given["OutputScaleTensor"] = cycled("float32", (1,), words_of([SY], sign))
    dtype = row["output"].split()[0]
    if row["bias"] == "each":
        length = 4000 if row["elements"] == "full" else 60
        words = [length, -3 * length, 1, -7, 2 * length + 1, 13, -length // 3, 5, -1, 3, 11]
        given["BiasTensor"] = cycled("int32", (filters,), words)
    if row["output zero point"] == "one":
        given["OutputZeroPointTensor"] = points(dtype, (1,), number)
    return Call(given, {"OutputTensor": Request(dtype, asked.sizes)}, call.attributes)


OF_SUM = {"halves": (1, 1, 2), "saturates": (3, 2, 1), "quarters": (3, 1, 4)}


def added(row: Row, number: int) -> Call:
    """Return a quantized convolution with an addend."""
    call = rescaled(row, number)
    given, (asked,) = dict(call.inputs), call.outputs.values()
    own, target = row["output"].split()
    convolved, addend, total = OF_SUM[row["sum"]]
    for name in ("InputScaleTensor", "OutputScaleTensor"):
        (word,) = given[name].words  # times a power of two, so that the quotient is the same
        given[name] = cycled("float32", (1,), [word + (convolved.bit_length() << 23)])
    unit = given["OutputScaleTensor"].words[0] & 0x7FFFFFFF
    ratios = {"Addend": addend, "Sum": total}
    for name, ratio in ratios.items():
        step = {1: 0, 2: 1, 4: 2}[ratio] - convolved.bit_length() + 1
        given[f"{name}ScaleTensor"] = cycled("float32", (1,), [unit + (step << 23)])
    if row["signs"] == "minus" and number % 2:
        word = given["AddendScaleTensor"].words[0]
        given["AddendScaleTensor"] = cycled("float32", (1,), [word | 1 << 31])
    has_point = row["addend zero point"] == "one"
    given["AddendTensor"] = operand(own, asked.sizes, 5500 + number, "full")
    if has_point:
        given["AddendZeroPointTensor"] = points(own, (1,), number + 2)
    if row["sum zero point"] == "one":
        given["SumZeroPointTensor"] = points(target, (1,), number + 1)
    first = {**call.attributes, "AddendFirst": row["addend first"] == "yes"}
    return Call(given, {"OutputTensor": Request(target, asked.sizes)}, first)
