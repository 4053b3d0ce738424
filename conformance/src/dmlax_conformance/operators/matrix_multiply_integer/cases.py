"""MATRIX_MULTIPLY_INTEGER."""

from .._shared import matmul_cases as shared
from .._shared.covering import Row
from .._shared.matmul_cases import MatmulTopic
from .._shared.systematic import each_pair, each_size, flags_of
from ..topics import Files

OPERATOR = "matrix_multiply_integer"

CLAUSES = {
    "sum": "MMI-1",
    "shape": "MMI-2",
    "rank": "MMI-3",
    "type": "MMI-4",
    "points": "MMI-5",
    "overflow": "MMI-6",
    "absent": "MMI-7",
}


class IntegerTopic(MatmulTopic):
    """One file of calls."""

    clauses = CLAUSES


topics = Files(OPERATOR, IntegerTopic)


@topics.file("data-types")
def _data_types(topic: IntegerTopic) -> None:
    topic.add_types()


@topics.file("shapes")
def _shapes(topic: IntegerTopic) -> None:
    topic.add_shapes()
    topic.add_empty()


@topics.file("parameters")
def _parameters(topic: IntegerTopic) -> None:
    topic.add_points()


@topics.file("sums")
def _sums(topic: IntegerTopic) -> None:
    topic.add_sums()


@topics.file("invalid")
def _invalid(topic: IntegerTopic) -> None:
    topic.add_twins({"za": [7], "zb": [1]})
    topic.refuse_operands()


@topics.file("kills")
def _survivors(topic: IntegerTopic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    topic.add_survivors()


FACTORS = shared.FACTORS
APART = shared.kept_apart(["zero point of a"], ["zero point of b"])


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: IntegerTopic, name: str, text: str, row: Row, number: int) -> None:
    topic.add(name, text, "MMI-1 MMI-2 MMI-4 MMI-5", *shared.pair(row, number))


@topics.file("size-classes")
@each_size
def _of_size(topic: IntegerTopic, count: int, number: int) -> None:
    topic.add_size(count, number, {}, flags_of(count))
