"""A run passes only if something was computed, whatever an adapter does."""

import json
import shlex
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import cli
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.suite import runner

HERE = Path(__file__).parent
HELLO = {"protocol": 1, "name": "p", "language": "sh", "version": "1"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a suite of few calls and descs of one operator, many of them refused."""
    root = tmp_path_factory.mktemp("suite")
    folder = root / "nonzero_coordinates"
    folder.mkdir()
    for name in ("integers", "invalid", "desc-rules"):
        shutil.copy(vectors_dir() / folder.name / f"{name}.json", folder)
    return root


@pytest.fixture
def run(small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that runs an adapter of `ways.py` and returns the exit code."""
    monkeypatch.syspath_prepend(HERE)
    report = str(tmp_path / "report.jsonl")

    def code(implementation: str, *more: str) -> int:
        own = ["--implementation", implementation, "--vectors", str(small), "--report", report]
        return cli.main(["run", *own, "--variant", "all", "--max-shown", "1", *more])

    return code


RAISED = (
    *("Raises", "RaisesSystemExitWithoutACode", "RaisesKeyboardInterrupt", "RaisesGeneratorExit"),
    *("RaisesCancelled", "RaisesStopIteration", "RaisesItsOwn", "DeclinesWithAnExit"),
    *("RefusesWithArrays", "RefusesEverything", "ExitsAtItsCapabilities"),
)
STARTED = (
    *("ExitsWhenMade", "ExitsAtItsName", "ExitsAtItsVariants", "HasVariantsOfNoKind", "HasNoRun"),
    "makes_nothing",
)
STATED = (
    *("Declines", "ExitsWhenClosed", "ExitsAtItsDevice", "HasNoVariants", "ExitsAtItsConcurrency"),
    *("ExitsAtItsUsualVariants", "ExitsAtItsDescVariants", "OnlyRefuses", "AnswersOne"),
    "ExitsAfterOne",
)
ANSWERED = (
    *("Answers", "AnswersNothing", "AnswersTrue", "AnswersAList", "AnswersAGenerator"),
    *("AnswersAnExit", "AnswersExitingArrays", "AnswersRequests", "AnswersTheInputs"),
    *("AnswersOnes", "AsksForNothing"),
)


@pytest.mark.parametrize("way", [*RAISED, *STARTED, *STATED, *ANSWERED])
def test_an_adapter_that_computes_nothing_does_not_pass(way: str, run: Any) -> None:
    assert run(f"ways:{way}") in (1, 2, 3)


@pytest.mark.parametrize("way", ["Raises", "RaisesKeyboardInterrupt", "RaisesItsOwn"])
def test_what_is_raised_is_the_error_of_one_call(way: str, run: Any, tmp_path: Path) -> None:
    assert run(f"ways:{way}") == 1
    _, *results, footer = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
    assert footer["error"] == footer["total"] == len(results) > 20


def test_a_module_that_exits_does_not_start(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "exits_at_import.py").write_text("import sys\n\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert run("exits_at_import:Adapter") == 2


ENDS = ("Ends", "EndsWhenClosed", "EndsAtExit", "EndsInC", "BecomesAnother", "KillsItself")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing watches the process")
@pytest.mark.parametrize("way", ENDS)
def test_the_end_of_the_process_is_no_verdict(way: str, small: Path) -> None:
    own = ["--implementation", f"ways:{way}", "--vectors", str(small)]
    done = subprocess.run(
        [sys.executable, "-m", "dmlax_conformance", "run", *own],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (1, 3)
    assert "dmlax-conformance: " in done.stderr
    assert "Traceback" not in done.stderr


def says(*answers: str) -> str:
    """Return a program that reads a line and says a line, as often as there are answers."""
    text = "".join(f"read line; echo {shlex.quote(answer)};" for answer in answers)
    return shlex.join(["sh", "-c", text])


GREETS = json.dumps({**HELLO, "operators": ["nonzero_coordinates"]})
CLAIMS_ANOTHER = json.dumps({**HELLO, "operators": ["other"]})
LOOP = """while read l; do n=$((n+1)); printf '{"seq":%d,"unsupported":""}\\n' $n; done"""
PROGRAMS = {
    "ends at once": "true",
    "says nothing and ends": says(""),
    "repeats the question": "cat",
    "greets and ends": says(GREETS),
    "greets, answers once and ends": says(GREETS, '{"seq": 1, "unsupported": "x"}'),
    "claims another operator": says(CLAIMS_ANOTHER),
    "declines everything": shlex.join(["sh", "-c", f"read l; echo {shlex.quote(GREETS)}; {LOOP}"]),
    "is no program": "/no/such/program",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_computes_nothing_does_not_pass(name: str, run: Any) -> None:
    assert run(f"process:{PROGRAMS[name]}") in (1, 2, 3)


CHOICES = (
    ["--id", "nobody"],
    ["--flag", "Nothing"],
    ["--operator", "nobody"],
    ["--variant", "nobody"],
    ["--min-cases", "1000"],
    ["--vectors", "/no/such/folder"],
)


@pytest.mark.parametrize("choice", CHOICES, ids=" ".join)
def test_a_choice_of_nothing_does_not_pass(choice: list[str], run: Any) -> None:
    assert run("oracle", *choice) in (2, 3)


@pytest.mark.parametrize("way", ["Scribbles", "ReusesItsArrays", "WritesALot"])
def test_a_right_answer_given_rudely_passes(way: str, run: Any) -> None:
    assert run(f"ways:{way}") == 0


@pytest.mark.parametrize("way", ["RaisesLongTexts", "AnswersHugeArrays", "AnswersManyNames"])
def test_what_is_long_is_cut(way: str, run: Any, tmp_path: Path) -> None:
    tracemalloc.start()
    assert run(f"ways:{way}", "--variant", "eager", "--flag", "Extreme") == 1
    assert tracemalloc.get_traced_memory()[1] < 400_000_000
    tracemalloc.stop()
    assert (tmp_path / "report.jsonl").stat().st_size < 2_000_000


def test_control_characters_are_escaped(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ways:RaisesControls") == 1
    out, err = capsys.readouterr()
    assert r"\x1b[2J \ud800" in out
    assert (out + err).replace("\n", "").isprintable()


def test_an_interrupt_keeps_what_ran(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    judge = runner._result

    def interrupted(adapter: Any, vector: Any, variant: str) -> Any:
        if vector.id == "nonzero-uint8-extremes":
            raise KeyboardInterrupt
        return judge(adapter, vector, variant)

    monkeypatch.setattr(runner, "_result", interrupted)
    assert run("oracle") == 1
    _, *results, _ = (tmp_path / "report.jsonl").read_text().splitlines()
    assert results


def test_a_closed_pipe_is_no_error() -> None:
    listing = "-m dmlax_conformance list --operator nonzero_coordinates"
    line = f"{shlex.quote(sys.executable)} {listing} | true"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_values_are_counted_and_named(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("oracle", "--variant", "eager") == 0
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "computed" in each]
    values = int(line.split("(")[1].split()[0])
    assert line == f"computed: nonzero_coordinates ({values} values)"
    assert run("oracle", "--min-cases", str(values)) == 0
    assert run("oracle", "--min-cases", str(values + 1)) == 3
    assert f"{values} values, needed {values + 1}" in capsys.readouterr().err


def test_refusals_alone_pass_if_nothing_else_is_chosen(run: Any) -> None:
    assert run("oracle", "--flag", "Invalid") == 0
    assert run("oracle", "--flag", "Invalid", "--min-cases", "1") == 3


def test_an_operator_that_is_declined_but_for_one_call_is_named(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ways:AnswersOne", "--variant", "eager") == 3
    assert "nonzero_coordinates: 1 values of" in capsys.readouterr().err
