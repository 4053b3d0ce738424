"""Clauses, boundary cases and equivalence classes that lack a vector."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from dmlax_conformance.format.tensors import from_numpy
from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.oracle import OPERATORS, exact
from dmlax_conformance.oracle.calls import answer
from dmlax_conformance.oracle.clauses import CLAUSES, UNBREAKABLE
from dmlax_conformance.oracle.fixed_point import FIELD
from grading import add, near_ties, verify
from grading.coverage import registry
from grading.coverage.elements import OF_BYTES, takes_part

NONZERO, DEQUANTIZE = "nonzero_coordinates", "element_wise_dequantize_linear"
SHORTEST = "quantized_lookup"  # the operator whose coverage takes the least time
BROKEN = set(CLAUSES) - set(UNBREAKABLE)


def calls_of(operator: str, suite: Sequence[Vector]) -> list[Vector]:
    """Return the calls of an operator that count and whose elements are listed."""
    own = [v for v in suite if v.operator == operator and takes_part(v)]
    return [v for v in own if not v.has_digests]


def test_a_clause_needs_a_valid_and_an_invalid_vector() -> None:
    every, three = set(CLAUSES), {"NZC-3"}
    marked = partial(registry.clause_problems, unbreakable=UNBREAKABLE | {"NZC-3": "result"})
    assert [*registry.clause_problems(every, BROKEN)] == []
    assert [*registry.clause_problems(every - three, BROKEN)] == ["NZC-3: no valid vector"]
    (unbroken,) = registry.clause_problems(every, BROKEN - three)
    assert unbroken == "NZC-3: no invalid vector, and not marked as one that no call can break"
    assert [*marked(every, BROKEN)] == ["NZC-3: marked 'result', but a vector breaks it"]
    assert [*registry.clause_problems({*CLAUSES, "NZC-99"}, BROKEN)] == ["NZC-99: is no clause"]
    assert len(UNBREAKABLE) < len(CLAUSES) / 3
    assert set(UNBREAKABLE.values()) == {"result", "open", "absent"}


@pytest.mark.parametrize("operator", OPERATORS)
def test_nothing_covers_nothing(operator: str) -> None:
    lacking = set(registry.problems(operator, []))
    of_classes = {f"{operator}: no vector has {name!r}" for name in registry.names_of(operator)}
    of_cases = lacking - of_classes
    assert of_classes < lacking
    assert all(line.startswith(f"{operator}: no vector at the boundary") for line in of_cases)
    assert len(of_cases) > 12


def test_a_boundary_case_is_that_of_a_valid_call(suite: list[Vector]) -> None:
    own = [v for v in suite if v.operator == SHORTEST]
    invalid = [v for v in own if not v.is_valid]
    assert [*registry.problems(SHORTEST, invalid)] == [*registry.problems(SHORTEST, [])]
    rest = [v for v in own if np.prod(v.outputs["OutputTensor"].sizes) != 257]
    complaint = f"{SHORTEST}: no vector at the boundary case '257 elements'"
    assert complaint in list(registry.problems(SHORTEST, rest))
    assert list(registry.problems(SHORTEST, own)) == []


# -- the numbers that equivalence classes are read off are the oracle's --------------------------


@pytest.mark.parametrize("name", [n for n in OPERATORS if registry.FAMILIES[n][1] == OF_BYTES])
def test_quotients_round_to_what_is_expected(name: str, suite: list[Vector]) -> None:
    calls = [v for v in calls_of(name, suite) if FIELD not in v.attributes]
    assert len(calls) > 20
    for view in map(registry.FAMILIES[name][0], calls[::6]):
        rows = list(view.rows)
        words = exact.rounded(rows, view.output)
        wanted = view.expected.tolist()
        if wanted:  # a NaN leaves every element open
            finite = [at for at, (quotient, _) in enumerate(rows) if quotient.kind == "finite"]
            assert [words[at] for at in finite] == [wanted[at] for at in finite], view.vector.id


def classes_of(operator: str, outputs: dict[str, Request], **arrays: Any) -> set[str]:
    """Return the classes of a call."""
    inputs = {name: from_numpy(np.asarray(array)) for name, array in arrays.items()}
    vector = add.vector_of(operator, {}, inputs, outputs)
    said = verify.Answer(answer(operator, {}, inputs, outputs), [])
    return registry.classes_of(operator, add.with_answer(vector, said, {}))


@pytest.mark.parametrize(
    ("name", "inside", "outside", "others"),
    [
        ("float32 product errs", 2**24 + 1, 2**24 + 2, (0, 3.0, "int32", "float32")),
        ("float64 product errs", 4266868483, 2**32 - 1, (0, 4021333.0, "uint32", "float32")),
        ("float16 product errs", 2049, 2050, (0, 3.0, "int16", "float16")),
        ("difference leaves its type", -128, -127, (1, 1.0, "int8", "float32")),
        ("difference leaves 16 bits", 2**15 - 1, 2**15 - 2, (-1, 1.0, "int16", "float32")),
        ("difference leaves 32 bits", 2**31 - 1, 2**31 - 2, (-1, 1.0, "int32", "float32")),
        ("negative difference", 6, 7, (7, 1.0, "uint8", "float32")),
        ("plus infinity", 2, 1, (0, 2.0**127, "int8", "float32")),
        ("minus infinity", -65520, -65519, (0, 1.0, "int32", "float16")),
        ("subnormal", 1023, 1024, (0, 2.0**-24, "int16", "float16")),
        ("zero of a negative scale", 7, 6, (7, -1.0, "int8", "float32")),
        ("tie, even below", 2**24 + 1, 2**24 + 3, (0, 1.0, "int32", "float32")),
        ("tie, even above", 2**24 + 3, 2**24 + 1, (0, 1.0, "int32", "float32")),
        ("rounded down", 2**25 + 1, 2**25 + 2, (0, 1.0, "int32", "float32")),
        ("rounded up", -(2**25) - 3, -(2**25) - 2, (0, 1.0, "int32", "float32")),
        ("exact", 3, 2**24 + 1, (0, 2.0**-149, "int32", "float32")),
    ],
)
def test_where_an_easy_mistake_shows(
    name: str, inside: int, outside: int, others: tuple[int, float, str, str]
) -> None:
    point, scale, source, output = others
    for x, is_in in ((inside, True), (outside, False)):
        values = {"InputTensor": (x, source), "ZeroPointTensor": (point, source)}
        values |= {"ScaleTensor": (scale, output)}
        arrays = {k: np.array([value], dtype) for k, (value, dtype) in values.items()}
        found = classes_of(DEQUANTIZE, {"OutputTensor": Request(output, (1,))}, **arrays)
        assert (name in found) == is_in


def test_elements_that_are_found() -> None:
    outputs = {"OutputCountTensor": Request("uint32", (1, 1))}
    outputs["OutputCoordinatesTensor"] = Request("uint32", (20, 2))
    rows = [[0, np.nan, 3, -0.0, 1, 2, 2, 2, 2, 2], [5, 6, 7, 0, np.inf, 0, 0, 0, 0, 0]]
    wanted = {"NaN", "zero", "minus zero", "plus infinity", "first of a row", "last of a row"}
    wanted |= {"found alone", "found within a run", "zero between others", "one"}
    assert classes_of(NONZERO, outputs, InputTensor=np.array(rows, np.float32)) == wanted


# -- near ties ---------------------------------------------------------------------------------

COUNT = 40
WRONG = {"exact": (np.float32, np.float64), "float32": (np.float32,), "float64": (np.float64,)}


@pytest.mark.parametrize("kind", near_ties.KINDS)
def test_samples_are_near_ties_that_floats_misplace(kind: str) -> None:
    members = near_ties.family(kind, COUNT)
    assert len(set(members)) > COUNT * 0.9
    assert members == near_ties.family(kind, COUNT)
    assert all(0 < abs(tie.accumulator) < 2**31 and abs(tie.quotient) < 128 for tie in members)
    assert any(abs(tie.accumulator) > 2**24 for tie in members)
    assert {near_ties.kind(tie.quotient) for tie in members} == {kind}
    right = [exact.round_half_even(tie.quotient) for tie in members]
    sums, *words = np.array(members, np.int64).T
    for dtype in WRONG[kind]:
        sx, sw, sy = (each.astype(np.uint32).view(np.float32).astype(dtype) for each in words)
        found = np.rint(sums.astype(dtype) * ((sx * sw) / sy)).tolist()
        assert 0 < sum(a != b for a, b in zip(found, right, strict=True)) < COUNT
