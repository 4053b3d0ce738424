"""A planted bug, and how to make one from the correct implementation of its operator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from ...format.vectors import Vector
from ...operators import OPERATORS
from ...operators.topics import PREFIXES
from ..adapter import Case
from .implementation import Implementation
from .steps import Array, Call, Outputs

Way = Callable[[Any, Call], Any]  # from a tensor or an attribute to what is read of it
End = Callable[[Array, Case], Array]  # from an output to what is returned of it

VALUES, REFUSALS, DESCS, PERMITTED = "values and sizes", "refusals", "descs", "permitted"
WINDOWS = {  # the lowest entry
    **dict.fromkeys(("Strides", "Dilations", "WindowSize"), 1),
    **dict.fromkeys(("StartPadding", "EndPadding"), 0),
}

CORRECT = Implementation()  # without the parts of an operator


@cache
def correct(operator: str) -> Implementation:
    """Return the correct implementation of an operator, in the parts that its room names."""
    return replace(CORRECT, parts=OPERATORS[operator].module("bugs").PARTS)


@dataclass(frozen=True)
class Bug:
    """One changed implementation; the vectors must kill it, unless it is a permitted variant."""

    id: str
    operator: str
    clause: tuple[str, ...]
    implementation: Implementation
    group: str
    is_derived: bool = False

    @property
    def must_kill(self) -> bool:
        """True for a bug, False for a permitted variant."""
        return self.group != PERMITTED

    @property
    def about(self) -> str:
        """The id in words."""
        return self.id.removeprefix(PREFIXES[self.operator]).replace("-", " ")

    def concerns(self, vector: Vector) -> bool:
        """Return whether the vector can show the bug."""
        if vector.operator != self.operator:
            return False
        if self.group == DESCS:
            return vector.desc is not None
        return self.group != REFUSALS or vector.desc is None


def bug(operator: str, name: str, clause: str, group: str, **steps: Any) -> Bug:
    """Return a bug that replaces some parts of the operator, or steps around them."""
    whole = correct(operator)
    parts = {part: steps.pop(part, own) for part, own in whole.parts.items()}
    made = replace(whole, parts=parts, **steps)
    return Bug(f"{PREFIXES[operator]}{name}", operator, tuple(clause.split()), made, group)


def in_part(
    operator: str, clause: str, part: str, step: str, ways: Mapping[str, Any], group: str = VALUES
) -> Iterator[Bug]:
    """Yield a bug for each way to replace one step of one part."""
    whole: Any = {**correct(operator).parts, "layout": CORRECT.layout}[part]
    for name, way in ways.items():
        yield bug(operator, name, clause, group, **{part: replace(whole, **{step: way})})


def in_reading(operator: str, clause: str, fields: str, ways: Mapping[str, Way]) -> Iterator[Bug]:
    """Yield a bug for each way to misread tensors or attributes, where they are there."""
    for name, way in ways.items():
        yield bug(operator, name, clause, VALUES, read=partial(_reading, fields.split(), way))


def _reading(fields: Sequence[str], way: Way, call: Call) -> Call:
    tensors = {k: np.asarray(way(call.inputs[k], call)) for k in fields if k in call.inputs}
    options = {k: way(call.attributes[k], call) for k in fields if k in WINDOWS}
    return call._replace(
        inputs={**call.inputs, **tensors}, attributes={**call.attributes, **options}
    )


def in_output(operator: str, clause: str, output: str, ways: Mapping[str, End]) -> Iterator[Bug]:
    """Yield a bug for each way to return an output wrongly."""
    for name, way in ways.items():
        yield bug(operator, name, clause, VALUES, finish=_finish(output, way))


def _finish(output: str, way: End) -> Callable[[Outputs, Case], Outputs]:
    return lambda outputs, case: {**outputs, output: way(outputs[output], case)}
