"""Derive mutants from the rules of a call: accept, refuse, give another code or another field."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.operator import dashed

from .mutant import REFUSALS, WINDOWS, Mutant, Refuse, When, at_place

Test = Callable[[Any], Any]


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
        """Yield every code and field, and the wrong values to tell apart."""
        for code, fields in self.fields.items():
            for field in fields.split():
                name, _, wrong = field.partition(":")
                yield code, name, tuple(wrong.split(",")) if wrong else ()

    def mutants(self) -> Iterator[Mutant]:
        """Yield every mutant that follows."""
        codes, names = list(self.fields), list(dict.fromkeys(name for _, name, _ in self.pairs()))
        for code, name, wrong in self.pairs():
            label = f"{dashed(name)}-{code}".replace("_", "-")
            tests = {f"accepts-{label}": lambda case: True}
            for text, test in _parts(code, name, wrong).items():
                tests[f"accepts-{label}-{text}"] = test
            yield from at_place(self.operator, self.clauses[code], f"accept {code} {name}", tests)
            blames, other_code, other = {}, _next(codes, code), _next(names, name)
            if other_code != code:
                text = f"{label}-is-{other_code}".replace("_", "-")
                blames[text] = {"refuse": _blame(code, name, code=other_code)}
            if other != name:
                text = f"{label}-blames-{dashed(other)}"
                blames[text] = {"refuse": _blame(code, name, field=other)}
            yield from at_place(self.operator, self.clauses[code], "whole", blames, REFUSALS)
        for code, name, text, when in self._allowed():
            tests = {f"refuses-{dashed(name)}-{text}": when}
            yield from at_place(self.operator, self.clauses[code], f"refuse {code} {name}", tests)

    def _allowed(self) -> Iterator[tuple[str, str, str, When]]:
        """Yield what calls may have and a mutant refuses: code, field, name and test."""
        excluded = self.only_in_descs.split()
        tensors = OPERATORS[self.operator].tensors
        for row in tensors:
            if row.is_output or row.tensor in excluded:
                continue
            types = self.only.split() or sorted(dtype.lower() for dtype in row.data_types)
            types += self.also_allowed.split() if row.tensor == "InputTensor" else []
            types = [dtype for dtype in types if dtype not in excluded]
            for dtype in types if len(types) > 1 else ():
                yield "data_type", row.tensor, dtype, has_type(row.tensor, dtype)
            if row.is_optional:
                yield "missing_tensor", row.tensor, "absent", _lacks(row.tensor)
        name, _, low, high, _ = tensors[0]
        yield "dimension_count", name, f"rank-{low}", has_rank(name, low)
        for rank in range(low, high):
            above = has_rank(name, *range(rank + 1, high + 1))
            yield "dimension_count", name, f"rank-above-{rank}", above
        for code, name, _ in self.pairs():
            for text, test in ALLOWED.get(name if code == "option" else code, {}).items():
                yield code, name, text, has(name, test)


def _next(names: Sequence[str], name: str) -> str:
    return names[(names.index(name) + 1) % len(names)]


def _blame(old_code: str, old_field: str, **changed: str) -> Refuse:
    """Refuse with another code or field."""
    return lambda case, broken: [
        v._replace(**changed) if v[1:] == (old_code, old_field) else v for v in broken
    ]


def has(name: str, test: Test) -> When:
    """Return whether an attribute passes a test, or a tensor that is there does anywhere."""
    return lambda case: (
        test(case.attributes[name])
        if name in case.attributes
        else name in case.inputs and np.any(test(case.inputs[name]))
    )


def has_type(name: str, dtype: str) -> When:
    """Return whether a tensor is there and has a data type."""
    return has(name, lambda x: x.dtype.name == dtype)


def has_rank(name: str, *ranks: int) -> When:
    """Return whether a tensor is there and has one of these ranks."""
    return has(name, lambda x: x.ndim in ranks)


def is_long(name: str) -> When:
    """Return whether a parameter has several values."""
    return lambda case: name in case.inputs and case.inputs[name].size > 1


def is_square(name: str) -> When:
    """Return whether a parameter has several values on several axes."""
    return lambda case: sum(size > 1 for size in case.inputs[name].shape) > 1


def is_bad(name: str, at: int) -> When:
    """Return whether the first (0) or last (-1) scale is not finite or 0."""
    return lambda case: not 0 < np.abs(case.inputs[name].flat[at]) < np.inf


def has_length(name: str, tensor: str, axis: int) -> When:
    """Return whether a parameter has as many values as an axis of a tensor is long."""
    return lambda case: case.inputs[name].size == case.inputs[tensor].shape[axis]


def _lacks(name: str) -> When:
    return lambda case: name not in case.inputs


def _window(name: str, test: Callable[[Sequence[int], int], bool]) -> When:
    """Test the entries of an option and how many axes a window has."""
    return lambda case: test(case.attributes[name], case.inputs["InputTensor"].ndim - 2)


NUMBERS: Mapping[str, Test] = {
    "zero": lambda scale: scale == 0,
    "infinite": np.isinf,
    "nan": np.isnan,
    "minus-zero": lambda scale: (scale == 0) & np.signbit(scale),
}


def _exceeds(low: int, entries: Sequence[int]) -> bool:
    return max(entries) > low


ALLOWED: Mapping[str, Mapping[str, Test]] = {  # by option or code
    "value": {
        "negative": lambda scale: scale < 0,
        "subnormal": lambda scale: (scale != 0) & (np.abs(scale) < np.finfo(scale.dtype).tiny),
    },
    "GroupCount": {"above-1": lambda groups: groups > 1},
    **{
        name: {
            "differ": lambda entries: len(set(entries)) > 1,
            f"above-{low}": partial(_exceeds, low),
        }
        for name, low in WINDOWS.items()
    },
}


def _parts(code: str, name: str, wrong: Sequence[str]) -> Mapping[str, When]:
    """Return the parts of a rule that a careless check leaves out."""
    if code == "data_type":
        return {dtype: has_type(name, dtype) for dtype in wrong}
    if code == "dimension_count":
        return {rank: has_rank(name, int(rank)) for rank in wrong}
    if code == "value":
        kinds = ("zero", "infinite", "nan", *wrong)
        return {k: has(name, NUMBERS[k]) if k in NUMBERS else has_type(name, k) for k in kinds}
    if code != "option":
        return {}
    if name == "GroupCount":
        return {"zero": has(name, lambda n: n == 0), "negative": has(name, lambda n: n < 0)}
    low = WINDOWS[name]
    tests: Mapping[str, Callable[[Sequence[int], int], bool]] = {
        **({"zero": lambda x, axes: len(x) == axes and min(x) == 0} if low else {}),
        "too-few": lambda x, axes: len(x) < axes,
        "too-many": lambda x, axes: len(x) > axes,
        "first": lambda x, axes: len(x) == axes and x[0] < low,
        "last": lambda x, axes: len(x) == axes and x[-1] < low,
        "negative": lambda x, axes: len(x) == axes and min(x) < 0,
    }
    return {text: _window(name, test) for text, test in tests.items()}
