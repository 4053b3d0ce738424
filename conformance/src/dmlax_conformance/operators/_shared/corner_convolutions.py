"""Corners of convolutions: shapes and windows, each with the other options drawn."""

from collections.abc import Callable, Iterator

from .corners import CHANNELS, drawn_row, in_forms
from .covering import Factors, Row
from .large_pairs import Call

FORMS = dict.fromkeys(("ScaleTensor", "ZeroPointTensor", "BiasTensor"), CHANNELS)
CORNERS = """
1x1x1x1 1x1x1x1 1
1x1x1 1x1x1 1
3x5x7x7 8x5x1x1 1: strides 2x3
2x8x9x8 16x1x3x3 8: strides 2x1 dilations 1x2 start 1x1
2x6x6x5 9x2x2x3 3: start 0x1 end 2x0
2x3x4x5 7x3x4x5 1
1x2x3x3 4x2x2x2 1: start 3x4 end 4x3
1x3x5x6 4x3x3x3 1: start 2x0
1x3x5x6 4x3x3x3 1: start 0x2
1x3x5x6 4x3x3x3 1: end 2x0
1x3x5x6 4x3x3x3 1: end 0x2
2x2x11x13 3x2x2x2 1: strides 4x5
2x2x10x9 3x2x3x2 1: strides 3x4 end 1x2
1x2x12x10 3x2x3x3 1: dilations 4x1 strides 1x2
2x2x5x19 3x2x2x3 1: dilations 1x7 strides 2x1
1x1x2x1100 2x1x1x5 1: strides 1x3
1x1x1100x2 2x1x5x1 1: strides 3x1
70x2x3x2 3x2x2x1 1
1x300x1x2 5x300x1x1 1
2x130x3x3 4x130x3x3 1
1x520x3x3 2x520x3x3 1
2x3x2x1 300x3x2x1 1
2x260x1x3 130x2x1x1 130
3x4x17 6x2x3 2: strides 2 dilations 2 start 1 end 3
1x3x1030 2x3x4 1
4x9x33 9x1x5 9: start 4
2x4x31x3 8x2x2x2 2: strides 1x2 start 1x1 end 1x1
3x32x1x1 64x32x1x1 1
17x16x1x1 33x16x1x1 1
1x16x16x16 16x16x1x1 1
1x64x8x8 16x64x1x1 1: strides 2x2
2x1x8x33 1x1x3x3 1: start 1x1 end 1x1
3x7x5x5 7x1x5x5 7: start 2x2 end 2x2
0x2x3x4 3x2x2x2 1
0x4x5 6x2x3 2: start 1
0x5x3x3 5x1x2x2 5: strides 2x2
""".strip().splitlines()


def calls(factors: Factors, make: Callable[[Row, int], Call]) -> Iterator[tuple[str, Call]]:
    """Yield a call for each line."""
    for number, line in enumerate(CORNERS):
        sizes, _, kind = line.partition(": ")
        row = drawn_row(factors, number, {"sizes": sizes, "windows": kind or "plain"})
        yield f"image, filter and groups of {line}", in_forms(make(row, number), number, FORMS)


def channels(make: Callable[[Row, int], Call], equal: Row) -> Call:
    """Return a call with a filter scale for each of nine filters."""
    return make({**equal, "sizes": "1x2x3x4 9x2x2x3 1", "windows": "plain"}, 1)
