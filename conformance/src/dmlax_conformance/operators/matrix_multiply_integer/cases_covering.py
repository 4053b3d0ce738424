"""MATRIX_MULTIPLY_INTEGER: every value class at every structure, in few calls."""

from .._shared.matmul_cases import operand
from .._shared.matmul_covering import plans, sums
from ..topics import Files
from .cases import OPERATOR, IntegerTopic

topics = Files(OPERATOR, IntegerTopic)
LARGE = """
3x841 841x71 uint8 uint8 one one
1x841 841x137 int8 int8 one each
71x841 841x7 uint8 int8 one each
1601 1601x15 int8 uint8 absent one
3x1x2x843 3x843x7 uint8 uint8 one each
9x2x841 841x7 int8 uint8 one one
2x841 9x841x7 uint8 int8 one one
9x2x841 9x841x7 uint8 uint8 each one
3x2x841 3x841x15 uint8 uint8 one absent
2x1001 1001x31 uint8 int8 absent absent
17x1602 1602x7 int8 int8 absent one
71x841 841 uint8 uint8 each one turn
67x841 841x1 uint8 int8 each absent turn
2x5x841 841 uint8 uint8 each one turn
19x33 33x7 uint8 uint8 one one
1x841 841x135 uint8 uint8 each one
2x1x2x841 1x2x841x7 uint8 uint8 each each
69x841 841x7 uint8 uint8 each one
"""
SMALL = """
3x401 401x71 uint8 uint8 one one sparse
1x400 400x137 int8 int8 one each sparse
71x401 401x7 uint8 int8 one each sparse
401 401x15 int8 uint8 absent one sparse
3x1x2x403 3x403x7 uint8 uint8 one each sparse
9x2x401 401x7 int8 uint8 one one sparse
2x401 9x401x7 uint8 int8 one one sparse
9x2x401 9x401x7 uint8 uint8 each one sparse
67x3 3 uint8 int8 one one
69x9 9x1 uint8 uint8 one each sparse
71x1 1x7 int8 uint8 each one
2x1 1x71 uint8 uint8 one each
4x2x1 1x7 int8 int8 one absent
3x65 65x7 uint8 uint8 one absent sparse
2x401 401x7 uint8 int8 absent absent sparse
5x9 9x1 int8 int8 one one
5x9 9 uint8 int8 one one
66x1 1x7 uint8 uint8 one each
9 9x15 uint8 uint8 one each
2x9 9x9x15 uint8 uint8 one each
1x3 3x139 int8 int8 each each
"""
BATCHES = """
6x2x5 6x5x3 uint8 int8
"""
ZEROS = 10, 17  # small calls whose sums are all zero
CLAUSE = "MMI-1 MMI-2 MMI-3 MMI-4 MMI-5"


@topics.file("covering")
def _covering(topic: IntegerTopic) -> None:
    for number, plan in plans(LARGE):
        flags = "Large LargeAccumulator"
        topic.add(f"covering-{number}", plan.about, CLAUSE, *sums(plan, number), flags)


@topics.file("covering-small")
def _covering_small(topic: IntegerTopic) -> None:
    for number, plan in plans(SMALL):
        a, b, own = sums(plan, number)
        other = "covering-small-1" if number in ZEROS else None
        name = f"covering-small-{number}"
        topic.add(name, plan.about, CLAUSE, a, b, own, "Large", paired_with=other)


@topics.file("covering-batches")
def _covering_batches(topic: IntegerTopic) -> None:
    """Add matrices of which no two are alike."""
    for number, line in enumerate(BATCHES.strip().splitlines(), 1):
        one, two, *dtypes = line.split()
        sizes = [tuple(map(int, each.split("x"))) for each in (one, two)]
        a, b = (
            operand(dtype, own, 3400 + 2 * number + side)
            for side, (dtype, own) in enumerate(zip(dtypes, sizes, strict=True))
        )
        text = f"A of {list(sizes[0])}, B of {list(sizes[1])}, each matrix another"
        topic.add(
            f"covering-batches-{number}", text, CLAUSE, a, b, {"za": [3], "zb": [5]}, "BlockEdge"
        )
