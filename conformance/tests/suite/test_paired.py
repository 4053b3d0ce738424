"""A vector that zeros answer rightly counts only with one that they do not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlax_conformance import cli
from dmlax_conformance.adapters.base import Case, Unsupported
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import Malformed
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.reports import lines
from dmlax_conformance.runner import report
from dmlax_conformance.runner import run as runner
from dmlax_conformance.runner.controls import Zeros

FOLDER = vectors_dir() / "nonzero_coordinates" / "core"
NONE, LAST = "nonzero-only-none-of-257", "nonzero-only-last-of-257"


@pytest.fixture
def none(suite: list[Vector]) -> Vector:
    """Return a vector in which no element is non-zero."""
    return next(vector for vector in suite if vector.id == NONE)


class But(Oracle):
    """The oracle with another answer to one vector."""

    def __init__(self, name: str, answer: Any) -> None:
        """Remember the other answer."""
        self._name, self._answer = name, answer

    def run(self, case: Case, variant: str) -> dict[str, Any]:
        """Answer, or raise the answer."""
        if case.id != self._name:
            return super().run(case, variant)
        if isinstance(self._answer, Exception):
            raise self._answer
        return Zeros().run(case, variant) if self._answer == "zeros" else self._answer


def test_these_vectors_count_beside_others(suite: list[Vector], sample: list[Vector]) -> None:
    paired = [vector for vector in suite if vector.paired_with is not None]
    assert (NONE, LAST) in {(v.id, v.paired_with.id) for v in paired}  # type: ignore[union-attr]
    for vector in [*paired, *sample]:
        alone = runner.judge_alone(Zeros(), vector, "eager").verdict
        assert (alone == "exact") == (vector.paired_with is not None), vector.id
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


def test_a_right_answer_is_no_wrong_value(none: Vector, capsys: pytest.CaptureFixture[str]) -> None:
    (result,) = runner.run(But(LAST, "zeros"), [none], ["eager"])
    assert result.kind == "unproved answer"
    report.show([result], "again", 1)
    failures = "failures: 0 wrong values, 0 errors, 0 wrong refusals, 1 unproved answer"
    assert failures in capsys.readouterr().out.splitlines()
    (itself,) = runner.run(But(NONE, {}), [none], ["eager"])
    assert itself.kind == "wrong value"


def test_a_report_names_the_other(none: Vector) -> None:
    (result,) = runner.run(Zeros(), [none], ["eager"])
    (line,) = lines.of_run([result], "zeros").results
    assert (line["beside"], line["verdict"], line["differs"]) == (LAST, "fail", {})
    assert LAST in line["details"][0]
    alone = replace(result, vector=replace(none, paired_with=None))
    (line,) = lines.of_run([alone], "zeros").results
    assert "beside" not in line


@pytest.mark.parametrize(
    ("name", "key", "beside", "reason"),
    [
        ("sizes", "beside", "nonzero-large-70001", "is no vector of this file"),
        ("invalid", "twin", "nonzero-width-1-of-1x1x1x1", "is not allowed here"),
    ],
)
def test_a_valid_call_of_the_same_file_is_beside_a_valid_call(
    name: str, key: str, beside: str, reason: str, tmp_path: Path
) -> None:
    value = vectors.parse((FOLDER / f"{name}.json").read_text())
    index = next(i for i, vector in enumerate(value["vectors"]) if key in vector)
    value["vectors"][index]["beside"] = beside
    (tmp_path / "copy.json").write_text(json.dumps(value))
    with pytest.raises(Malformed, match=reason) as caught:
        vectors.load(tmp_path / "copy.json")
    assert caught.value.position == f"/vectors/{index}/beside"


def test_an_export_has_both_and_a_check_needs_both(
    tmp_path: Path, none: Vector, capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--operator", "nonzero_coordinates", "--id", NONE]
    assert cli.main(["export", "--format", "json", "--output", str(tmp_path / "x"), *only]) == 0
    assert {path.stem for path in (tmp_path / "x").iterdir()} == {NONE, LAST}
    for vector, code, text in ((none, 3, "no result"), (none.paired_with, 0, "")):
        assert vector is not None
        for output, array in Oracle().run(runner.case_of(vector), "eager").items():
            np.save(tmp_path / f"{vector.id}.{output}.npy", array)
        assert cli.main(["check", "--results", str(tmp_path), *only]) == code
        assert text in capsys.readouterr().err
