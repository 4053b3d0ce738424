"""The command: controls score zero, totals add up, exit codes tell what happened."""

import json
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import adapters, cli
from dmlax_conformance.adapters.base import Case
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import SpecViolation
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.suite import runner
from dmlax_conformance.suite.runner import VERDICTS, Totals

QUICK = ["--operator", "element_wise_quantize_linear", "--flag", "Tie"]


def totals(name: str, suite: list[Vector]) -> Totals:
    return Totals.of(runner.run(adapters.start(name), suite, ["eager"]))


def test_the_oracle_is_exact(sample: list[Vector]) -> None:
    counted = totals("oracle", sample)
    assert counted.counts == {"exact": len(sample)}


def test_the_empty_control_has_no_applicable_case(sample: list[Vector]) -> None:
    counted = totals("empty", sample)
    assert (counted.total, counted.applicable) == (len(sample), 0)
    assert cli.main(["run", "--implementation", "empty", *QUICK]) == 3


def test_the_nothing_control_fails_everywhere(sample: list[Vector]) -> None:
    counted = totals("nothing", sample)
    assert counted.counts == {"fail": len(sample)}
    assert cli.main(["run", "--implementation", "nothing", *QUICK]) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([*QUICK], 0),
        ([*QUICK, "--min-cases", "1000"], 3),
        (["--id", "no-such-vector"], 3),
        (["--flag", "NoSuchFlag"], 3),
        ([*QUICK, "--variant", "jit"], 2),
        ([*QUICK, "--flag", "Tie", "--strict"], 0),
    ],
)
def test_exit_codes(arguments: list[str], code: int) -> None:
    assert cli.main(["run", "--implementation", "oracle", *arguments]) == code


@pytest.mark.parametrize("name", ["nobody", "no.such.module:Class", "dmlax_conformance:Missing"])
def test_an_adapter_that_does_not_start(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--implementation", name, *QUICK]) == 2
    assert name in capsys.readouterr().err


def test_wrong_usage() -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["run"])
    assert caught.value.code == 2


def test_an_empty_folder_is_not_a_pass(tmp_path: Path) -> None:
    assert cli.main(["run", "--implementation", "oracle", "--vectors", str(tmp_path)]) == 3


def test_the_report_adds_up(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    cli.main(["run", "--implementation", "nothing", "--report", str(path), *QUICK])
    header, *results, footer = map(json.loads, path.read_text().splitlines())
    assert header["implementation"] == "nothing"
    assert footer["total"] == len(results)
    assert footer["applicable"] + footer["unsupported"] == footer["total"]
    assert sum(footer[verdict] for verdict in VERDICTS) == footer["total"]


def test_a_failure_shows_how_to_repeat_it(capsys: pytest.CaptureFixture[str]) -> None:
    name = "quantize-ties-int32"
    assert cli.main(["run", "--implementation", "nothing", "--id", name]) == 1
    shown = capsys.readouterr().out
    assert f"dmlax-conformance run --implementation nothing --variant eager --id {name}" in shown
    assert "given InputTensor int32[19] -9 -8" in shown


def test_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--flag", "Overflow"]) == 0
    names = [line.split()[2] for line in capsys.readouterr().out.splitlines()]
    assert "qconv-bias-wraps" in names
    assert cli.main(["show", names[0]]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == names[0]
    assert cli.main(["show", "no-such-vector"]) == 2


class Raises(Oracle):
    """Answers every case by raising what it was given."""

    def __init__(self, error: Exception) -> None:
        """Keep the exception."""
        self._error = error

    def run(self, case: Case, variant: str) -> dict[str, Any]:
        """Raise."""
        raise self._error


def judged(suite: list[Vector], error: Exception, is_valid: bool) -> set[str]:
    chosen = [vector for vector in suite if vector.is_valid == is_valid]
    return {result.verdict for result in runner.run(Raises(error), chosen, ["eager"])}


def test_a_crash_is_never_a_refusal(sample: list[Vector]) -> None:
    for is_valid in (True, False):
        assert judged(sample, ValueError("no"), is_valid) == {"error"}


def test_refusing_everything_alike_fails(sample: list[Vector]) -> None:
    error = SpecViolation("data_type", "InputTensor")
    assert judged(sample, error, True) == {"fail"}
    assert judged(sample, error, False) == {"fail", "exact"}
    assert judged(sample, SpecViolation("data_type", "Elsewhere"), False) == {"fail"}
    assert judged(sample, SpecViolation("flags", "InputTensor"), False) == {"fail"}


def test_the_adapter_does_not_see_the_expectation() -> None:
    assert set(Case.__dataclass_fields__) == {
        *("id", "operator", "requires", "attributes", "inputs", "outputs"),
        *("desc", "feature_level"),
    }
