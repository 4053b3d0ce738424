"""What a planted bug is."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

from ...format.vectors import Vector
from ...operators.topics import PREFIXES
from ..adapter import Adapter
from .implementation import Implementation

VALUES, REFUSALS, DESCS, PERMITTED = "values and sizes", "refusals", "descs", "permitted"
MOST = 10_000


@dataclass(frozen=True)
class Mutant:
    """One changed implementation; the vectors must kill it, or must all let it pass."""

    id: str
    operator: str
    clause: tuple[str, ...]
    about: str
    implementation: Implementation
    must_kill: bool = True
    group: str = PERMITTED

    @property
    def adapter(self) -> Adapter:
        """The implementation, for the runner."""
        return cast(Adapter, self.implementation)

    def concerns(self, vector: Vector) -> bool:
        """Say whether the vector goes through the door that was changed, in a moment."""
        if vector.operator != self.operator or _is_slow(vector):
            return False
        if self.group == DESCS:
            return vector.desc is not None
        return self.group != REFUSALS or vector.desc is None


def _is_slow(vector: Vector) -> bool:
    """Say whether it asks for so many elements that computing them in fractions takes seconds."""
    asked = vector.outputs.get("OutputTensor")
    return asked is not None and prod(asked.sizes) > MOST


HONEST = Implementation()


def mutant(
    operator: str, name: str, clause: str, about: str, made: Implementation, must_kill: bool = True
) -> Mutant:
    """Return a mutant whose id starts with the prefix of its operator."""
    whole = f"{PREFIXES[operator]}{name}"
    return Mutant(whole, operator, tuple(clause.split()), about, made, must_kill)


def with_steps(part: str, **steps: Any) -> Implementation:
    """Return the honest implementation with some steps of one part replaced."""
    return replace(HONEST, **{part: replace(getattr(HONEST, part), **steps)})
