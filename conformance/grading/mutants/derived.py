"""Mutants that follow from an operator's fields, rules and tables.

One misreads a field in one of its roles, which `fields.json` lists. Another leaves out a rule of
calls or of descs, or misreads a line of a table.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from dmlax_conformance.format.tensors import from_numpy, to_numpy
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import OPERATORS, descriptors
from dmlax_conformance.oracle import operator as oracle
from dmlax_conformance.oracle.calls import RULES
from dmlax_conformance.oracle.descriptors import DESC_CLAUSES, Violation
from dmlax_conformance.oracle.operator import dashed
from dmlax_conformance.runner.adapter import Case

from .mutant import DESCS, REFUSALS, VALUES, Array, Call, Mutant, Violations, mutant

Way = Callable[[Any], Any]  # maps a tensor or an attribute to what is read of it
FIELDS: Mapping[str, Any] = json.loads((Path(__file__).parent / "fields.json").read_text("utf-8"))
TENSOR_RULES = [x for x in DESC_CLAUSES if x.startswith("tensor-") and x != "tensor-buffer"]
TYPE, RANK, REQUIRED = "tensor-data-type", "tensor-dimension-count", "tensor-required"
LOWEST = {  # the lowest entries of an attribute
    **dict.fromkeys(("Strides", "Dilations", "WindowSize"), 1),
    **dict.fromkeys(("StartPadding", "EndPadding"), 0),
}


def rows_of(operator: str, rows: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """Yield the rows of a family's table that are about an operator.

    A row begins with the clauses of all operators of the family; the operator's are left.
    """
    (family,) = (own for own in FIELDS.values() if operator in own["operators"])
    label = family["operators"][operator]["label"]
    for topic, *values in rows:
        clauses = " ".join(c for c in topic.split() if c.startswith(f"{label}-"))
        if clauses:
            yield clauses, *values


# -- fields that are misread ---------------------------------------------------------------------


def _flipped(*axes: int) -> Way:
    return lambda x: np.flip(x, tuple(axis for axis in axes if -x.ndim <= axis < x.ndim))


def _swapped(one: int, two: int, rank: int, x: Any) -> Any:
    """Swap two axes of equal sizes in tensors of at least this rank."""
    changed = np.swapaxes(x, one, two) if x.ndim >= rank else x
    return changed if changed.shape == x.shape else x


def _channels_last(x: Any) -> Any:
    if x.ndim <= 2:
        return x
    return np.moveaxis(x.reshape(x.shape[0], *x.shape[2:], x.shape[1]), -1, 1)


def _entries(low: int) -> Mapping[str, Way]:
    return {
        "reversed": lambda entries: entries[::-1],
        "first-for-all": lambda entries: entries[:1] * len(entries),
        "ignored-on-first-axis": lambda entries: [low, *entries[1:]],
        "ignored-on-last-axis": lambda entries: [*entries[:-1], low],
    }


def _in_order(change: Way) -> Way:
    """Change the elements in row-major order."""
    return lambda x: change(x.reshape(-1)).reshape(x.shape)


def _of_float(change: Way) -> Way:
    return lambda x: change(x).astype(x.dtype) if x.dtype.kind == "f" else x


def _with_other_sign(x: Array) -> Array:
    kinds = {"u": "i", "i": "u"}
    return x.view(f"{kinds[x.dtype.kind]}{x.itemsize}") if x.dtype.kind in kinds else x


def _narrowed(x: Array) -> Array:
    is_wide = x.dtype.kind in "iu" and x.itemsize > 1
    return x.astype(f"{x.dtype.kind}{x.itemsize // 2}").astype(x.dtype) if is_wide else x


def _in_bfloat16(x: Array) -> Array:
    changed = ((x.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)
    return np.where((changed == 0) | ~np.isfinite(changed), x, changed)


ROLES: Mapping[str, Mapping[str, Way]] = {
    "axes": {
        "channels-last": _channels_last,
        "batch-reversed": _flipped(0),
        "batch-is-first": lambda x: np.broadcast_to(x[:1] if x.ndim else x, x.shape),
        "channels-reversed": _flipped(1),
        "flipped": _flipped(2, 3),
        "flipped-on-last-axis": _flipped(-1),
        "transposed": partial(_swapped, -1, -2, 4),
        "axes-swapped": partial(_swapped, 0, 1, 2),
    },
    "elements": {
        "first-for-all": _in_order(lambda x: np.repeat(x[:1], x.size)),
        "last-for-all": _in_order(lambda x: np.repeat(x[-1:], x.size)),
        "reversed": _in_order(lambda x: x[::-1]),
        "rolled": _in_order(lambda x: np.roll(x, 1)),
    },
    "step": _entries(1),
    "padding": _entries(0),
    "zero-point": {
        "ignored": np.zeros_like,
        "added": lambda x: -x.astype(np.int64),
        "with-other-sign": _with_other_sign,
    },
    "scale": {
        "ignored": lambda x: np.copysign(np.ones_like(x), x),
        "divides": lambda x: np.where(np.isfinite(1 / x), 1 / x, x),
        "without-sign": np.abs,
        "in-float16": _of_float(
            lambda x: np.copysign(np.clip(np.abs(x), 2.0**-24, 65504).astype(np.float16), x)
        ),
        "in-bfloat16": lambda x: _in_bfloat16(x) if x.dtype == np.float32 else x,
    },
    "addend": {
        "ignored": np.zeros_like,
        "subtracted": lambda x: -x.astype(np.int64),
        "twice": lambda x: 2 * x.astype(np.int64),
        "in-16-bits": lambda x: x.astype(np.int16).astype(np.int64),
        "without-sign": lambda x: np.abs(x.astype(np.int64)),
    },
    "wide": {"narrowed": _narrowed},
    "floats": {
        "in-float16": _of_float(lambda x: x.astype(np.float16)),
        "truncated": _of_float(np.trunc),
        "flushed": _of_float(lambda x: np.where(np.abs(x) < np.finfo(x.dtype).tiny, x * 0, x)),
    },
    "signed": {"with-other-sign": _with_other_sign},
    "subnormal": {
        "at-least-normal": _of_float(
            lambda x: np.copysign(np.maximum(np.abs(x), np.finfo(x.dtype).tiny), x)
        )
    },
}


def readings(operator: str) -> Iterator[Mutant]:
    """Yield the mutants that misread a field, or several at once, in one of its roles."""
    (family,) = (own for own in FIELDS.values() if operator in own["operators"])
    for clauses, fields, roles in rows_of(operator, family["roles"]):
        label = "-and-".join(map(dashed, fields.split()))
        for role in roles.split():
            for name, way in ROLES[role].items():
                read = partial(_read, fields.split(), way)
                yield mutant(operator, f"{label}-{name}", clauses, VALUES, "read", read)


def _read(names: Sequence[str], way: Way, call: Call) -> Call:
    """Misread the tensors or attributes that are there."""
    options = {k: way(call.attributes[k]) for k in names if k in LOWEST}
    there = [name for name in names if name in call.inputs]
    tensors = {k: from_numpy(np.asarray(way(to_numpy(call.inputs[k])))) for k in there}
    return Call({**call.attributes, **options}, {**call.inputs, **tensors}, call.outputs)


# -- rules that are left out, and lines that are misread -----------------------------------------


def accepting(operator: str, calls: Sequence[Vector]) -> Iterator[Mutant]:
    """Yield mutants that leave out what the oracle checks in these valid calls: codes of fields."""
    row, checked = OPERATORS[operator], dict[tuple[str, str], None]()
    with mock.patch.object(oracle, "need", lambda kept, *about: checked.setdefault(about)):
        for vector in calls:
            RULES[operator](vector.attributes, vector.inputs, vector.outputs)
    clauses = " ".join(name for name in row.clauses if name not in row.unbreakable)
    for code, field in checked:
        label, answer = f"accepts-{dashed(field)}-{code}", partial(_accept, (code, field))
        yield mutant(operator, label, clauses, REFUSALS, "refuse", answer)


def _accept(about: tuple[str, str], case: Case, broken: Violations) -> Violations:
    return [violation for violation in broken if violation[1:] != about]


def descs(operator: str) -> Iterator[Mutant]:
    """Yield mutants that leave out a rule of descs, or misread a line of a support table.

    `implied` in `fields.json` names rules and tensors that other rules make up for.
    """
    (family,) = (own for own in FIELDS.values() if operator in own["operators"])
    implied, prefix = family["operators"][operator].get("implied", {}), OPERATORS[operator].prefix
    of_operator = [name for name in DESC_CLAUSES if name.startswith(f"{prefix}-")]
    for rule in ("operator-feature-level", *TENSOR_RULES, *of_operator):
        if rule not in implied:
            answer = partial(_blind, [rule], "")
            yield mutant(operator, f"desc-without-{rule}", rule, DESCS, "refuse", answer)
    for tensor in (name for name in descriptors.tensor_names(operator) if name not in implied):
        label, answer = f"desc-{dashed(tensor)}-unchecked", partial(_blind, TENSOR_RULES, tensor)
        clauses = f"{TYPE} {RANK} {REQUIRED}"
        yield mutant(operator, label, clauses, DESCS, "refuse", answer)
    for level, rows in descriptors.TABLES[operator].items():
        for row in rows:
            label = f"desc-{level}-{dashed(row.tensor)}-not"
            lines: list[tuple[str, Any, str, str]]
            lines = [("DataType", each, TYPE, "data_type") for each in sorted(row.data_types)]
            for rank in sorted({row.lowest, row.highest}):
                lines.append(("DimensionCount", rank, RANK, "dimension_count"))
            for column, value, rule, code in lines:
                answer = partial(_line, level, column, value, Violation(rule, code, row.tensor))
                yield mutant(operator, f"{label}-{value}", rule, DESCS, "refuse", answer)


def _blind(rules: Sequence[str], field: str, case: Case, broken: Violations) -> Violations:
    """Miss violations of these rules, of one field if it is named."""
    return [v for v in broken if v.rule not in rules or (field and v.field != field)]


def _line(
    level: str, column: str, value: Any, refusal: Violation, case: Case, broken: Violations
) -> Violations:
    """Refuse a value in a column of a line, while the table of the level holds."""
    held, tensor = case.feature_level or "", (case.desc or {})[refusal.field]
    known = oracle.LEVELS[oracle.LEVELS.index(descriptors.introduced(case.operator)) :]
    is_held = held in known and descriptors.table_level(case.operator, held) == level
    is_hit = is_held and tensor is not None and tensor[column] == value
    return [refusal, *broken] if is_hit else broken
