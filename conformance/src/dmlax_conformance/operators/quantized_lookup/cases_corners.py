"""QUANTIZED_LOOKUP: calls at corners, and a table that begins as another does."""

from collections.abc import Iterator

from ...format.recipe import Cycle
from ...format.tensors import from_recipe
from .._shared.corners import add_corners, sized
from .._shared.large_pairs import Call
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import CLAUSE, EQUAL, FACTORS, made

BEGINS_AS_ANOTHER = (3, 1025)  # the input of the call with that table


def calls() -> Iterator[tuple[str, Call]]:
    """Yield a call of each of the sizes; a table has the first 17 entries of another, repeated."""
    table = from_recipe("uint8", (256,), Cycle(EQUAL.inputs["TableTensor"].words[:17]))
    for text, call in sized(FACTORS, made, least=0):
        given = dict(call.inputs)
        if given["InputTensor"].sizes == BEGINS_AS_ANOTHER:
            given["TableTensor"] = table
        yield text, call._replace(inputs=given)


topics = Files(OPERATOR, Topic)
add_corners(topics, CLAUSE, calls())
