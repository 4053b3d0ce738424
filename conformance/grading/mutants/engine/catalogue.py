"""Every mutant, and every variant that is permitted."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from dmlax_conformance.errors import Unsupported
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.runner.adapter import Case
from grading.mutants import gaps
from grading.mutants.registry import Mutants, mutants_of

from .implementation import Violations, scattered
from .mutant import PERMITTED, Mutant, mutant


@cache
def catalogue() -> Mapping[str, Mutant]:
    """Return all mutants by id, and the permitted variants."""
    mutants = [mutant for name in OPERATORS for mutant in _of(mutants_of(name))]
    mutants += gaps.mutants()
    by_id = {mutant.id: mutant for mutant in mutants}
    assert len(by_id) == len(mutants), "two mutants share an id"
    return by_id


def _of(family: Mutants) -> Iterator[Mutant]:
    """Yield derived mutants, those of the family's table, and what differs and is right."""
    yield from family.rules.mutants()
    yield from family.descs.mutants() if family.descs else ()
    yield from family.others()
    for name, (clause, steps) in {**OF_CALLS, **(OF_DESCS if family.descs else {})}.items():
        clauses = clause or family.result
        yield mutant(family.operator, f"permitted-{name}", clauses, PERMITTED, **steps)


def _returning(form: Callable[[Any], Any]) -> Mapping[str, Any]:
    return {"finish": lambda outputs, case: {name: form(y) for name, y in outputs.items()}}


def _in_order(order: Callable[[Violations], Violations]) -> Mapping[str, Any]:
    return {"refuse": lambda case, broken: order(broken)}


def _declining(test: Callable[[frozenset[str]], bool]) -> Mapping[str, Any]:
    def refuse(case: Case, broken: Violations) -> Violations:
        if test(case.requires):
            raise Unsupported("declined")
        return broken

    return {"refuse": refuse}


OF_CALLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {  # clauses, if not of the result; steps
    "column-major-array": ("", _returning(lambda y: np.array(y, order="F"))),
    "big-endian": ("", _returning(lambda y: y.astype(y.dtype.newbyteorder()))),
    "plain-calls-only": ("", _declining(bool)),
}
OF_DESCS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "last-violation": ("tensor-data-type", _in_order(lambda broken: broken[::-1])),
    **{
        f"by-{key}": ("tensor-data-type", _in_order(partial(sorted, key=attrgetter(key))))
        for key in ("code", "field")
    },
    "gaps-odd": ("tensor-buffer", {"to_buffer": partial(scattered, gap=0x55)}),
    "gaps-ones": ("tensor-buffer", {"to_buffer": partial(scattered, gap=-1)}),
    "no-strides": ("", _declining(lambda requires: "strides" in requires)),
}
