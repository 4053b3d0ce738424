"""Mutants that a stranger's set had and the catalogue lacked.

A rule is checked, but a wrong value passes beside a right one, where sizes divide, or at one rank.
A buffer is read right, but not if one stride differs from the packed one. The tables of the
families hold the others, whose names begin with "gap".
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dmlax_conformance.format import layout
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.runner.adapter import Case
from grading.mutants.engine.implementation import gathered, scattered
from grading.mutants.engine.mutant import DESCS, REFUSALS, Mutant, mutant
from grading.mutants.registry import mutants_of

Test = Callable[..., Any]
IMAGE, FILTER, A, B = "InputTensor", "FilterTensor", "ATensor", "BTensor"
BY_PREFIX = {row.prefix: name for name, row in OPERATORS.items()}
PASSES: Mapping[str, Test] = {
    # vectors, by the number of values and the right one
    "absent": lambda n, right: n == 0,
    "beyond-one": lambda n, right: n > right == 1,
    "in-other-shapes": lambda n, right: n == right > 1,
    "that-divide": lambda n, right: 1 < n < right and right % n == 0,
    "that-repeat": lambda n, right: n > right > 1 and n % right == 0,
    # tensors, by the sizes and those to agree with
    "of-fewer-axes": lambda given, right: 1 < len(given) < len(right),
    "of-more-axes": lambda given, right: len(given) > len(right),
    # tensors, by the data type or the number of values
    "of-bool": lambda given: given.dtype == "bool",
    "of-floats": lambda given: given.dtype.kind == "f",
    "of-wide-integers": lambda given: given.dtype.kind in "iu" and given.dtype.itemsize > 1,
    "of-one-value": lambda given: given.size == 1,
    # lists, by the entries and the number of axes
    "by-the-first": lambda given, axes: len(given) == axes > 1 and given[0] > 0,
    "by-the-last": lambda given, axes: len(given) == axes > 1 and given[-1] > 0,
    "by-the-ends": lambda given, axes: len(given) == axes > 2 and min(given[0], given[-1]) >= 0,
    "by-their-product": lambda given, axes: len(given) == axes > 1 and prod(given) > 0,
    "by-their-sum": lambda given, axes: len(given) == axes > 1 and sum(given) > 0,
    "of-a-line": lambda given, axes: len(given) == axes == 1,
    "of-none": lambda given, axes: not given,
    "of-too-many": lambda given, axes: len(given) > axes,
    # windows, by spare cells and strides
    "between": lambda spare, step: len(spare) == 3 and spare[1] < 0 <= min(spare[::2]),
    "of-one-axis": lambda spare, step: len(spare) == 1,
    "towards-zero": lambda spare, step: min(map(int.__add__, spare, step)) > 0,
    # groups, by the filters and their channels
    "of-depthwise": lambda groups, filters, channels: channels == 1,
    "of-few-filters": lambda groups, filters, channels: filters < groups,
}
CARELESS = Path(__file__).parent / "careless.json"  # codes, words, prefixes, and fields


def mutants() -> Iterator[Mutant]:
    """Yield every mutant."""
    for code, word, prefixes, fields in json.loads(CARELESS.read_text(encoding="utf-8")):
        for prefix, field in product(prefixes.split(), fields.split()):
            yield _blind(prefix, code, word, field)
    for side, axis, prefixes in BUFFERS:
        for operator in map(BY_PREFIX.__getitem__, prefixes.split()):
            name = f"gap-desc-{side}-{axis}".replace("--1", "-repeated")
            yield mutant(operator, name, "tensor-buffer", DESCS, **_strided(side, axis))


# -- checks that stop short ------------------------------------------------------------------------


def sizes(case: Case, name: str) -> tuple[int, ...]:
    """Return the sizes of a tensor of a call or a desc."""
    if case.desc is not None:
        return tuple(case.desc[name]["Sizes"]) if case.desc.get(name) else ()
    return case.inputs[name].shape if name in case.inputs else case.outputs[name].sizes


def option(case: Case, name: str) -> Any:
    """Return an attribute of a call or a desc."""
    return (case.attributes if case.desc is None else case.desc)[name]


def _blind(prefix: str, code: str, word: str, field: str) -> Mutant:
    """Return a mutant that accepts some calls, or descs, that break a rule."""
    operator, is_desc = BY_PREFIX[prefix.removesuffix("+desc")], prefix.endswith("+desc")
    is_option = code == "option" or field in ("WindowSize", "GroupCount")
    name = field if is_option else f"{field}Tensor"

    def refuse(case: Case, broken: Any) -> Any:
        known = partial(_known, operator, code, word, name, case)
        return [v for v in broken if v[1:] != (code, name) or not PASSES[word](*known())]

    label = f"gap{'-desc' * is_desc}-{field}-{code}-{word}".lower().replace("_", "-")
    group = DESCS if is_desc else REFUSALS
    return mutant(operator, label, _clauses(operator, group), group, refuse=refuse)


def _clauses(operator: str, group: str) -> str:
    """Return the clauses that calls or descs can break."""
    row = OPERATORS[operator]
    if group == REFUSALS:
        return " ".join(name for name in row.clauses if name not in row.unbreakable)
    names = (f"{row.prefix}-{name}" for name in row.desc_clauses)
    return " ".join(name for name in names if name not in mutants_of(operator).descs.implied)


def _known(operator: str, code: str, word: str, name: str, case: Case) -> tuple[Any, ...]:
    """Return what a careless check looks at."""
    given = sizes(case, name) if name.endswith("Tensor") else option(case, name)
    if code in ("data_type", "value"):
        asked = case.outputs.get(name)
        return (case.inputs[name] if asked is None else np.empty(0, asked.dtype),)
    if code == "option":
        return given, len(sizes(case, IMAGE)) - 2
    if name == "GroupCount":
        return given, *sizes(case, FILTER)[:2]
    if name in (FILTER, "WindowSize"):
        lists = (option(case, x) for x in ("Dilations", "StartPadding", "EndPadding"))
        window = given if name == "WindowSize" else given[2:]
        rows = zip(sizes(case, IMAGE)[2:], window, *lists, strict=False)
        return [n + a + b - (k - 1) * d - 1 for n, k, d, a, b in rows], option(case, "Strides")
    if word in ("of-fewer-axes", "of-more-axes"):
        return given, sizes(case, A if name == B else IMAGE)
    if name == B:
        return sizes(case, A)[-1], given[-2:][0]
    right = 1
    if "average" in operator:
        right = (*sizes(case, IMAGE), 1, 1)[1]
    elif "convolution" in operator and name.startswith(("Filter", "Bias")):
        right = sizes(case, FILTER)[0]
    elif "matrix" in operator:
        right = sizes(case, B)[-1] if name.startswith("B") else (1, *sizes(case, A))[-2]
    return prod(given), right


# -- buffers ---------------------------------------------------------------------------------------


def _strided(side: str, axis: int) -> dict[str, Any]:
    """Return a step between buffers and tensors that takes an axis, or repetition, for packed."""

    def steps(desc: Mapping[str, Any]) -> list[int]:
        given, found = desc["Sizes"], layout.strides_of(desc)
        if axis < 0:
            packed = layout.packed_strides(given)
            return [step or other for step, other in zip(found, packed, strict=True)]
        inner = [n * step for n, step in zip(given, found, strict=True)][axis + 1 :]
        return [*found[:axis], max(inner, default=1), *found[axis + 1 :]][: len(given)]

    if side == "gather":
        return {"from_buffer": partial(gathered, strides=steps)}
    return {"to_buffer": partial(scattered, strides=steps)}


BUFFERS = (  # sides, axes and operators
    ("gather", 0, "avgpool maxpool"),
    ("gather", 2, "nonzero"),
    ("gather", -1, "intconv avgpool dynamic"),
    ("scatter", 0, "intconv qconv avgpool maxpool"),
    ("scatter", 1, "intconv avgpool"),
    ("scatter", 2, "nonzero"),
    ("scatter", 3, "quantize qadd"),
)
