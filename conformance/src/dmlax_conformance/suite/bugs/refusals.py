"""Derive bugs from the rules of a call: accept, refuse, give the wrong code or the wrong field."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...operators import OPERATORS
from ...operators.desc_rules import Violation
from ..adapter import Case
from .implementation import Found
from .record import REFUSALS, WINDOWS, Bug, bug

When = Callable[[Case], Any]
Refuse = Callable[[Case, Found], Found]


@dataclass(frozen=True)
class Rules:
    """The fields that a call is refused for by code, and what a test must tell apart.

    A field may be followed by data types or ranks that are wrong for it: `InputTensor:complex64`.
    """

    operator: str
    clauses: Mapping[str, str]
    fields: Mapping[str, str]
    also_allowed: str = ""  # data types of the input beyond DirectML's
    only: str = ""  # the data types of a call, if a desc may have more
    only_in_descs: str = ""  # data types of the table that no call may have, or all of a tensor

    def pairs(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield each code and field, and the wrong values to tell apart."""
        for code, fields in self.fields.items():
            for each in fields.split():
                name, _, wrong = each.partition(":")
                yield code, name, tuple(wrong.split(",")) if wrong else ()

    def bugs(self) -> Iterator[Bug]:
        """Yield every bug that follows."""
        codes, names = list(self.fields), list(dict.fromkeys(name for _, name, _ in self.pairs()))
        for code, name, wrong in self.pairs():
            label, kind = kebab(name), code.replace("_", "-")
            yield self._bug(f"accepts-{label}-{kind}", code, accept(code, name))
            for text, when in _halves(code, name, wrong).items():
                yield self._bug(f"accepts-{label}-{kind}-{text}", code, accept(code, name, when))
            if len(codes) > 1:
                other = codes[(codes.index(code) + 1) % len(codes)]
                made = blame(code, name, code=other)
                yield self._bug(f"{label}-{kind}-is-{other}", code, made)
            if len(names) > 1:
                other = names[(names.index(name) + 1) % len(names)]
                made = blame(code, name, field=other)
                yield self._bug(f"{label}-{kind}-blames-{kebab(other)}", code, made)
        for code, name, text, when in self._allowed():
            yield self._bug(f"refuses-{kebab(name)}-{text}", code, refuse(code, name, when))

    def _bug(self, name: str, code: str, made: Refuse) -> Bug:
        return bug(self.operator, name.replace("_", "-"), self.clauses[code], REFUSALS, refuse=made)

    def _allowed(self) -> Iterator[tuple[str, str, str, When]]:
        """Yield what calls may have and a bug refuses: code, field, name and test."""
        for row in OPERATORS[self.operator].tensors:
            types = self.only.split() or sorted(each.lower() for each in row.data_types)
            types += self.also_allowed.split() if row.tensor == "InputTensor" else []
            types = [each for each in types if each not in self.only_in_descs.split()]
            if row.tensor in self.only_in_descs.split():
                continue
            for each in types if len(types) > 1 and not row.is_output else ():
                yield "data_type", row.tensor, each, has_type(row.tensor, each)
            if row.is_optional and not row.is_output:
                yield "missing_tensor", row.tensor, "absent", lacks(row.tensor)
        yield from self._allowed_ranks()
        yield from _allowed_windows(self.fields.get("option", "").split())
        for code, name, _ in self.pairs():
            if code == "value":
                yield "value", name, "negative", _any(name, lambda scale: scale < 0)
                yield "value", name, "subnormal", _any(name, _is_subnormal)

    def _allowed_ranks(self) -> Iterator[tuple[str, str, str, When]]:
        name, _, low, high, _ = OPERATORS[self.operator].tensors[0]
        yield "dimension_count", name, f"rank-{low}", has_rank(name, low)
        for rank in range(low, high):
            ranks = range(rank + 1, high + 1)
            yield "dimension_count", name, f"rank-above-{rank}", has_rank(name, *ranks)


def kebab(name: str) -> str:
    """Return "filter-scale" for FilterScaleTensor."""
    letters = "".join(f"-{c.lower()}" if c.isupper() else c for c in name.removesuffix("Tensor"))
    return letters.lstrip("-")


# -- ways to answer wrongly --------------------------------------------------------------------


def in_refusals(
    operator: str,
    clause: str,
    answer: Callable[[str, str, When], Refuse],
    code: str,
    field: str,
    calls: Mapping[str, When],
) -> Iterator[Bug]:
    """Yield a bug for each kind of call that is wrongly accepted, or refused."""
    for name, when in calls.items():
        yield bug(operator, name, clause, REFUSALS, refuse=answer(code, field, when))


def accept(code: str, field: str, when: When = lambda case: True) -> Refuse:
    """Let calls pass that must be refused with this code on this field."""
    return lambda case, found: (
        [] if found and found[0][1:] == (code, field) and when(case) else found
    )


def refuse(code: str, field: str, when: When) -> Refuse:
    """Refuse calls that keep every rule."""
    return lambda case, found: found if found or not when(case) else [Violation("", code, field)]


def blame(old_code: str, old_field: str, **changed: str) -> Refuse:
    """Refuse with another code or field."""
    return lambda case, found: [
        each._replace(**changed) if each[1:] == (old_code, old_field) else each for each in found
    ]


# -- what a call has ---------------------------------------------------------------------------


def lacks(name: str) -> When:
    """Return whether a tensor is absent."""
    return lambda case: name not in case.inputs


def has_type(name: str, dtype: str) -> When:
    """Return whether a tensor is there and has a data type."""
    return lambda case: name in case.inputs and case.inputs[name].dtype.name == dtype


def has_rank(name: str, *ranks: int) -> When:
    """Return whether a tensor is there and has one of these ranks."""
    return lambda case: name in case.inputs and case.inputs[name].ndim in ranks


def _any(name: str, test: Callable[[Any], Any]) -> When:
    return lambda case: name in case.inputs and np.any(test(case.inputs[name]))


def _is_subnormal(scale: Any) -> Any:
    return (scale != 0) & (np.abs(scale) < np.finfo(scale.dtype).tiny)


def _values(name: str, kind: str) -> When:
    if kind == "minus-zero":
        return _any(name, lambda scale: (scale == 0) & np.signbit(scale))
    return has_type(name, kind)


def _halves(code: str, name: str, wrong: tuple[str, ...]) -> Mapping[str, When]:
    """Return the parts of a rule that a careless check leaves out."""
    if code == "data_type":
        return {dtype: has_type(name, dtype) for dtype in wrong}
    if code == "dimension_count":
        return {rank: has_rank(name, int(rank)) for rank in wrong}
    if code == "option":
        return _wrong_groups() if name == "GroupCount" else _wrong_windows(name)
    if code == "value":
        return {
            "zero": _any(name, lambda scale: scale == 0),
            "infinite": _any(name, np.isinf),
            "nan": _any(name, np.isnan),
            **{each: _values(name, each) for each in wrong},
        }
    return {}


def _wrong_groups() -> Mapping[str, When]:
    return {
        "zero": lambda case: case.attributes["GroupCount"] == 0,
        "negative": lambda case: case.attributes["GroupCount"] < 0,
    }


def _wrong_windows(name: str) -> Mapping[str, When]:
    def entries(test: Callable[[list[int], int], bool]) -> When:
        return lambda case: test(case.attributes[name], case.inputs["InputTensor"].ndim - 2)

    low = WINDOWS[name]
    zero = {"zero": entries(lambda own, axes: len(own) == axes and min(own) == 0)} if low else {}
    return {
        "too-few": entries(lambda own, axes: len(own) < axes),
        "too-many": entries(lambda own, axes: len(own) > axes),
        "first": entries(lambda own, axes: len(own) == axes and own[0] < low),
        "last": entries(lambda own, axes: len(own) == axes and own[-1] < low),
        "negative": entries(lambda own, axes: len(own) == axes and min(own) < 0),
        **zero,
    }


def _above(low: int) -> Callable[[Any], bool]:
    return lambda own: max(own) > low


def _allowed_windows(names: list[str]) -> Iterator[tuple[str, str, str, When]]:
    def option(name: str, test: Callable[[Any], bool]) -> When:
        return lambda case: test(case.attributes[name])

    for name, low in ((name, WINDOWS[name]) for name in WINDOWS if name in names):
        yield "option", name, "differ", option(name, lambda own: len(set(own)) > 1)
        yield "option", name, f"above-{low}", option(name, _above(low))
    if "GroupCount" in names:
        yield "option", "GroupCount", "above-1", option("GroupCount", lambda own: own > 1)
