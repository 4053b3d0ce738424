"""Mutants that keep a plan or a table: a later call gets what an earlier one left.

The key of what is kept says everything about a call except one field, or several, of which it
knows only a view. The vector that `after` names is the earlier call.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

from dmlax_conformance.oracle import OPERATORS, exact
from dmlax_conformance.oracle.operator import dashed

from .derived import FIELDS, LOWEST, rows_of
from .mutant import KEPT, VALUES, Call, Mutant, mutant

Words = Sequence[int]
View = Callable[[list[Words]], Hashable]  # what a key knows of the elements of fields
Views = dict[str, View]


def _of_each(view: Callable[[Words], Hashable]) -> View:
    return lambda fields: tuple(view(words) for words in fields)


def _product(scales: list[Words]) -> Hashable:
    """Multiply the scales of all fields; a key holds their float."""
    return float(prod(exact.decode(word, "float32").value for words in scales for word in words))


def _entries(change: Callable[[int], int]) -> View:
    return _of_each(lambda words: tuple(map(change, words)))


ANYTHING: Views = {"nothing": lambda fields: None}
VALUE: Views = ANYTHING | {
    "its-low-bits": _entries(lambda word: word & 127),
    "its-magnitude": _entries(lambda word: min(abs(word), word & 0x7FFFFFFF)),  # of floats, too
}
ENTRIES: Views = VALUE | {
    "its-ends": _of_each(lambda words: (words[0], words[-1])),
    "its-even-entries": _of_each(lambda words: tuple(words[::2])),
    "its-odd-entries": _of_each(lambda words: tuple(words[1::2])),
    "its-sum": _of_each(sum),
}
AXES: Views = ANYTHING | {
    "its-rows": _of_each(lambda entries: entries[0]),
    "its-columns": _of_each(lambda entries: entries[-1]),
    "its-product": _of_each(prod),
}
TOGETHER: dict[str, Views] = {  # what the key knows of several fields
    "scale": {"their-product": _product},
    "signed": {"their-bytes": _entries(lambda word: word & 255)},  # and no data types
}
# What the key knows of a field, by the field's roles.
VIEWS: dict[str, Views] = {
    "axes": ENTRIES,
    "elements": ENTRIES,
    "step": AXES,
    "zero-point": VALUE,
    "scale": VALUE,
}


def keeping(operator: str) -> Iterator[Mutant]:
    """Yield the mutants of an operator's fields and their roles."""
    (family,) = (own for own in FIELDS.values() if operator in own["operators"])
    found: dict[str, Mutant] = {}
    first = next(iter(OPERATORS[operator].clauses))  # a pair of calls is about the formula
    for clauses, fields, roles in rows_of(operator, family["roles"]):
        names, label = fields.split(), "-and-".join(map(dashed, fields.split()))
        views = {k: v for role in roles.split() for k, v in VIEWS.get(role, {}).items()}
        if len(names) > 1:
            views = TOGETHER.get(roles, {})
        for view, key in views.items():
            name, change = f"keeps-{label}-by-{view}", partial(_kept, names, key)
            found[name] = mutant(operator, name, f"{clauses} {first}", VALUES, KEPT, change)
    yield from found.values()


def _kept(names: Sequence[str], view: View, earlier: Call, call: Call) -> Call:
    """Return a call with the fields of an earlier one, if the key takes it for that."""
    there = [name for name in names if name in call.inputs or name in call.attributes]
    if not there or _but(earlier, there) != _but(call, there):
        return call
    one, two = ([_words(each, name) for name in there] for each in (earlier, call))
    if view(one) != view(two):
        return call
    tensors = {name: earlier.inputs[name] for name in there if name in call.inputs}
    options = {name: earlier.attributes[name] for name in there if name in LOWEST}
    return Call({**call.attributes, **options}, {**call.inputs, **tensors}, call.outputs)


def _but(call: Call, names: Sequence[str]) -> Any:
    """Return what the key says about a call: of these fields their sizes."""
    options = {k: v for k, v in call.attributes.items() if k not in names}
    tensors = {k: (v.sizes, k in names or v.words) for k, v in call.inputs.items()}
    return options, tensors, {k: v.sizes for k, v in call.outputs.items()}


def _words(call: Call, name: str) -> Words:
    return call.inputs[name].words if name in call.inputs else call.attributes[name]
