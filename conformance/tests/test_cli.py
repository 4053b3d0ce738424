"""The command: controls score zero, totals add up, exit codes tell what happened."""

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dmlax_conformance import adapters, cli, terminal
from dmlax_conformance.adapters.base import Case
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import SpecViolation, Unsupported
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle.clauses import NOTES
from dmlax_conformance.runner import report
from dmlax_conformance.runner import run as runner
from dmlax_conformance.runner.run import FAILED, KINDS, VERDICTS

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
    assert Counter(result.verdict for result in results) == {verdict: len(sample)}
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
        ("oracle --id quantize-ties-int3", 2, "quantize-ties-int3: no vector has it; the nearest"),
        ("oracle --flag Tei", 2, "--flag Tei: no vector has it; the nearest is Tie"),
        ("oracle --without-flag Paddin", 2, "the nearest is Padding"),
        ("oracle --operator max_poolin", 2, "the nearest is max_pooling"),
        ("oracle --flag Groups", 3, "0 applicable cases, needed 1"),
        ("oracle --variant jit", 2, "oracle has no variant jit"),
        ("nobody", 2, "nobody"),
        ("oracle --operator tie", 2, "--operator tie: no vector has it; the nearest is"),
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
    assert " run --implementation nothing --variant eager --id quantize-ties-int32" in shown
    assert "given InputTensor int32[19] -9 -8" in shown
    assert "given ScaleTensor float32[1] 2.0\n" in shown


def test_refusals_and_flags_can_be_left_out(every: list[Vector], capsys: Output) -> None:
    operator = ("--operator", "quantized_lookup")
    assert run("oracle", *operator, "--flag", "Invalid", "--valid-only") == 3
    refused = sum(v.operator == operator[1] and not v.is_valid for v in every)
    capsys.readouterr()
    for option, why in (
        ("--valid-only", "that have to be refused"),
        ("--without-flag=Invalid", "with the flag Invalid"),
    ):
        assert run("oracle", *operator, option) == 0
        *_, last = capsys.readouterr().out.splitlines()
        assert last.endswith(f"; left out: {refused} {why}")
    assert cli.main(["list", *operator]) == cli.main(["list", *operator, "--valid-only"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len({*lines}) < len(lines) < 2 * len({*lines})
    assert sum(line.startswith("invalid") for line in lines) == refused


ADAPTERS = """
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import Unsupported

class Declared(Oracle):
    operators = ("quantized_lookup",)

class Silent(Oracle):
    operators = None
    def run(self, case, variant):
        if case.operator != "quantized_lookup":
            raise Unsupported("no")
        return super().run(case, variant)

class Misspelt(Oracle):
    operators = ("quantized_lokup",)
"""


@pytest.mark.parametrize(
    ("name", "why"), [("Declared", "are not declared"), ("Silent", "it never answers")]
)
def test_operators_that_an_adapter_lacks_are_left_out(
    name: str,
    why: str,
    every: list[Vector],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    (tmp_path / "own.py").write_text(ADAPTERS)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "report.jsonl"
    assert run(f"own:{name}", "--report", str(path)) == 0
    own = sum(vector.operator == "quantized_lookup" for vector in every)
    head, row, sums, last = capsys.readouterr().out.splitlines()
    heads = [line.split()[0] for line in (head, row, sums)]
    assert heads == ["operator", "quantized_lookup", "all"]
    assert row.split()[1:] == sums.split()[1:] == 3 * [str(own)]
    assert f"; answered {own} of {own} applicable vectors (100 %); " in last
    assert last.endswith(f"; left out: {len(every) - own} of operators that {why}")
    results = [json.loads(line) for line in path.read_text().splitlines()[1:-1]]
    assert [result["operator"] for result in results] == own * ["quantized_lookup"]
    assert path.stat().st_size < 1_500_000


def test_a_misspelt_operator_of_an_adapter_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    (tmp_path / "own.py").write_text(ADAPTERS)
    monkeypatch.syspath_prepend(tmp_path)
    text = "declares quantized_lokup, which no vector is about; the nearest is quantized_lookup"
    for command, code in (("run", 3), ("smoke", 1)):
        assert cli.main([command, "--implementation", "own:Misspelt"]) == code
        assert text in "".join(capsys.readouterr())


def test_wrong_values_come_first_and_the_counts_agree(sample: list[Vector], capsys: Output) -> None:
    class Wrong(Oracle):
        def run(self, case: Case, variant: str) -> dict[str, Any]:
            if case.operator == "quantized_lookup":
                raise ValueError("no")
            if case.operator == "max_pooling":
                raise SpecViolation("flags", "Nowhere")
            return {}

    results = list(runner.run(Wrong(), sample, ["eager"]))
    report.show(results, "again", len(results), Wrong())
    out = capsys.readouterr().out.splitlines()
    valid = {vector.id: vector.is_valid for vector in sample}
    kinds = {result.vector.id: result.kind for result in results if result.verdict in FAILED}
    shown = [line.split()[1] for line in out if line.startswith(("FAIL ", "ERROR "))]
    assert sorted(shown) == sorted(kinds)
    places = [(KINDS.index(kinds[name]), not valid[name]) for name in shown]
    assert places == sorted(places)
    assert {*places} == {(0, False), (1, False), (1, True), (2, False), (2, True)}
    (start,) = (n for n, line in enumerate(out) if line.startswith("flag "))
    columns = ["total", "answered", "exact", "wrong", "value", "error", "wrong", "refusal"]
    assert out[start].split()[1:] == columns
    flag, total, *counts = out[start + 1].split()
    own = Counter(result.kind for result in results if flag in result.vector.flags)
    assert [*map(int, counts[-3:])] == [own[kind] for kind in KINDS[:3]]
    assert int(total) == own.total()
    assert f"{flag}: {NOTES[flag]}" in out
    *_, sums, failures, last = out
    number = Counter(kinds.values())
    words = (f"{number[kind]} {kind}{'s' * (number[kind] != 1)}" for kind in KINDS[:3])
    broken = sum(not valid[name] for name in kinds)
    assert failures.startswith(f"failures: {', '.join(words)}; {broken} on calls that ")
    assert [*map(int, sums.split()[-3:])] == [number[kind] for kind in KINDS[:3]]
    assert f"answered {sums.split()[2]} of {sums.split()[1]} applicable vectors" in last


def test_what_is_answered_applies_and_the_rest_is_declined_or_not(
    sample: list[Vector], capsys: Output
) -> None:
    """The table's columns add up, and the last line repeats its numbers."""

    class Some(Oracle):
        capabilities = frozenset[str]()
        dtypes = ("uint8", "int8")

        def run(self, case: Case, variant: str) -> dict[str, Any]:
            if case.operator == "quantized_lookup":
                raise Unsupported("not yet")
            return super().run(case, variant)

    report.show([*runner.run(Some(), sample, ["eager"])], "again", 0, Some(), {"more": 3, "no": 0})
    head, *_, sums, last = capsys.readouterr().out.splitlines()
    assert head.split()[1:] == ["total", "answered", "exact", "declined", "not", "applicable"]
    total, answered, exact, declined, others = map(int, sums.split()[1:])
    assert total == answered + declined + others == len(sample)
    assert answered == exact
    assert min(declined, others) > 0
    share = int(10_000 * answered / (answered + declined)) / 100
    counts = f"answered {answered} of {answered + declined} applicable vectors ({share:g} %)"
    assert f"; {counts}; not applicable: needs descriptors, " in last
    assert last.endswith("; left out: 3 more")


@pytest.mark.parametrize(("is_terminal", "form"), [(True, "\r{}\x1b[K"), (False, "{}\n")])
def test_progress_is_told_while_an_item_takes_long(
    is_terminal: bool, form: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    told = threading.Event()

    def items() -> Iterator[str]:
        yield "a"
        assert told.wait(60)
        yield "b"

    def write(text: str) -> int:
        said.extend(filter(None, [text]))
        if "1 of 2" in text:
            told.set()
        return len(text)

    said: list[str] = []
    monkeypatch.setattr(terminal, "OFTEN" if is_terminal else "EVERY", 0.001)
    monkeypatch.setattr(terminal, "EVERY" if is_terminal else "OFTEN", 1000)
    monkeypatch.setattr(
        sys, "stderr", SimpleNamespace(isatty=lambda: is_terminal, write=write, flush=lambda: None)
    )
    assert [*terminal.progress(items(), "vectors", 2)] == ["a", "b"]
    assert form.format("1 of 2 vectors") in said
    assert (said[-1] == "\r\x1b[K") == is_terminal


def test_a_wrong_number_is_wrong_usage(capsys: Output) -> None:
    for option, value, text in (
        ("max-shown", "-1", "'-1' is not a whole number of at least 0"),
        ("jobs", "0", "'0' is not a whole number of at least 1"),
        ("min-share", "101", "'101' is not a number from 0 to 100"),
        ("min-share", "nan", "'nan' is not a number from 0 to 100"),
        ("time-limit", "0", "'0' is not a number of at least 0.001"),
        ("time-limit", "inf", "'inf' is not a number of at least 0.001"),
        ("min-cases", "many", "'many' is not a whole number of at least 0"),
    ):
        with pytest.raises(SystemExit, match="2"):
            run("oracle", f"--{option}", value)
        assert capsys.readouterr().err.endswith(f"argument --{option}: {text}\n")


def test_list_and_show(capsys: Output) -> None:
    assert cli.main(["list", "--flag", "Overflow"]) == 0
    names = [line.split()[2] for line in capsys.readouterr().out.splitlines()]
    assert "qconv-bias-wraps" in names
    assert cli.main(["show", names[0]]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == names[0]
    assert cli.main(["show", "nonzero-page-ordr"]) == 2
    assert "nonzero-page-ordr; the nearest is nonzero-page-order" in capsys.readouterr().err


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
