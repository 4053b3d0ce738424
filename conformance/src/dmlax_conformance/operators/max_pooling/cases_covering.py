"""MAX_POOLING: every value class at every structure, in few calls."""

from functools import partial

from .._shared.convolution_cases import NONE
from .._shared.near_ties import Draw
from .._shared.pooling_cases import PoolTopic
from .._shared.pooling_covering import Plan, image
from .._shared.rounding import RANGES
from ..topics import Files
from .cases import OPERATOR

topics = Files(OPERATOR, PoolTopic)
LINES = """
1x1x1x71 1x3 uint8 uint8 absent absent
1x1x1x79 1x3 int8 int8 absent absent dilated
1x1x71x1 3x1 int8 int8 absent absent
1x1x69x2 1x3 uint8 uint8 absent absent
1x1x71 3 uint8 uint8 absent absent
1x1x67 4 int8 int8 absent absent padded
1x2x2x2x15 1x1x3 int8 int8 absent absent
2x2x2x1x9 2x1x2 uint8 uint8 absent absent
7x2x1x5 1x3 int8 int8 absent absent
9x3x2x3 1x3 uint8 uint8 absent absent
1x151x1x1 1x3 int8 int8 absent absent
1x143x1x1 3x1 uint8 uint8 absent absent
1x71x1x2 1x3 uint8 uint8 absent absent
2x39x2x1 1x4 int8 int8 absent absent
1x1x3x23 3x3 uint8 uint8 absent absent padded
1x23x2x3 2x3 int8 int8 absent absent padded dilated
1x3x2x15 3x4 uint8 uint8 absent absent dilated
2x1x1x15 5x13 int8 int8 absent absent
1x1x2x13 7x10 uint8 uint8 absent absent
6x1x1x9 1x3 int8 int8 absent absent
1x139x1x1 1x3 int8 int8 absent absent
1x1x37x1 3x1 int8 int8 absent absent
1x1x43x1 3x1 int8 int8 absent absent
"""
KINDS = (  # the largest element, the others' highest, and the place of the largest; ends are beyond
    *((999, 90, 0), (999, 90, -1), (999, 90, 1), (100, 40, 0), (100, 40, -1)),
    *((60, 20, 1), (-999, -999, 0), (0, -1, 1), (-3, -9, 0), (-20, -90, -1), (30, -100, 1)),
    *((200, 140, -1), (77, 77, 0)),
)


def _fill(dtype: str, number: int, at: int, inside: int, point: int) -> list[int]:
    """Return the elements of a window: the largest is where the kind says."""
    (low, high), turn = RANGES[dtype], (at + 5 * number) % len(KINDS)
    kind, draw = KINDS[turn], Draw(turn)
    largest, most = (min(max(each, low), high) for each in kind[:2])
    own = [max(most - draw.below(30), low) for _ in range(inside)]
    if inside:
        own[kind[2] if inside > 1 else 0] = largest
    return own


@topics.file("covering")
def _covering(topic: PoolTopic) -> None:
    _add(topic, 0, 10)


@topics.file("covering-more")
def _covering_more(topic: PoolTopic) -> None:
    _add(topic, 10, 99)


def _add(topic: PoolTopic, first: int, end: int) -> None:
    for number, line in enumerate(LINES.strip().splitlines()[first:end], first + 1):
        plan = Plan.of(line)
        x = image(plan, partial(_fill, plan.types[0], number))
        text = f"an output of {list(plan.output)}, windows of {list(plan.window)}"
        name, flags = f"covering-{number}", "Extreme BlockEdge"
        topic.add(name, text, "1 2 3 4 5", x, NONE, flags, plan.options(None))
