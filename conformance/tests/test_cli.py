"""The command: controls score zero, totals add up, exit codes tell what happened."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import adapters, cli, terminal
from dmlax_conformance.adapters.base import Case
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import SpecViolation
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.runner import report
from dmlax_conformance.runner import run as runner
from dmlax_conformance.runner.run import VERDICTS, Totals

QUICK = ("--operator", "element_wise_quantize_linear", "--flag", "Tie")
CONTROLS = {
    "empty": ("unsupported", 3),
    "nothing": ("fail", 1),
    "zeros": ("fail", 1),
    "raising": ("error", 1),
    "oracle": ("exact", 0),
}
Output = pytest.CaptureFixture[str]


def run(implementation: str, *options: str) -> int:
    return cli.main(["run", "--implementation", implementation, *options])


@pytest.mark.parametrize("name", CONTROLS)
def test_controls(name: str, sample: list[Vector], tmp_path: Path) -> None:
    verdict, code = CONTROLS[name]
    results = runner.run(adapters.start(name), sample, ["eager"])
    assert Totals.of(results).counts == {verdict: len(sample)}
    assert run(name, *QUICK, "--report", str(tmp_path / "report")) == code
    header, *lines, footer = map(json.loads, (tmp_path / "report").read_text().splitlines())
    assert header["implementation"] == name
    assert footer["total"] == footer[verdict] == len(lines)
    assert footer["applicable"] + footer["unsupported"] == footer["total"]
    assert sum(footer[verdict] for verdict in VERDICTS) == footer["total"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("oracle --flag Tie --strict", 0, ""),
        ("oracle --flag Tie --min-cases 1000", 3, "needed 1000"),
        ("oracle --vectors /no/such/folder", 3, "0 applicable cases, needed 1"),
        (
            "oracle --id quantize-ties-int3",
            2,
            "--id quantize-ties-int3: no vector has it; the nearest",
        ),
        ("oracle --flag Tei", 2, "--flag Tei: no vector has it; the nearest is Tie"),
        ("oracle --without-flag Paddin", 2, "the nearest is Padding"),
        ("oracle --operator max_poolin", 2, "the nearest is max_pooling"),
        ("oracle --flag Groups", 3, "0 applicable cases, needed 1"),
        ("oracle --variant jit", 2, "oracle has no variant jit"),
        ("nobody", 2, "nobody"),
        ("no.such.module:Class", 2, "no.such.module"),
        ("dmlax_conformance:Missing", 2, "dmlax_conformance:Missing"),
    ],
)
def test_exit_codes(arguments: str, code: int, text: str, capsys: Output) -> None:
    assert run(*arguments.split(), *QUICK[:2]) == code
    assert text in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["run", *arguments.split()[1:]])


def test_a_failure_shows_how_to_repeat_it(capsys: Output) -> None:
    assert run("nothing", "--id", "quantize-ties-int32") == 1
    shown = capsys.readouterr().out
    again = (
        "dmlax-conformance run --implementation nothing --variant eager --id quantize-ties-int32"
    )
    assert again in shown
    assert "given InputTensor int32[19] -9 -8" in shown


def test_refusals_and_flags_can_be_left_out(capsys: Output) -> None:
    operator, what = QUICK[:2], "; left out: "
    assert run("oracle", *operator, "--flag", "Invalid", "--valid-only") == 3
    assert run("oracle", *QUICK, "--without-flag", "Invalid", "--valid-only") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(f"{what}vectors with the flag Invalid, calls and descs that break a rule")
    assert cli.main(["list", *operator]) == cli.main(["list", *operator, "--valid-only"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len({*lines}) < len(lines) < 2 * len({*lines})
    assert sum(line.startswith("invalid") for line in lines) > 50


def test_operators_that_are_not_declared_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    (tmp_path / "own.py").write_text(
        "from dmlax_conformance.adapters.oracle import Oracle\n"
        "class Own(Oracle):\n    operators = ('quantized_lookup',)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "report.jsonl"
    assert run("own:Own", "--valid-only", "--report", str(path)) == 0
    assert " vectors of operators that are not declared" in capsys.readouterr().out
    results = [json.loads(line) for line in path.read_text().splitlines()[1:-1]]
    assert {result["operator"] for result in results} == {"quantized_lookup"}


def test_wrong_values_come_first(sample: list[Vector], capsys: Output) -> None:
    class Wrong(Oracle):
        def run(self, case: Case, variant: str) -> dict[str, Any]:
            if case.operator == "quantized_lookup":
                raise ValueError("no")
            return {}

    results = list(runner.run(Wrong(), sample, ["eager"]))
    report.show(results, "again", len(results))
    out = capsys.readouterr().out
    shown = [line.split()[:2] for line in out.splitlines() if line[:5] in ("FAIL ", "ERROR")]
    valid = {vector.id: vector.is_valid for vector in sample}
    ranks = [runner.rank_of(verdict.lower(), valid[name]) for verdict, name in shown]
    assert ranks == sorted(ranks)
    assert {*ranks} == {0, 1, 2}
    (head,) = (n for n, line in enumerate(out.splitlines()) if line.startswith("failures by flag"))
    flag, failed, crashed = out.splitlines()[head + 1].split()
    own = Counter(result.verdict for result in results if flag in result.vector.flags)
    assert (int(failed), int(crashed)) == (own["fail"], own["error"])


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    clock = iter(range(0, 100, 4))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(clock))
    assert [*terminal.progress("abcdefg", "vectors", 7)] == [*"abcdefg"]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "3 of 7 vectors"
    assert len(said) == 2


def test_list_and_show(capsys: Output) -> None:
    assert cli.main(["list", "--flag", "Overflow"]) == 0
    names = [line.split()[2] for line in capsys.readouterr().out.splitlines()]
    assert "qconv-bias-wraps" in names
    assert cli.main(["show", names[0]]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == names[0]
    assert cli.main(["show", "no-such-vector"]) == 2


# The verdicts of every call: valid, invalid.
REPLIES: list[tuple[Exception, set[str], set[str]]] = [
    (ValueError("no"), {"error"}, {"error"}),
    (SpecViolation("data_type", "InputTensor"), {"fail"}, {"fail", "exact"}),
    (SpecViolation("data_type", "Elsewhere"), {"fail"}, {"fail"}),
    (SpecViolation("flags", "InputTensor"), {"fail"}, {"fail"}),
]


@pytest.mark.parametrize(("error", "valid", "invalid"), REPLIES)
def test_a_crash_is_no_refusal_and_one_refusal_does_not_fit_all(
    error: Exception, valid: set[str], invalid: set[str], sample: list[Vector]
) -> None:
    class Raises(Oracle):
        def run(self, case: Case, variant: str) -> dict[str, Any]:
            raise error

    found: dict[bool, set[str]] = {True: set(), False: set()}
    for result in runner.run(Raises(), sample, ["eager"]):
        found[result.vector.is_valid].add(result.verdict)
    assert found == {True: valid, False: invalid}


def test_the_adapter_does_not_see_the_expectation() -> None:
    fields = {"id", "operator", "requires", "attributes", "inputs", "outputs", "desc"}
    assert set(Case.__dataclass_fields__) == {*fields, "feature_level"}
