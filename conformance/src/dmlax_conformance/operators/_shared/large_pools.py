"""Pairs of options of pools in calls of many elements."""

from fractions import Fraction
from math import prod
from typing import Any

from ...format.tensors import Tensor
from ...format.vectors import Request
from .covering import Row
from .large_pairs import (
    EIGHT,
    PER_UNIT,
    Call,
    cycled,
    drawn,
    fractions,
    operand,
    points,
    sizes_of,
    steps,
    words_of,
)
from .pooling import output_sizes
from .pooling_cases import windows
from .rounding import RANGES

SHAPES = (
    *("1x131x3x4", "3x3x71", "2x2x2x13x15", "5x9x4x7"),
    *("1x67x2x3x3", "2x67x9", "1x9x67x3", "2x3x3x3x71"),
)
IMAGES = ("5x131x1x3", "3x257x3", "2x67x5x7", "1x521x1x2", "9x67x2x1x2", "5x129x3x3", "600x1x2x5")
WINDOWS: dict[str, dict[str, int]] = {
    "3": {"size": 3, "around": 1},
    "2 by strides": {"size": 2, "stride": 2, "start": 1},
    "3 with padding before": {"size": 3, "start": 2},
    "3 with padding after": {"size": 3, "end": 2},
    "more columns, dilated": {"size": 2, "more": 3, "dilation": 2, "around": 2},
    "strides and dilations": {"size": 2, "stride": 2, "dilation": 3, "around": 2, "end": 3},
}
TYPES = tuple(f"{x} {y}" for x in EIGHT for y in EIGHT)
PARAMETERS: dict[str, Any] = {
    "types": TYPES,
    "input zero point": ("absent", "one", "each"),
    "output zero point": ("absent", "one", "each"),
    "input scale": ("one", "each"),
    "output scale": ("one", "each"),
    "elements": ("full", "narrow"),
    "signs": ("plus", "minus"),
}
POWERS = fractions(1, 2, "1/2", 1, 4)


def options(kind: str, axes: int) -> dict[str, Any]:
    """Return the attributes of a kind of window, whose sizes on the axes differ."""
    own = {"stride": 1, "dilation": 1, "start": 0, "end": 0, "around": 0, "more": 0}
    own |= WINDOWS[kind]
    size = [own["size"]] * (axes - 1) + [own["size"] + own["more"]]
    before, after = own["start"] or own["around"], own["end"] or own["around"]
    start = tuple(min(before, (n - 1) * own["dilation"]) for n in size)
    end = tuple(min(after, (n - 1) * own["dilation"]) for n in size)
    strides, dilations = (own["stride"],) * axes, (own["dilation"],) * axes
    return windows(tuple(size), strides=strides, dilations=dilations, start=start, end=end)


def fits(sizes: tuple[int, ...], given: dict[str, Any]) -> bool:
    """Return whether there is a window on each axis."""
    return min(output_sizes(sizes, given)) > 0


def fitting(kind: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return the attributes; an axis that is too short for a window has one of a single element.

    The kind may be a text such as `window 2x3 strides 2x1 end 0x1`.
    """
    if kind not in WINDOWS:
        words = kind.split()
        own: dict[str, Any] = dict(zip(words[::2], map(sizes_of, words[1::2]), strict=True))
        return windows(own.pop("window"), **own)
    given = options(kind, len(sizes) - 2)
    for axis, length in enumerate(output_sizes(sizes, given)[2:]):
        if length < 1:
            for name, value in (("WindowSize", 1), ("StartPadding", 0), ("EndPadding", 0)):
                given[name][axis] = value
    assert fits(sizes, given), (kind, sizes)
    return given


def parameters(row: Row, number: int, channels: int, count: int) -> dict[str, Tensor]:
    """Return zero points and scales of an average of so many elements."""
    found = dict[str, Tensor]()
    types = dict(zip(("input", "output"), row["types"].split(), strict=True))
    for at, (side, dtype) in enumerate(types.items()):
        kind = row[f"{side} zero point"]
        spread = row["elements"] if side == "input" else "full"
        if kind != "absent":
            own = _sizes(kind, channels)
            found[f"{side.title()}ZeroPointTensor"] = points(dtype, own, number + at, spread)
    unit = Fraction(PER_UNIT * count, 2**12) / (4 if row["elements"] == "full" else 1)
    sizes, sign = _sizes(row["input scale"], channels), row["signs"]
    made = steps(number, prod(sizes), sign, unit)
    found["InputScaleTensor"] = cycled("float32", sizes, made)
    sizes = _sizes(row["output scale"], channels)
    words = words_of([each * PER_UNIT / 2**12 for each in POWERS], "plus" if number % 2 else sign)
    found["OutputScaleTensor"] = cycled("float32", sizes, words)
    return found


def _sizes(kind: str, channels: int) -> tuple[int, ...]:
    return (1,) if kind == "one" else (channels,)


def average(row: Row, number: int) -> Call:
    """Return an average; one without windows is of whole images."""
    sizes = sizes_of(row["sizes"])
    given = fitting(row["window"], sizes) if "window" in row else {}
    count = prod(given["WindowSize"]) if given else prod(sizes[2:])
    source, target = row["types"].split()
    has_point = row["input zero point"] != "absent"
    x = operand(source, sizes, 8000 + number, row["elements"], has_point)
    inputs = {"InputTensor": x, **parameters(row, number, sizes[1], count)}
    if given:
        given["IncludePadding"] = row["padding counts"] == "yes"
    output = output_sizes(sizes, given) if given else (*sizes[:2], *(1 for _ in sizes[2:]))
    return Call(inputs, {"OutputTensor": Request(target, output)}, given)


def maximum(row: Row, number: int) -> Call:
    """Return the largest elements of windows."""
    sizes, dtype = sizes_of(row["sizes"]), row["type"]
    given, (low, high) = fitting(row["window"], sizes), RANGES[dtype]
    bounds = {
        "full": (low, high),
        "lowest": (low, low + 1),
        "about the middle": ((low + high) // 2 - 3, (low + high) // 2 + 3),
        "highest": (high - 2, high),
        "lower half": (low, (low + high) // 2),
    }[row["elements"]]
    x = drawn(dtype, sizes, 9000 + number, *bounds)
    return Call(
        {"InputTensor": x}, {"OutputTensor": Request(dtype, output_sizes(sizes, given))}, given
    )
