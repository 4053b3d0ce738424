"""Clauses, boundary cases and equivalence classes that lack a vector."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from dmlax_conformance.format.tensors import from_numpy
from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.oracle import OPERATORS, exact
from dmlax_conformance.oracle.calls import answer
from dmlax_conformance.oracle.clauses import CLAUSES, UNBREAKABLE
from grading import __main__ as cli
from grading import add, near_ties, verify
from grading.coverage import matrix, registry
from grading.coverage.matrix import CoverageMatrix, takes_part

NONZERO, DEQUANTIZE = "nonzero_coordinates", "element_wise_dequantize_linear"
SHORTEST = "quantized_lookup"  # the operator whose coverage takes the least time
BROKEN = set(CLAUSES) - set(UNBREAKABLE)


def of(operator: str) -> CoverageMatrix:
    """Return the coverage matrix of an operator that has one."""
    found = registry.cross_of(operator)
    assert found is not None
    return found


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
    pairs = of(operator).pairs()
    lacking = set(registry.problems(operator, []))
    of_pairs = {f"{operator}: no vector has {a!r} at {at!r}" for a, at in pairs}
    of_cases = lacking - of_pairs
    assert of_pairs < lacking
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


def table(**changes: object) -> CoverageMatrix:
    """Return the matrix of calls that are arrays of four elements."""

    class View(np.ndarray):
        count = 4

    made = CoverageMatrix(
        view=lambda vector: np.arange(4).view(View),
        classes={"even": lambda view: view % 2 == 0, "any": lambda view: True},
        structures={"rank 4": lambda view: view < 3, "rows beyond 8": lambda view: view > 2},
    )
    return replace(made, **changes)


def test_a_pair_is_covered_where_an_element_has_both(suite: list[Vector]) -> None:
    assert table().covered(suite[0]) == {
        *(("even", "rank 4"), ("any", "rank 4"), ("any", "rows beyond 8"))
    }
    assert table().at_structures(suite[0]).tolist() == [[1, 1, 1, 0], [0, 0, 0, 1]]
    apart = table(impossible=matrix.impossible(["e* | x at rows *: is none"]))
    assert apart.pairs() == table().pairs() - {("even", "rows beyond 8")}
    assert apart.why_not("even", "rows beyond 8") == "is none"
    assert apart.why_not("any", "rows beyond 8") is None


def test_a_false_exception_is_a_complaint(
    suite: list[Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, at = sorted(of(SHORTEST).pairs())[0]
    wrong = replace(of(SHORTEST), impossible={(name, at): "not so"})
    monkeypatch.setattr(registry, "cross_of", lambda operator: wrong)
    complaint = f"{SHORTEST}: {name!r} at {at!r} is called impossible, but a vector has it"
    assert complaint in list(registry.problems(SHORTEST, calls_of(SHORTEST, suite)))


def test_the_command_prints_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["coverage", "--operator", SHORTEST]) == 0
    row = next(x for x in capsys.readouterr().out.splitlines() if x.startswith(SHORTEST))
    own = of(SHORTEST)
    pairs = len(own.pairs())
    assert row.split()[1:5] == [*map(str, (len(own.classes), len(own.structures), pairs, pairs))]


# -- the numbers that equivalence classes are read off are the oracle's --------------------------


@pytest.mark.parametrize("operator", [n for n in OPERATORS if "whole" in of(n).classes])
def test_quotients_round_to_what_is_expected(operator: str, suite: list[Vector]) -> None:
    calls = calls_of(operator, suite)
    assert len(calls) > 20
    for view in map(of(operator).view, calls[::6]):
        rows = view.distinct[0]
        is_finite = view.of_distinct(quotient.kind == "finite" for quotient, _ in rows)
        words = view.of_distinct(exact.rounded(rows, view.output))
        if view.expected.size:  # a NaN leaves every element open
            wanted = view.expected[is_finite].tolist()
            assert words[is_finite].tolist() == wanted, view.vector.id


def test_products_are_the_expected_ones(suite: list[Vector]) -> None:
    calls: Any = calls_of(DEQUANTIZE, suite)
    assert len(calls) > 100
    for vector in calls:
        result = of(DEQUANTIZE).view(vector).result
        words = result.view(f"uint{8 * result.itemsize}").tolist()
        assert words == list(vector.expect["OutputTensor"].words), vector.id


def elements_of(operator: str, outputs: dict[str, Request], **arrays: Any) -> dict[str, list[int]]:
    """Return the elements in each class and at each structure of a call."""
    inputs = {name: from_numpy(np.asarray(array)) for name, array in arrays.items()}
    vector = add.vector_of(operator, {}, inputs, outputs)
    said = verify.Answer(answer(operator, {}, inputs, outputs), [])
    view = of(operator).view(add.with_answer(vector, said, {}))
    tests = {**of(operator).classes, **of(operator).structures}
    found = zip(tests, matrix.masks(tests, view), strict=True)
    return {name: np.flatnonzero(mask).tolist() for name, mask in found}


@pytest.mark.parametrize(
    ("name", "inside", "outside", "others"),
    [
        ("float32 product errs", 2**24 + 1, 2**24 + 2, (0, 3.0, "int32", "float32")),
        ("float64 product errs", 4266868483, 2**32 - 1, (0, 4021333.0, "uint32", "float32")),
        ("float16 product errs", 2049, 2050, (0, 3.0, "int16", "float16")),
        ("float32 before the difference errs", 2**24 + 1, 5, (2**24, 1.0, "int32", "float32")),
        ("float16 before the difference errs", 2049, 5, (2048, 1.0, "int16", "float32")),
        ("difference of rounded products errs", 2**24 + 1, 5, (1, 1.0, "int32", "float32")),
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
    found = elements_of(
        DEQUANTIZE,
        {"OutputTensor": Request(output, (2,))},
        InputTensor=np.array([inside, outside], source),
        ScaleTensor=np.array([scale], output),
        ZeroPointTensor=np.array([point], source),
    )
    assert found[name] == [0]


def test_elements_that_are_found() -> None:
    outputs = {"OutputCountTensor": Request("uint32", (1, 1))}
    outputs["OutputCoordinatesTensor"] = Request("uint32", (20, 2))
    rows = [[0, np.nan, 3, -0.0, 1, 2, 2, 2, 2, 2], [5, 6, 7, 0, np.inf, 0, 0, 0, 0, 0]]
    found = elements_of(NONZERO, outputs, InputTensor=np.array(rows, np.float32))
    wanted = {
        "NaN": [1],
        "zero": [0, 13, *range(15, 20)],
        "minus zero": [3],
        "plus infinity": [14],
        "first of a row": [10],
        "last of a row": [9],
        "found alone": [14],
        "found within a run": [5, 6, 7, 8, 9, 10, 11],
        "zero between others": [3, 13],
        "smallest integer": [],
        "a row: in whole vectors of 8": [*range(8), *range(10, 18)],
        "a row: after whole vectors of 8": [8, 9, 18, 19],
        "a row: after whole vectors of 16": [],
        "rank 2": [*range(20)],
        "none is found": [],
        "elements beyond 16": [16, 17, 18, 19],
    }
    assert {name: found[name] for name in wanted} == wanted


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
