"""For each operator a call that any implementation gets right, and one that it must refuse."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..format.vectors import Request
from ..operators import OPERATORS
from .adapter import Array, Case

UNKNOWN = Case("smoke-unknown", "no_such_operator", frozenset(), {}, {}, {})


class Smoke(NamedTuple):
    """A call with its outputs, and a call that breaks a rule with the code and the field."""

    call: Case
    expected: Mapping[str, Array]
    rows: int | None
    broken: Case
    refusal: tuple[str, str]


def smokes() -> list[Smoke]:
    """Return one for each operator."""
    return [_smoke(name, row.module("smoke").SMOKE) for name, row in OPERATORS.items()]


def _smoke(operator: str, own: Any) -> Smoke:
    """Put both calls together."""
    asked = {name: Request(array.dtype.name, array.shape) for name, array in own.expected.items()}
    parts = (dict(own.attributes), dict(own.inputs), asked)
    call = Case(f"smoke-{operator}", operator, frozenset(), *parts)
    changed: Any = [{k: own.change.get(k, v) for k, v in part.items()} for part in parts]
    broken = Case(f"smoke-{operator}-broken", operator, frozenset(), *changed)
    return Smoke(call, own.expected, own.rows, broken, own.refusal)
