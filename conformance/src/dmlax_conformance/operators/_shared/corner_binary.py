"""Corners of operators on two quantized tensors: shapes that repeat, the other options drawn."""

from collections.abc import Callable, Iterator

from .corners import drawn_row, in_forms
from .covering import Factors, Row
from .large_pairs import Call

CORNERS = """
none none
none 1
1x1x1 none
5x7 none
none 3x131
131 1x1x131
7x1 1x131
2x3x4 3x1
2x3x4 2x1x1
2x1x4 1x3x1
2x3x1x5 1x1x4x5
4x5 2x3x4x5
2x1x3x1x2 1x4x1x5x1
1x67x1x1 2x67x3x5
3x70x5x5 3x70x1x1
2x5x9x7 1x5x1x1
2x5x9x7 2x1x9x7
2x5x9x7 9x1
2x5x9x7 2x5x9x1
1x1x1x1x1x1x1x33 2x1x1x1x1x1x2x1
2x2x2x2x2x2x2x3 2x1x2x1x2x1x2x1
2x2x2x2x2x2x2x3 1x2x1x2x1x2x1x3
4133 4133
1x4133 2x1
70x70 70x70
1x70 70x1
3x1025 3x1025
1025x3 1x3
1025x3 1025x1
33000x2 33000x2
0x3 0x3
2x0 1
0 none
3x1x4 3x0x4
""".strip().splitlines()
FORMS: dict[str, tuple[str, ...]] = {"ScaleTensor": (), "ZeroPointTensor": ()}


def calls(factors: Factors, make: Callable[[Row, int], Call]) -> Iterator[tuple[str, Call]]:
    """Yield a call for each line."""
    for number, sizes in enumerate(CORNERS):
        row = drawn_row(factors, number, {"sizes": sizes})
        yield f"operands of {sizes}", in_forms(make(row, number), number, FORMS)
