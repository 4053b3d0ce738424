"""A vector that zeros answer rightly counts only with one that they do not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import adapters, cli
from dmlax_conformance.adapters.base import Case, Unsupported
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import Malformed
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.reports import lines
from dmlax_conformance.suite import runner
from dmlax_conformance.suite.controls import Zeros

SIZES = vectors_dir() / "nonzero_coordinates" / "sizes.json"
NONE, LAST = "nonzero-only-none-of-257", "nonzero-only-last-of-257"


@pytest.fixture
def none(suite: list[Vector]) -> Vector:
    """Return a vector in which no element is non-zero."""
    return next(vector for vector in suite if vector.id == NONE)


class But(Oracle):
    """The oracle, but for one vector."""

    def __init__(self, name: str, answer: Any) -> None:
        """Remember the other answer."""
        self._name = name
        self._answer = answer

    def run(self, case: Case, variant: str) -> dict[str, Any]:
        """Answer, or raise the answer."""
        if case.id != self._name:
            return super().run(case, variant)
        if isinstance(self._answer, Exception):
            raise self._answer
        return Zeros().run(case, variant) if self._answer == "zeros" else self._answer


def test_these_vectors_count_beside_others(suite: list[Vector], sample: list[Vector]) -> None:
    beside = {
        vector.id: vector.paired_with.id for vector in suite if vector.paired_with is not None
    }
    assert beside[NONE] == LAST
    for vector in [*(v for v in suite if v.paired_with), *sample]:
        alone = runner.judge_alone(Zeros(), vector, "eager").verdict
        assert (alone == "exact") == (vector.id in beside), vector.id
        assert runner.judge(Zeros(), vector, "eager").verdict == "fail"


ANSWERS: dict[str, tuple[str, Any, str, str]] = {
    "both right": ("nobody", None, "exact", ""),
    "the other wrong": (LAST, "zeros", "fail", f"right, but counts only beside {LAST}: fail"),
    "the other crashes": (LAST, ValueError("no"), "fail", f"beside {LAST}: error"),
    "the other declined": (LAST, Unsupported("no"), "unsupported", f"beside {LAST}: unsupported"),
    "itself wrong": (NONE, {}, "fail", "OutputCountTensor: missing"),
    "itself declined": (NONE, Unsupported("not that"), "unsupported", "not that"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_verdict_says_which_of_the_two_it_is(name: str, none: Vector) -> None:
    wrong, answer, verdict, reason = ANSWERS[name]
    (result,) = runner.run(But(wrong, answer), [none], ["eager"])
    assert result.verdict == verdict
    assert reason in " ".join(result.outcome.details[:1])


def test_a_report_names_the_other(none: Vector) -> None:
    result = runner.Result(none, "eager", runner.judge(Zeros(), none, "eager"), 0.0)
    (line,) = lines.of_run([result], "zeros").results
    assert (line["beside"], line["verdict"]) == (LAST, "fail")
    assert LAST in line["details"][0]
    assert line["differs"] == {}
    alone = replace(none, paired_with=None)
    (line,) = lines.of_run([replace(result, vector=alone)], "zeros").results
    assert "beside" not in line


def test_a_file_names_only_vectors_of_its_own(tmp_path: Path) -> None:
    value = vectors.parse((vectors_dir() / "nonzero_coordinates" / "sizes.json").read_text())
    (place,) = (i for i, vector in enumerate(value["vectors"]) if vector["id"] == NONE)
    value["vectors"][place]["beside"] = "nonzero-large-70001"
    path = tmp_path / "sizes.json"
    path.write_text(json.dumps(value))
    with pytest.raises(Malformed, match="no vector nonzero-large-70001") as caught:
        vectors.load(path)
    assert caught.value.position == f"/vectors/{place}/beside"


def test_a_refusal_stands_alone(tmp_path: Path) -> None:
    value = vectors.parse((vectors_dir() / "nonzero_coordinates" / "invalid.json").read_text())
    place = next(i for i, vector in enumerate(value["vectors"]) if "twin" in vector)
    value["vectors"][place]["beside"] = value["vectors"][place]["twin"]
    path = tmp_path / "invalid.json"
    path.write_text(json.dumps(value))
    with pytest.raises(Malformed):
        vectors.load(path)


def test_an_export_has_both_and_a_check_needs_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases, only = tmp_path / "cases", ["--operator", "nonzero_coordinates", "--id", NONE]
    assert cli.main(["export", "--format", "json", "--output", str(cases), *only]) == 0
    assert {path.stem for path in cases.iterdir()} == {NONE, LAST}
    answers = tmp_path / "answers"
    answers.mkdir()
    check = ["check", "--results", str(answers), *only]
    for name, code, text in ((NONE, 3, "no result"), (LAST, 0, "")):
        _answer(answers, name)
        assert cli.main(check) == code
        assert text in capsys.readouterr().err


def _answer(folder: Path, name: str) -> None:
    """Write the oracle's answer as arrays."""
    import numpy as np

    (vector,) = (v for v in vectors.load(SIZES) if v.id == name)
    answer = adapters.start("oracle").run(runner.case_of(vector), "eager")
    for output, array in answer.items():
        np.save(folder / f"{name}.{output}.npy", array)
