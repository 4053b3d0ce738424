"""A mutant, and how to make one from the correct implementation of its operator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.descriptors import Violation
from dmlax_conformance.runner.adapter import Case
from grading.mutants.registry import mutants_of

from .implementation import Implementation, Violations
from .steps import Array, Call, Outputs

Way = Callable[[Any, Call], Any]  # from a tensor or an attribute to what is read of it
End = Callable[[Array, Case], Array]  # from an output to what is returned of it
When = Callable[[Case], Any]  # whether a call is answered wrongly
Refuse = Callable[[Case, Violations], Violations]
Table = Mapping[tuple[str, str], Mapping[str, Any]]  # by topic and place: names, and what is wrong

VALUES, REFUSALS, DESCS, PERMITTED = "values and sizes", "refusals", "descs", "permitted"
GROUPS = (VALUES, REFUSALS, DESCS)
WINDOWS = {  # the lowest entry
    **dict.fromkeys(("Strides", "Dilations", "WindowSize"), 1),
    **dict.fromkeys(("StartPadding", "EndPadding"), 0),
}
CORRECT = Implementation()  # without the parts of an operator


@cache
def correct(operator: str) -> Implementation:
    """Return the correct implementation of an operator, in the parts that its family names."""
    return replace(CORRECT, parts=mutants_of(operator).parts)


@dataclass(frozen=True)
class Mutant:
    """One changed implementation; the vectors must kill it, unless it is a permitted variant."""

    id: str
    operator: str
    clause: tuple[str, ...]
    implementation: Implementation
    group: str

    @property
    def must_kill(self) -> bool:
        """True for a mutant, False for a permitted variant."""
        return self.group != PERMITTED

    def concerns(self, vector: Vector) -> bool:
        """Return whether the vector can show the mutant."""
        is_desc = vector.desc is not None
        may_show = {DESCS: is_desc, REFUSALS: not is_desc}.get(self.group, True)
        return vector.operator == self.operator and may_show


def mutant(operator: str, name: str, clause: str, group: str, **steps: Any) -> Mutant:
    """Return a mutant that replaces some parts of the operator, or steps around them."""
    whole = correct(operator)
    parts = {part: steps.pop(part, step) for part, step in whole.parts.items()}
    made = replace(whole, parts=parts, **steps)
    label = f"{OPERATORS[operator].prefix}-{name}"
    return Mutant(label, operator, tuple(clause.split()), made, group)


def at_place(
    operator: str, clause: str, place: str, ways: Mapping[str, Any], group: str = ""
) -> Iterator[Mutant]:
    """Yield a mutant for each way to be wrong at a place.

    A place is "part.step", "whole" (several steps at once), "read FIELDS", "output TENSOR",
    "accept CODE FIELD", "refuse CODE FIELD", or "permitted part.step" for what is right as well.
    """
    kind, *names = place.split()
    if kind == "permitted":
        named = {f"permitted-{name}": way for name, way in ways.items()}
        yield from at_place(operator, clause, names[0], named, PERMITTED)
        return
    groups = group or (REFUSALS if kind in ("accept", "refuse") else VALUES)
    for name, way in ways.items():
        steps: Mapping[str, Any] = way
        if kind == "read":
            steps = {"read": partial(_read, names, way)}
        elif kind == "output":
            steps = {"finish": partial(_finish, names[0], way)}
        elif kind != "whole" and names:
            steps = {"refuse": (accept if kind == "accept" else refuse)(names[0], names[1], way)}
        elif kind != "whole":
            part, step = kind.split(".")
            whole: Any = correct(operator).parts[part]
            steps = {part: replace(whole, **{step: way})}
        yield mutant(operator, name, clause, groups, **steps)


def _read(names: Sequence[str], way: Way, call: Call) -> Call:
    """Misread tensors or attributes, where they are there."""
    attributes, inputs, asked = call
    options = {k: way(attributes[k], call) for k in names if k in WINDOWS}
    tensors = {k: np.asarray(way(inputs[k], call)) for k in names if k in inputs}
    return Call({**attributes, **options}, {**inputs, **tensors}, asked)


def _finish(name: str, way: End, outputs: Outputs, case: Case) -> Outputs:
    return {**outputs, name: way(outputs[name], case)}


def accept(code: str, field: str, when: When) -> Refuse:
    """Let calls pass that must be refused with this code on this field."""
    return lambda case, broken: (
        [] if broken and broken[0][1:] == (code, field) and when(case) else broken
    )


def refuse(code: str, field: str, when: When) -> Refuse:
    """Refuse calls that keep every rule."""
    return lambda case, broken: broken if broken or not when(case) else [Violation("", code, field)]
