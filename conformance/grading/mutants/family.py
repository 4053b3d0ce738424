"""Make the mutants of an operator from the tables of its family.

A topic lists the clauses of all operators of the family, such as "MAX-3 AVG-10 AVG-11". What a
table says about a topic applies to the operators whose clauses it lists.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.operator import dashed

from .engine.descs import DescRules
from .engine.mutant import Mutant, Table, at_place
from .engine.readings import absent, output, readings
from .engine.refusals import Rules
from .registry import Mutants

Rows = Sequence[Sequence[Any]]
FIELDS = Path(__file__).parent / "fields.json"


def for_each(topics: Mapping[str, str], ways: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the same ways for several tensors: by place, with {} for the tensor's name."""
    return {
        (topic, f"{place} {tensor}"): {
            name.format(dashed(tensor)): way(tensor) for name, way in named.items()
        }
        for tensor, topic in topics.items()
        for place, named in ways.items()
    }


@dataclass(frozen=True)
class Family:
    """The tables of a family, whose rows begin with topics."""

    result: str
    outputs: Rows  # topic of data types, topic of sizes, and output
    table: Table  # wrong or permitted ways by topic and place
    roles: Rows  # topic, fields, and how they can be misread
    refused: Rows  # topic, code of a refusal, and its fields with wrong values
    same: Rows = ()  # topic, column of a desc, and tensors that agree in it
    missing: str = ""  # topic of a tensor that is missing, and may be
    points: Rows = ()  # topic, zero point, and the tensor whose data type it has; or by name

    def mutants(
        self,
        label: str,  # of the operator's clauses
        operator: str,
        parts: Mapping[str, Any],
        implied: Mapping[str, str] | None = None,
        halves: str = "",
        differing: Callable[..., Any] | None = None,
        **limits: str,  # of the data types in calls
    ) -> Mutants:
        """Return the mutants of an operator."""
        codes, fields = {"missing_tensor": _listed(label, self.missing)}, dict[str, str]()
        for clauses, code, names in _rows(label, self.refused):
            codes[code] = _listed(label, f"{codes.get(code, '')} {clauses}")
            fields[code] = f"{fields.get(code, '')} {names}"
        same: dict[str, Any] = {}
        for _, column, names in _rows(label, self.same):
            same[column] = (*same.get(column, ()), tuple(names.split()))
        has_descs = bool(OPERATORS[operator].tables)
        return Mutants(
            operator,
            parts,
            Rules(operator, codes, fields, **limits),
            DescRules(operator, implied or {}, halves, same) if has_descs else None,
            _listed(label, self.result),
            partial(self._others, label, operator, limits.get("also_allowed", "")),
            differing,
        )

    def _others(self, label: str, operator: str, extensions: str) -> Iterator[Mutant]:
        """Yield the mutants of fields, and those and the permitted variants of the table."""
        for clauses, fields, words in _rows(label, self.roles):
            yield from readings(operator, clauses, fields, words, extensions)
        names = [row.tensor for row in OPERATORS[operator].tensors]
        points = [(self.missing, x, x.replace("ZeroPoint", "")) for x in names if "ZeroPoint" in x]
        for clauses, point, tensor in _rows(label, self.points or points):
            yield from absent(operator, clauses, point, tensor)
        for of_type, of_sizes, name in _rows(label, self.outputs):
            yield from output(operator, of_type, _listed(label, of_sizes), name)
        for clauses, place, ways in _rows(
            label, [(*key, ways) for key, ways in self.table.items()]
        ):
            yield from at_place(operator, clauses, place, ways)


def _listed(label: str, topic: str) -> str:
    """Return the clauses of an operator that a topic lists."""
    clauses = (clause for clause in topic.split() if clause.startswith(f"{label}-"))
    return " ".join(dict.fromkeys(clauses))


def _rows(label: str, rows: Rows) -> Iterator[Any]:
    """Yield the rows about an operator, with its clauses instead of the topic."""
    for topic, *values in rows:
        if clauses := _listed(label, topic):
            yield clauses, *values


@cache
def _fields() -> Mapping[str, Any]:
    """Return what `fields.json` says about each family."""
    fields: Mapping[str, Any] = json.loads(FIELDS.read_text(encoding="utf-8"))
    return fields


def load(
    family: str,
    parts: Mapping[str, Mapping[str, Any]],
    table: Table,
    differing: Callable[..., Any] | None = None,
) -> tuple[Mutants, ...]:
    """Return the mutants of a family, given the steps of its operators and the ways to be wrong.

    `fields.json` holds the other tables and what is special about an operator.
    """
    tables = dict(_fields()[family])
    operators = tables.pop("operators")
    made = Family(table=table, **tables)
    return tuple(
        made.mutants(operator=name, parts=steps, differing=differing, **operators[name])
        for name, steps in parts.items()
    )
