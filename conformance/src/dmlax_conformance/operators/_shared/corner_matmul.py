"""Corners of matrix products: shapes, each with the other options drawn."""

from collections.abc import Callable, Iterator

from .corners import drawn_row, in_forms
from .covering import Factors, Row
from .large_pairs import Call

CORNERS = """
1 1
1x1 1x1
1x7 7
7 7x1
131 131
1x517 517x3
3x517 517x1
1x9 9x1031
1031x9 9x1
4x1 1x5
2x4x1 1x67
33x5 2x5x3
3x1x4x5 2x5x6
2x3x4x5 5x6
2x3x1x5 1x5x9
1x1x4x5 2x3x5x2
2x1x3x3 1x2x3x3
17x2x3 17x3x2
70x1x5 70x5x1
2x2x1x2x3 2x3x4
1x2x1x2x3x3 3x1x2x1x3x2
1x1x2x1x2x2x3 3x2
65x17 17x66
129x3 3x33
3x129x2 2x5
5x130 130x131
16x16 16x16
32x64 64x32
4x4096 4096x2
1x66000 66000
0x3 3x4
4x3 3x0
4x0 0x5
0x4x3 3x5
1x3x4 0x4x5
0 0x3
0 0
3x0x4 4x2
""".strip().splitlines()
FORMS: dict[str, tuple[str, ...]] = {"ScaleTensor": (), "ZeroPointTensor": ()}


def calls(factors: Factors, make: Callable[[Row, int], Call]) -> Iterator[tuple[str, Call]]:
    """Yield a call for each line."""
    for number, sizes in enumerate(CORNERS):
        row = drawn_row(factors, number, {"sizes": sizes})
        yield f"operands of {sizes}", in_forms(make(row, number), number, FORMS)
