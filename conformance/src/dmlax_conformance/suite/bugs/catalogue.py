"""Every planted bug, and every variant that is permitted."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain

from ...operators import OPERATORS
from . import permitted, strides
from .record import DESCS, REFUSALS, VALUES, Bug

ROOMS = [row.module("bugs") for row in OPERATORS.values()]
GROUPS = (VALUES, REFUSALS, DESCS)


@cache
def catalogue() -> Mapping[str, Bug]:
    """Return all bugs by id, and then the permitted variants."""
    allowed = (each for room in ROOMS for each in permitted.variants(room))
    found = [*_derived(), *_written(), *allowed]
    by_id = {each.id: each for each in found}
    assert len(by_id) == len(found), "two bugs share an id"
    return by_id


def _derived() -> Iterator[Bug]:
    """Yield the bugs that follow from rules, fields and tables."""
    for room in ROOMS:
        found = chain(room.RULES.bugs(), room.derived())
        if OPERATORS[room.OPERATOR].tables:
            found = chain(found, room.DESCS.bugs(), strides.bugs(room.OPERATOR))
        yield from (replace(each, is_derived=True) for each in found)


def _written() -> Iterator[Bug]:
    for room in ROOMS:
        yield from room.written()
