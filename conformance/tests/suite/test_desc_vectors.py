"""Desc vectors: their coverage of the tables, their form, and how they are judged."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlax_conformance import cli
from dmlax_conformance.adapters.base import Case
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import Malformed, SpecViolation
from dmlax_conformance.format import layout, vectors
from dmlax_conformance.format.vectors import ExpectedError, Vector
from dmlax_conformance.operators import OPERATORS
from dmlax_conformance.operators.desc_clauses import DESC_CLAUSES
from dmlax_conformance.operators.desc_rules import violations
from dmlax_conformance.operators.tables import LEVELS, TABLES, introduced, rows, table_level
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.suite import lint, runner

Edit = Callable[[dict[str, Any]], Any]
ROWS = [
    pytest.param(operator, level, row.tensor, id=f"{operator}-{level}-{row.tensor}")
    for operator, tables in TABLES.items()
    for level, table in tables.items()
    for row in table
]


@pytest.fixture(scope="module")
def descs(suite: list[Vector]) -> list[Vector]:
    return [vector for vector in suite if vector.desc is not None]


def desc_of(vector: Vector) -> Mapping[str, Any]:
    assert vector.desc is not None
    return vector.desc


def broken(vector: Vector) -> list[str]:
    """Return the names of the rules that a desc vector breaks."""
    level = vector.feature_level or ""
    return [each.rule for each in violations(vector.operator, desc_of(vector), level)]


def error(vector: Vector) -> tuple[str, str]:
    assert isinstance(vector.expect, ExpectedError)
    return vector.expect.code, vector.expect.field


# -- coverage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("operator", "level", "tensor"), ROWS)
def test_every_row_is_covered_inside_and_outside(
    operator: str, level: str, tensor: str, descs: list[Vector]
) -> None:
    (row,) = (row for row in rows(operator, level) if row.tensor == tensor)
    mine = [
        vector
        for vector in descs
        if vector.operator == operator
        and LEVELS.index(vector.feature_level or "") >= LEVELS.index(introduced(operator))
        and table_level(operator, vector.feature_level or "") == level
    ]
    inside = {dimensions(vector, tensor) for vector in mine if vector.is_valid}
    assert {row.lowest, row.highest} <= inside
    assert (None in inside) == row.is_optional
    outside = [vector for vector in mine if not vector.is_valid and error(vector)[1] == tensor]
    codes = {(error(v)[0], dimensions(v, tensor)) for v in outside}
    assert ("dimension_count", row.highest + 1) in codes
    assert row.lowest == 1 or ("dimension_count", row.lowest - 1) in codes
    types = {desc_of(v)[tensor]["DataType"] for v in outside if error(v)[0] == "data_type"}
    assert types - row.data_types
    assert row.is_optional or ("missing_tensor", None) in codes


def dimensions(vector: Vector, tensor: str) -> int | None:
    """Return a tensor's DimensionCount, None when it is absent."""
    one = desc_of(vector)[tensor]
    return None if one is None else int(one["DimensionCount"])


def test_every_rule_of_every_operator_is_broken(descs: list[Vector]) -> None:
    late = {operator for operator in TABLES if introduced(operator) != LEVELS[0]}
    for rule in DESC_CLAUSES.keys() - {"tensor-buffer"}:
        operators = {v.operator for v in descs if not v.is_valid and rule in v.clause}
        everywhere = TABLES.keys() if rule.startswith("tensor-") else late
        own = {name for name, row in OPERATORS.items() if rule.startswith(f"{row.prefix}-")}
        assert operators == (own or everywhere), rule


def test_clauses_name_the_rule_that_is_broken(descs: list[Vector]) -> None:
    for vector in descs:
        found = broken(vector)
        assert bool(found) != vector.is_valid
        assert not found or vector.clause == (found[0],), vector.id


def test_the_first_answer_is_the_expected_one(descs: list[Vector]) -> None:
    for vector in descs:
        if isinstance(vector.expect, ExpectedError):
            level = vector.feature_level or ""
            _, *answer = violations(vector.operator, desc_of(vector), level)[0]
            assert tuple(answer) == error(vector), vector.id


def test_operators_are_refused_before_their_level(descs: list[Vector]) -> None:
    early = {v.operator: v.feature_level for v in descs if "operator-feature-level" in v.clause}
    later = {operator for operator in TABLES if introduced(operator) != "1_0"}
    assert early.keys() == later


def test_strided_outputs_are_asked_for_everywhere(descs: list[Vector]) -> None:
    strided = [v for v in descs if v.is_valid and "strides" in v.requires]
    assert {v.operator for v in strided if any(is_strided(v, k) for k in v.outputs)} == set(TABLES)
    assert {v.operator for v in strided if any(is_strided(v, k) for k in v.inputs)} == set(TABLES)


def is_strided(vector: Vector, name: str) -> bool:
    return not layout.is_packed(desc_of(vector)[name])


# -- planted mistakes --------------------------------------------------------------------------


class Careless(Oracle):
    """The oracle with strides that it does not look at."""

    def __init__(self, kind: str) -> None:
        """Choose between inputs and outputs."""
        self._kind = kind

    def run(self, case: Case, variant: str) -> dict[str, Any]:
        """Read, or write, as if everything were packed."""
        if case.desc is None:
            return super().run(case, variant)
        if self._kind == "inputs":
            flat = {k: self._first(case, k) for k in case.inputs}
            return super().run(replace(case, inputs=flat), variant)
        return {k: v.reshape(-1) for k, v in super().run(case, variant).items()}

    def _first(self, case: Case, name: str) -> Any:
        assert case.desc is not None
        tensor, held = case.desc[name], case.inputs[name]
        if layout.is_packed(tensor):
            return held
        places = layout.offsets(tensor["Sizes"], tensor["Strides"])
        wrong = held.copy()
        wrong[places] = held[[min(i, held.size - 1) for i in range(len(places))]]
        return wrong


@pytest.mark.parametrize("operator", sorted(TABLES))
def test_ignoring_strides_is_noticed(operator: str, descs: list[Vector]) -> None:
    strided = [
        v for v in descs if v.operator == operator and v.is_valid and "strides" in v.requires
    ]
    for kind in ("inputs", "outputs"):
        verdicts = [result.verdict for result in runner.run(Careless(kind), strided, ["eager"])]
        assert verdicts.count("fail") >= 2, (kind, verdicts)


# -- the runner --------------------------------------------------------------------------------


class Answers(Oracle):
    """Answers every case alike."""

    def __init__(self, answer: Any) -> None:
        """Keep the answer, or the exception."""
        self._answer = answer

    def run(self, case: Case, variant: str) -> Any:
        """Return or raise it."""
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def named(suite: list[Vector], name: str) -> Vector:
    return next(vector for vector in suite if vector.id == name)


INTERLEAVED = "quantize-desc-strides-output-interleaved"


def test_outputs_are_gathered_and_gaps_do_not_matter(suite: list[Vector]) -> None:
    vector = named(suite, INTERLEAVED)
    (held,) = Oracle().run(runner.case_of(vector), "eager").values()
    assert held.shape == (8,)
    held = held.copy()
    held[[1, 4, 6, 7]] = 77
    assert runner.judge(Answers({"OutputTensor": held}), vector, "eager").verdict == "exact"
    held[3] ^= 1
    assert runner.judge(Answers({"OutputTensor": held}), vector, "eager").verdict == "fail"


@pytest.mark.parametrize("shape", [(4,), (6,), (2, 2), (2, 4), (9,)])
def test_a_buffer_of_the_wrong_length_fails(shape: tuple[int, ...], suite: list[Vector]) -> None:
    vector = named(suite, INTERLEAVED)
    outcome = runner.judge(Answers({"OutputTensor": np.zeros(shape, "uint8")}), vector, "eager")
    assert outcome.verdict == "fail"
    assert "buffer" in outcome.details[0]


def test_a_consequence_is_permitted(descs: list[Vector]) -> None:
    vector = next(v for v in descs if isinstance(v.expect, ExpectedError) and v.expect.also)
    assert isinstance(vector.expect, ExpectedError)
    for code, field in vector.expect.also:
        outcome = runner.judge(Answers(SpecViolation(code, field)), vector, "eager")
        assert outcome.verdict == "permitted"
    exact = SpecViolation(vector.expect.code, vector.expect.field)
    assert runner.judge(Answers(exact), vector, "eager").verdict == "exact"
    other = SpecViolation(vector.expect.code, "Elsewhere")
    assert runner.judge(Answers(other), vector, "eager").verdict == "fail"


class Modest(Oracle):
    """The oracle without some capabilities."""

    def __init__(self, *capabilities: str) -> None:
        """Keep what it lists."""
        self.capabilities = frozenset(capabilities)


def test_what_is_not_listed_is_not_given(suite: list[Vector]) -> None:
    kinds = {(v.operator, v.requires & runner.CAPABILITIES): v for v in suite[::-1] if v.is_valid}
    assert len(kinds) == len(OPERATORS) + 2 * len(TABLES)
    for listed in ((), ("descriptors",), ("descriptors", "strides")):
        for result in runner.run(Modest(*listed), kinds.values(), ["eager"]):
            missing = (result.vector.requires & runner.CAPABILITIES) - set(listed)
            assert result.verdict == ("unsupported" if missing else "exact"), result.vector.id


def test_an_adapter_without_the_attribute_gets_no_descs(descs: list[Vector]) -> None:
    class Old:
        name = "old"
        variants: tuple[str, ...] = ("eager",)

        def run(self, case: Case, variant: str) -> dict[str, Any]:
            raise AssertionError("must not be called")

    outcome = runner.judge(Old(), descs[0], "eager")
    assert outcome.verdict == "unsupported"
    assert "descriptors" in outcome.details[0]


# -- the form ----------------------------------------------------------------------------------

FILE = "element_wise_quantize_linear/desc-strides.json"


@pytest.fixture
def good() -> str:
    return FILE


def at(*path: Any, to: Any) -> Edit:
    def edit(value: Any) -> None:
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to

    return edit


def without(*path: Any) -> Edit:
    def edit(value: Any) -> None:
        for part in path[:-1]:
            value = value[part]
        del value[path[-1]]

    return edit


FIRST = ("vectors", 0)
IMAGE = (*FIRST, "desc", "InputTensor")
MALFORMED: dict[str, tuple[Edit, str]] = {
    "no level": (without(*FIRST, "feature_level"), "/vectors/0"),
    "no such level": (at(*FIRST, "feature_level", to="7_0"), "/vectors/0/feature_level"),
    "level without a desc": (without(*FIRST, "desc"), "/vectors/0"),
    "attributes": (at(*FIRST, "attributes", to={"GroupCount": 1}), "/vectors/0/attributes"),
    "capability": (at(*FIRST, "requires", to=["strides"]), "/vectors/0/requires"),
    "absent field": (without(*FIRST, "desc", "ScaleTensor"), "/vectors/0/desc"),
    "unknown field": (at(*FIRST, "desc", "BiasTensor", to=None), "/vectors/0/desc"),
    "absent key": (without(*IMAGE, "Flags"), "/vectors/0/desc/InputTensor"),
    "unknown type": (at(*IMAGE, "DataType", to="FLOAT"), "/vectors/0/desc/InputTensor/DataType"),
    "strides are a string": (at(*IMAGE, "Strides", to="1"), "/vectors/0/desc/InputTensor/Strides"),
    "size below 0": (at(*IMAGE, "Sizes", 0, to=-1), "/vectors/0/desc/InputTensor/Sizes/0"),
    "flags are a number": (at(*IMAGE, "Flags", to=0), "/vectors/0/desc/InputTensor/Flags"),
    "absent input": (without(*FIRST, "inputs", "InputTensor"), "/vectors/0/desc/InputTensor"),
    "tensor without a desc": (
        at(*FIRST, "desc", "ZeroPointTensor", to=None),
        "/vectors/0/desc/ZeroPointTensor",
    ),
    "another length": (
        at(*IMAGE, "TotalTensorSizeInBytes", to=256),
        "/vectors/0/inputs/InputTensor",
    ),
    "packed, but flat": (at(*IMAGE, "Strides", to=None), "/vectors/0/inputs/InputTensor"),
    "another type": (at(*IMAGE, "DataType", to="INT32"), "/vectors/0/desc/InputTensor"),
    "other sizes": (
        at(*FIRST, "desc", "OutputTensor", "Sizes", to=[2, 3, 2]),
        "/vectors/0/outputs/OutputTensor",
    ),
    "inputs of a refused desc": (
        at("vectors", 1, "inputs", to={"InputTensor": {"dtype": "int8", "sizes": [0], "data": []}}),
        "/vectors/1/inputs",
    ),
    "also without a field": (
        at("vectors", 1, "expect", "error", "also", to=[{"code": "sizes"}]),
        "/vectors/1/expect/error/also/0",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_desc_is_refused_with_its_place(
    name: str, edited: Callable[[Edit], Path]
) -> None:
    edit, pointer = MALFORMED[name]
    root = edited(edit)
    with pytest.raises(Malformed) as caught:
        vectors.load_all(root)
    assert caught.value.file == str(root / FILE)
    assert caught.value.position.startswith(pointer), caught.value


LOOSE: dict[str, Any] = {
    "DataType": "UNKNOWN",
    "Flags": "OWNED_BY_DML",
    "DimensionCount": 0,
    "Sizes": [0] * 12,
    "Strides": [],
    "TotalTensorSizeInBytes": 2**64,
    "GuaranteedBaseOffsetAlignment": 3,
}


@pytest.mark.parametrize("key", LOOSE)
def test_a_refused_desc_may_hold_any_value(key: str, edited: Callable[[Edit], Path]) -> None:
    root = edited(at("vectors", 1, "desc", "InputTensor", key, to=LOOSE[key]))
    assert len(vectors.load_all(root)) == len(vectors.load(vectors_dir() / FILE))


LINT: dict[str, Edit] = {
    "needs ['descriptors', 'strides']": at(*FIRST, "requires", to=["descriptors"]),
    "input-padded: the oracle says": at(*FIRST, "feature_level", to="2_1"),
    "input-padded-short: the oracle says": at("vectors", 1, "expect", "error", "code", to="sizes"),
    "clause does not name tensor-byte-size": at("vectors", 1, "clause", to=["tensor-buffer"]),
}


@pytest.mark.parametrize("message", LINT)
def test_lint_asks_the_oracle(message: str, edited: Callable[[Edit], Path]) -> None:
    assert any(message in line for line in lint.problems(edited(LINT[message])))


# -- the command -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("nonzero-page-2x4-width-3", "3_0"),
        ("quantize-ties-int32", "3_0"),
        ("qconv-parameters-rank-1", "5_2"),
        ("quantize-desc-no-zero-point-6-2", "6_2"),
    ],
)
def test_show_as_a_desc(name: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", name, "--desc"]) == 0
    shown = vectors.parse(capsys.readouterr().out)
    assert shown["feature_levels"][0] == first
    assert "InputTensor" in shown["desc"]


def test_every_data_type_of_every_line_has_a_valid_vector_at_its_level(suite: list[Vector]) -> None:
    seen = {
        (vector.operator, vector.feature_level, name, tensor["DataType"])
        for vector in suite
        if vector.desc is not None and vector.is_valid
        for name, tensor in vector.desc.items()
        if isinstance(tensor, dict)
    }
    wanted = {
        (operator, level, row.tensor, data_type)
        for operator, tables in TABLES.items()
        for level in tables
        for row in rows(operator, level)
        for data_type in row.data_types
    }
    assert len(wanted) > 150
    assert wanted <= seen
