"""Corners of pools: shapes and windows, each with the other options drawn."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import prod

from ...format.vectors import Request
from ..topics import ints
from .corners import CHANNELS, drawn_row, in_forms
from .covering import Factors, Row
from .large_pairs import Call, cycled, sizes_of, words_of
from .pooling_cases import windows
from .rounding import RANGES

FORMS = dict.fromkeys(("ScaleTensor", "ZeroPointTensor"), CHANNELS)
WINDOWED = """
1x1x1x1: window 1x1
1x1x1: window 1
2x3x5x7: window 5x7
2x3x4x5: window 1x1 strides 2x3
3x2x6x7: window 2x3 start 1x0
3x2x6x7: window 2x3 start 0x2
3x2x6x7: window 2x3 end 1x0
3x2x6x7: window 2x3 end 0x2
1x2x9x11: window 2x2 strides 4x5
2x2x10x9: window 3x2 strides 3x4 end 1x1
1x3x12x10: window 3x3 dilations 4x1 strides 1x2
2x2x5x19: window 2x3 dilations 1x7 strides 2x1
1x1x3x1100: window 2x5 strides 1x3
1x1x1100x3: window 5x2 strides 3x1
70x2x3x2: window 2x1
2x130x3x3: window 3x3 start 1x1 end 1x1
1x270x2x3: window 2x2
2x3x17: window 3 strides 2 dilations 2 start 1 end 3
1x2x1030: window 4
3x2x4x5x6: window 2x3x2 strides 1x2x3 start 1x0x1 end 0x2x1
1x2x3x3x3: window 3x3x3 start 2x2x2 end 2x2x2
2x1x9x2x2: window 3x1x2 dilations 3x1x1
1x2x33x35: window 7x7 strides 2x2 start 3x3 end 3x3
1x2x20x21: window 17x19
3x4x6x6: window 2x2 strides 2x2
3x5x7x7: window 3x3 strides 2x2 start 1x1 end 1x1
0x2x3x4: window 2x2
2x0x3x4: window 2x2 start 1x1
0x3x5: window 2
0x2x2x3x3: window 1x2x2
""".strip().splitlines()
WHOLE = """
1x1x1x1
1x1x1
2x3x1x1
1x17x1x1
2x21x1x3
1x40x7x7
1x36x3x7
3x33x1x5
2x70x3x3
1x140x7x1
1x24x11x13
1x300x1x3
70x5x3x1
1x19x6x7
2x2x1x515
2x2x515x1
1x3x67x65
1x1x301x303
1x2x1031
3x18x9
2x20x3x2x5
9x35x1x3x1
1x66x1x1x7
0x3x4x5
2x0x3x3
0x4x7
1x0x2x2x2
""".strip().splitlines()


def calls(
    factors: Factors, make: Callable[[Row, int], Call], lines: list[str] | None = None
) -> Iterator[tuple[str, Call]]:
    """Yield a call for each line."""
    for number, line in enumerate(WINDOWED if lines is None else lines):
        sizes, _, kind = line.partition(": ")
        chosen = {"sizes": sizes, "window": kind} if kind else {"sizes": sizes}
        row = drawn_row(factors, number, chosen)
        yield f"an image of {line}", in_forms(make(row, number), number, FORMS)


MEANS = """
2x131x7x7 1 uint8 int8
3x20x3x13 3 int8 uint8
1x67x5x7 3 uint8 uint8
5x33x7 7 int8 int8
2x18x3x7 5 uint8 int8
17x9x3x5 7 int8 uint8
1x35x3x11x1 3 uint8 int8
1x300x7x7 1 int8 uint8
""".strip().splitlines()
REPEATS = {1: (5,), 2: (2, 3), 3: (2, 1, 3)}  # of the window, by axes


def ties(has_windows: bool) -> Iterator[tuple[str, Call]]:
    """Yield calls whose means are ties that float64 misses, if it multiplies by a reciprocal.

    All elements are the highest value, and the zero point of each channel makes the mean.
    """
    for number, line in enumerate(MEANS):
        text, unit, source, target = line.split()
        (images, channels, *window), odd = sizes_of(text), int(unit)
        high, means = RANGES[source][1], range(odd, 256, 2 * odd)
        points = cycled(source, (1, channels, *(1,) * len(window)), [high - each for each in means])
        repeats = REPEATS[len(window)] if has_windows else (1,) * len(window)
        spatial = [size * times for size, times in zip(window, repeats, strict=True)]
        given = {
            "InputTensor": cycled(source, (images, channels, *spatial), [high]),
            "InputScaleTensor": cycled("float32", (1,), words_of([Fraction(1, 2)])),
            "InputZeroPointTensor": points,
            "OutputScaleTensor": cycled("float32", (1,), words_of([Fraction(odd)])),
            "OutputZeroPointTensor": ints(target, (1,), [RANGES[target][0] + 20 + number]),
        }
        options = {**windows(window, strides=window), "IncludePadding": bool(number % 2)}
        asked = {"OutputTensor": Request(target, (images, channels, *repeats))}
        what = f"{prod(window)} elements whose mean is an odd multiple of {unit}"
        yield f"{text}: {what}", Call(given, asked, options if has_windows else {})
