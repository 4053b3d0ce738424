"""Adapters in other processes: whatever they do, every vector gets a verdict and the run ends."""

import fcntl
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from dmlax_conformance import adapters, cli
from dmlax_conformance.adapters import child
from dmlax_conformance.adapters.process import MOST_RESTARTS, Process
from dmlax_conformance.errors import NotStartable
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.suite import runner
from dmlax_conformance.suite.runner import Result, Totals

HERE = Path(__file__).parent
LINES = HERE.parents[1] / "examples" / "nonzero_lines.py"
SOON = 2.0  # seconds: longer than any right answer, short enough to wait for
PATIENT = 30.0
WAIT = {
    "hang",
    "leave-a-child",
    "leave-a-session",
    "half-a-line-and-hang",
    "never-reads",
    "silent-start",
}

Misbehaving = Callable[..., Process]


def command(*words: str | Path) -> str:
    return shlex.join([sys.executable, *map(str, words)])


@pytest.fixture(scope="module")
def chosen() -> list[Vector]:
    path = vectors_dir() / "nonzero_coordinates" / "integers.json"
    return [vector for vector in vectors.load(path) if vector.is_valid][:6]


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """Return the options that choose a suite of one file, which is quickly read."""
    folder = tmp_path / "suite" / "nonzero_coordinates"
    folder.mkdir(parents=True)
    name = "integers.json"
    shutil.copy(vectors_dir() / folder.name / name, folder / name)
    return ["--vectors", str(folder.parent)]


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    return tmp_path / "starts"


@pytest.fixture
def misbehaving(starts: Path) -> Iterator[Misbehaving]:
    """Return a function that starts a program which goes wrong in one way, at one case."""
    started: list[Process] = []

    def start(way: str, victim: str, longest: int = 1_000_000) -> Process:
        limit = SOON if way in WAIT else PATIENT
        line = command(HERE / "misbehave.py", way, victim, starts)
        started.append(Process(line, limit, longest))
        return started[-1]

    yield start
    for adapter in started:
        adapter.close()


def verdicts(results: list[Result]) -> list[str]:
    totals = Totals.of(results)
    assert totals.total == len(results) == sum(totals.counts.values())
    assert totals.applicable + totals.counts["unsupported"] == totals.total
    return [result.verdict for result in results]


WAYS = {  # the verdict on the victim, a part of the explanation, and how often the program starts
    "hang": ("error", "no answer within 2 seconds", 2),
    "crash": ("error", "was ended by SIGKILL without an answer", 2),
    "exit": ("error", "exited with status 3 without an answer", 2),
    "leave-a-child": ("error", "no answer within", 2),
    "surrogate": ("unsupported", r"no \ud800 kernel", 1),
    "surrogate-error": ("error", r"the adapter reports: \udfff\x1b[2J\x07", 1),
    "surrogate-name": ("error", r"/outputs", 2),
    "long-error": ("error", "(20999421 more characters)", 1),
    "long-refusal": ("fail", "more characters)", 1),
    "long-answer": ("error", "more values than were asked for", 2),
    "close-stdout": ("error", "closed its standard output without an answer", 2),
    "flood-stdout": ("error", "answered seq 999999 when asked seq 3", 2),
    "garbage": ("error", "breaks protocol 1 at 1:1: Expecting value; it begins Segmentation", 2),
    "empty-line": ("error", "breaks protocol 1 at", 2),
    "not-utf-8": ("error", "is not UTF-8", 2),
    "nan": ("error", "token NaN", 2),
    "deep": ("error", "deep", 2),
    "many-digits": ("error", "digits", 2),
    "too-long": ("error", "a line of more than 1000000 bytes", 2),
    "half-a-line": ("error", "exited with status 0 in the middle of a line", 2),
    "half-a-line-and-hang": ("error", "no answer within", 2),
    "wrong-seq": ("error", "answered seq 4 when asked seq 3", 2),
    "no-seq": ("error", "'seq' is a required property", 2),
    "two-answers": ("error", "is valid under each of", 2),
    "list": ("error", "is not of type 'object'", 2),
    "reports-an-error": ("error", "the adapter reports: out of memory", 1),
    "unknown-code": ("error", "/refused/code: 'bad' is not one of", 2),
    "refused": ("fail", "refused a call that keeps every rule: InputTensor: sizes: why", 1),
    "unsupported": ("unsupported", "no such kernel", 1),
    "extra-output": ("fail", "OutputTensor: not asked for", 1),
    "missing-output": ("fail", "OutputCoordinatesTensor: missing", 1),
    "wrong-dtype": ("fail", "OutputCountTensor: dtype int32, not uint32", 1),
    "wrong-sizes": ("fail", "OutputCountTensor: sizes (1, 1, 1, 1, 1), not", 1),
    "too-few-elements": ("error", "0 elements where sizes ask for 1", 1),
    "out-of-range": ("error", "-1 is outside uint32", 1),
    "decimal": ("error", "/outputs/OutputCountTensor/data/0", 2),
    "text": ("error", "/outputs/OutputCountTensor/data/0", 2),
    "bits": ("error", "/outputs/OutputCountTensor", 2),
    "huge-sizes": ("error", "the sizes are larger than any array", 1),
    "no-elements-but-huge": ("error", "/outputs/OutputCountTensor/sizes", 1),
    "many-dimensions": ("error", "/outputs/OutputCountTensor/sizes", 1),
    "flood-stderr": ("exact", "", 1),
}


@pytest.mark.parametrize("way", WAYS)
def test_one_misbehaviour_costs_one_vector(
    way: str, misbehaving: Misbehaving, chosen: list[Vector], starts: Path
) -> None:
    verdict, explanation, times = WAYS[way]
    longest = 1 << 28 if way.startswith("long-") else 1_000_000
    adapter = misbehaving(way, chosen[2].id, longest)
    results = list(runner.run(adapter, chosen, adapter.variants))
    assert verdicts(results) == ["exact", "exact", verdict, "exact", "exact", "exact"]
    details = "\n".join(results[2].outcome.details)
    assert explanation in details
    assert len(details) < 2000
    assert len(starts.read_text().splitlines()) == times


def test_an_answer_given_twice_spoils_the_next_one(
    misbehaving: Misbehaving, chosen: list[Vector]
) -> None:
    adapter = misbehaving("twice", chosen[2].id)
    results = list(runner.run(adapter, chosen, adapter.variants))
    assert verdicts(results) == ["exact", "exact", "exact", "error", "exact", "exact"]
    assert results[3].outcome.details == ("answered seq 3 when asked seq 4",)


@pytest.mark.parametrize("way", ["exit", "reports-an-error"])
def test_the_end_of_stderr_is_shown(
    way: str, misbehaving: Misbehaving, chosen: list[Vector]
) -> None:
    adapter = misbehaving(way, chosen[0].id)
    (result,) = runner.run(adapter, chosen[:1], adapter.variants)
    assert result.outcome.details[1] in ("stderr: the last words", "stderr: see here")


def test_what_a_thread_reads_late_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    read = child._read

    def late(stream: IO[bytes] | None, limit: int) -> bytes:
        line = read(stream, limit)
        if limit < child.LONGEST_LINE:  # standard error
            time.sleep(0.03)
        return line

    monkeypatch.setattr(child, "_read", late)
    program = "import sys; input(); print('see here', file=sys.stderr, flush=True); print('no')"
    asked = child.Child([sys.executable, "-uc", f"{program}; input()"])
    try:
        assert asked.ask(b"well?\n", PATIENT) == b"no\n"
        assert asked.last_words() == ["stderr: see here"]
    finally:
        asked.kill()


def test_one_that_always_dies_is_not_started_for_ever(
    misbehaving: Misbehaving, chosen: list[Vector], starts: Path
) -> None:
    adapter = misbehaving("exit", "every")
    results = list(runner.run(adapter, chosen * 4, adapter.variants))
    assert set(verdicts(results)) == {"error"}
    assert len(starts.read_text().splitlines()) == MOST_RESTARTS
    given_up = [r for r in results if "not started again" in r.outcome.details[0]]
    assert len(given_up) == len(results) - MOST_RESTARTS


def test_a_success_starts_the_count_again(
    misbehaving: Misbehaving, chosen: list[Vector], starts: Path
) -> None:
    adapter = misbehaving("exit", chosen[0].id)
    results = list(runner.run(adapter, chosen[:2] * (MOST_RESTARTS + 2), adapter.variants))
    assert Counter(verdicts(results)) == {"error": MOST_RESTARTS + 2, "exact": MOST_RESTARTS + 2}
    assert len(starts.read_text().splitlines()) == MOST_RESTARTS + 3


def test_one_that_never_reads_a_long_question(
    misbehaving: Misbehaving, suite: list[Vector]
) -> None:
    large = [vector for vector in suite if vector.id == "nonzero-large-70001"]
    adapter = misbehaving("never-reads", "nobody", longest=1 << 28)
    (result,) = runner.run(adapter, large, adapter.variants)
    assert (result.verdict, result.outcome.details) == ("error", ("no answer within 2 seconds",))


def test_a_question_beyond_the_limit_is_not_asked(
    misbehaving: Misbehaving, suite: list[Vector]
) -> None:
    large = [vector for vector in suite if vector.id == "nonzero-large-70001"]
    adapter = misbehaving("hang", "nobody", longest=10_000)
    (result,) = runner.run(adapter, large, adapter.variants)
    assert result.verdict == "unsupported"
    assert "more than 10000" in result.outcome.details[0]


@pytest.mark.parametrize("way", ["leave-a-child", "leave-a-session"])
def test_what_a_program_started_is_killed_with_it(
    way: str, misbehaving: Misbehaving, chosen: list[Vector], starts: Path
) -> None:
    adapter = misbehaving(way, chosen[0].id)
    (result,) = runner.run(adapter, chosen[:1], adapter.variants)
    assert result.verdict == "error"
    with open(f"{starts}.lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_nothing_is_left_running(misbehaving: Misbehaving, chosen: list[Vector]) -> None:
    adapter = misbehaving("does-not-stop", "nobody")
    assert set(verdicts(list(runner.run(adapter, chosen, adapter.variants)))) == {"exact"}
    (child,) = adapter._idle
    before = time.monotonic()
    adapter.close()
    assert time.monotonic() - before < 10
    assert child._process.returncode is not None
    adapter.close()


def test_several_at_a_time(misbehaving: Misbehaving, chosen: list[Vector], starts: Path) -> None:
    adapter = misbehaving("crash", chosen[2].id)
    results = list(runner.run(adapter, chosen * 5, adapter.variants, jobs=3))
    assert verdicts(results) == ["exact", "exact", "error", "exact", "exact", "exact"] * 5
    assert len(starts.read_text().splitlines()) <= 3 + 5


STARTS = {
    "silent-start": "no answer within",
    "dies-at-once": "exited with status 7 without an answer; stderr: the last words",
    "garbage-start": "its answer to start breaks protocol 1 at 1:1",
    "other-protocol": "/protocol: 1 was expected",
    "no-operators": "/operators: [] should be non-empty",
    "misspelt-key": "'capability' was unexpected",
}


@pytest.mark.parametrize("way", STARTS)
def test_one_that_does_not_start(way: str, misbehaving: Misbehaving) -> None:
    with pytest.raises(NotStartable) as caught:
        misbehaving(way, "nobody")
    assert STARTS[way] in str(caught.value)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "the command is empty"),
        ("'open", "No closing quotation"),
        ("/no/such/program --flag", "/no/such/program"),
        (str(HERE), "Permission denied"),
    ],
)
def test_a_command_that_cannot_run(
    line: str, complaint: str, small: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--command", line, *small]) == 2
    assert complaint in capsys.readouterr().err


def has_integers(vector: Vector) -> bool:
    return "float" not in vector.inputs["InputTensor"].dtype


def test_the_example_is_exact_where_it_claims_to_be(
    suite: list[Vector],
) -> None:
    adapter = adapters.start(f"process:{command(LINES)}")
    assert (adapter.name, adapter.variants) == ("lines", ("default",))
    valid = [v for v in suite if v.is_valid and v.desc is None and "Large" not in v.flags]
    for result in runner.run(adapter, valid, adapter.variants):
        is_mine = result.vector.operator == "nonzero_coordinates" and has_integers(result.vector)
        assert result.verdict == ("exact" if is_mine else "unsupported"), result.vector.id
    adapters.close(adapter)


def test_the_command_shows_how_to_repeat_a_failure(
    chosen: list[Vector], small: list[str], starts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = command(HERE / "misbehave.py", "hang", "every", starts)
    arguments = ["--id", chosen[0].id, "--time-limit", "0.5", *small]
    assert cli.main(["run", "--command", line, *arguments]) == 1
    shown = capsys.readouterr().out
    assert "no answer within 0.5 seconds" in shown
    assert f"run --implementation {shlex.quote(f'process:{line}')}" in shown
    assert cli.main(["run", "--implementation", f"process:{line}", *arguments]) == 1


def test_either_a_command_or_an_implementation() -> None:
    for arguments in ([], ["--command", "x", "--implementation", "oracle"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(["run", *arguments])
        assert caught.value.code == 2
