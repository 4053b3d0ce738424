"""Tensor support tables of every operator, and the fields of its desc."""

from collections.abc import Mapping

from . import OPERATORS
from .operator import LEVELS as LEVELS
from .operator import Row as Row
from .operator import Rows as Rows

TABLES: Mapping[str, Mapping[str, Rows]] = {
    name: operator.tables for name, operator in OPERATORS.items() if operator.tables
}


def introduced(operator: str) -> str:
    """Return the level that brought the operator."""
    return next(iter(TABLES[operator]))


def table_level(operator: str, feature_level: str) -> str:
    """Return the level whose table holds at this one, which is not before the first."""
    held = LEVELS[: LEVELS.index(feature_level) + 1]
    return [level for level in TABLES[operator] if level in held][-1]


def rows(operator: str, feature_level: str) -> Rows:
    """Return the table that holds at a level."""
    return TABLES[operator][table_level(operator, feature_level)]


def tensors(operator: str) -> tuple[str, ...]:
    """Return the operator's tensors in the order of the desc."""
    return tuple(row.tensor for row in OPERATORS[operator].tensors)


def fields(operator: str) -> tuple[str, ...]:
    """Return all fields of the desc, in order."""
    return tensors(operator) + OPERATORS[operator].attributes
