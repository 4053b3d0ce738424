"""Corners of element-wise operators: shapes and axes of parameters, the other options drawn."""

from collections.abc import Callable, Iterator

from ...format.recipe import Cycle
from ...format.tensors import Tensor, from_recipe
from ..topics import ints
from .corners import drawn_row
from .covering import Factors, Row
from .large_pairs import Call, sizes_of

CORNERS = """
1 none 1
1x1x1 1 none
5x7 none 7
131 131 1
9x131 131 9x1
131x9 131x1 9
2x3x4 3x1 3x1
2x3x4 3x1 2x1x1
2x3x4x5 3x1x1 3x1x1
2x3x4x5 1x3x1x1 3x1x1
2x67x3x5 67x1x1 67x1x1
2x67x3x5 1x67x1x1 1
2x3x4x5 2x3x1x1 4x5
2x3x4x5 2x1x4x1 1x3x1x5
2x3x4x5 2x1x1x5 3x4x1
2x3x5x7x2 3x1x7x1 2x1x5x1x1
2x2x2x2x2x2x2x3 2x1x2x1x2x1 1x2x1x2x1x2x1x3
2x3x2x2x3x2x5 1x2x1x3x1x1 3x1x1x1x1x1
4133 1 1
3x1400 3x1 3x1
1400x3 3 1400x1
70x70 70x70 70
2x1050x3 1050x1 1050x1
65539 1 1
0 1 1
0x3 3 1
2x0x3 2x1x1 none
""".strip().splitlines()


def calls(factors: Factors, make: Callable[[Row, int], Call]) -> Iterator[tuple[str, Call]]:
    """Yield a call for each line: the sizes of the input, of the scale and of the zero point."""
    for number, line in enumerate(CORNERS):
        x, *own = line.split()
        chosen = {"sizes": x, "scale": "each", "zero point": "each"}
        row = drawn_row(factors, number, chosen)
        call = make(row, number)
        sizes = dict(zip(("ScaleTensor", "ZeroPointTensor"), map(sizes_of, own), strict=True))
        given = {name: _resized(each, sizes.get(name)) for name, each in call.inputs.items()}
        yield f"input, scale and zero point of {line}", call._replace(inputs=given)


def _resized(tensor: Tensor, sizes: tuple[int, ...] | None) -> Tensor:
    """Return a parameter of other sizes, which has the words in turn."""
    if sizes is None:
        return tensor
    made = tensor.made_by
    words = made.words if isinstance(made, Cycle) else tensor.words
    whole = from_recipe(tensor.dtype, sizes, Cycle(tuple(words) or (1,)))
    is_short = len(whole.words) <= len(words) or not words
    return ints(tensor.dtype, sizes, whole.words) if is_short else whole
