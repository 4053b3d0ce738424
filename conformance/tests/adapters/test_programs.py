"""Programs that speak the protocol: whatever they do, every vector gets a verdict."""

import fcntl
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import adapters, cli
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.runner import run as runner
from dmlax_conformance.runner.program import MOST_RESTARTS, Program
from dmlax_conformance.runner.run import Result

HERE = Path(__file__).parent
LINES = HERE.parents[1] / "examples" / "nonzero_lines.py"
INTEGERS = vectors_dir() / "nonzero_coordinates" / "core" / "integers.json"
SOON = 2.0  # seconds: longer than any right answer, short enough to wait for

Output = pytest.CaptureFixture[str]


def command(*words: str | Path) -> str:
    return shlex.join([sys.executable, *map(str, words)])


@pytest.fixture(scope="module")
def chosen() -> list[Vector]:
    """Return vectors of six data types."""
    return [vector for vector in vectors.load(INTEGERS) if vector.is_valid][:6]


@pytest.fixture
def run(tmp_path: Path, chosen: list[Vector]) -> Callable[..., int]:
    """Return a function that runs the command with one vector of a suite of one file."""
    folder = tmp_path / "suite" / "nonzero_coordinates"
    folder.mkdir(parents=True)
    shutil.copy(INTEGERS, folder)
    own = ["--vectors", str(folder.parent), "--id", chosen[0].id]
    return lambda line, *more: cli.main(["run", "--command", line, *own, *more])


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    return tmp_path / "starts"


@pytest.fixture
def start(starts: Path) -> Iterator[Callable[..., Program]]:
    """Return a function that starts a program that misbehaves in one way, at one occasion."""
    started: list[Program] = []

    def start(way: str, victim: str, longest: int = 1_000_000) -> Program:
        line = command(HERE / "misbehave.py", way, victim, starts)
        started.append(Program(line, SOON if "hang" in way else 60.0, longest))
        return started[-1]

    yield start
    for adapter in started:
        adapter.close()


def judged(adapter: Program, suite: list[Vector], **options: Any) -> list[Result]:
    return list(runner.run(adapter, suite, adapter.variants, **options))


def verdicts(results: list[Result]) -> list[str]:
    return [result.verdict for result in results]


def times(starts: Path) -> int:
    return len(starts.read_text().splitlines())


WAYS = {  # the verdict on the victim, a part of the explanation, and how often the program starts
    "hang()": ("error", "no answer within 2 seconds", 2),
    "leave(3)": ("error", "exited with status 3 without an answer\nstderr: the last words", 2),
    "os.close(1), hang()": ("error", "closed its standard output without an answer", 2),
    r"write(b'Segmentation\n')": ("error", "at 1:1: Expecting value; it begins Segmentation", 2),
    r"write(b'{\xff\n')": ("error", "breaks protocol 1 at byte 1: is not UTF-8", 2),
    "say({'seq': seq, 'answer': {}})": ("error", "has unexpected keys: answer", 2),
    "write(b'x' * 2_000_000)": ("error", "a line of more than 1000000 bytes", 2),
    r"write(b'1,' * 200_000, b'\n')": ("error", "more values than were asked for", 2),
    "write(b'{'), leave(0)": ("error", "exited with status 0 in the middle of a line", 2),
    "say(answer | {'seq': seq + 1})": ("error", "answered seq 4 when asked seq 3", 2),
    "say(*[{'seq': 9, 'error': ''}] * 99_999)": ("error", "answered seq 9 when asked seq 3", 2),
    r"complain(('x' * 99_999 + '\n') * 100), say(answer)": ("exact", "", 1),
    r"complain('see here'), say({'seq': seq, 'error': 'out of \udfff\x1b[2J'})": (
        *("error", "out of \\udfff\\x1b[2J\nstderr: see here", 1),
    ),
    "say({'seq': seq, 'error': 'no memory ' * 50_000})": ("error", " more characters)", 1),
    "say({'seq': seq, 'refused': {'code': 'sizes', 'field': 'X', 'message': 'why'}})": (
        *("fail", "refused a call that keeps every rule: X: sizes: why", 1),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_one_misbehaviour_costs_one_vector(
    way: str, start: Any, chosen: list[Vector], starts: Path
) -> None:
    verdict, explanation, count = WAYS[way]
    results = judged(start(way, "int32"), chosen)
    assert verdicts(results) == ["exact", "exact", verdict, "exact", "exact", "exact"]
    details = "\n".join(results[2].outcome.details)
    assert explanation in details
    assert len(details) < 2000
    assert times(starts) == count


@pytest.mark.parametrize(
    "way", ["leave(3)", "complain('see here'), say({'seq': seq, 'error': ''})"]
)
def test_last_words_are_not_taken_for_those_of_the_question_before(
    way: str, start: Any, chosen: list[Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child is one question ahead, and may be heard before its last answer is taken."""
    take = Program._take
    monkeypatch.setattr(Program, "_take", lambda *own: (time.sleep(0.2), take(*own))[1])
    first, second, victim, *others = judged(start(way, "int32"), chosen[:4])
    assert "stderr: " in victim.outcome.details[1]
    assert {result.outcome.details for result in (first, second, *others)} == {()}


def test_an_answer_given_twice_spoils_the_next_one(
    start: Any, chosen: list[Vector], run: Any, starts: Path, capsys: Output
) -> None:
    """With no next one, what nothing asked for fails the run."""
    results = judged(start("say(answer, answer)", "int32"), chosen)
    assert verdicts(results) == ["exact", "exact", "exact", "error", "exact", "exact"]
    assert results[3].outcome.details == ("answered seq 3 when asked seq 4",)
    assert run(command(HERE / "misbehave.py", "say(answer, answer)", "int8", starts)) == 1
    assert "the adapter wrote what nothing asked for: {" in capsys.readouterr().err


def test_a_program_that_always_dies_is_not_started_for_ever(
    start: Any, chosen: list[Vector], starts: Path
) -> None:
    """A success starts the count again."""
    results = judged(start("leave(3)", "every"), chosen * 3)
    assert set(verdicts(results)) == {"error"}
    given_up = [r for r in results if "not started again" in r.outcome.details[0]]
    assert len(given_up) == len(results) - MOST_RESTARTS
    count = MOST_RESTARTS + 2
    results = judged(start("leave(3)", "int8"), chosen[:2] * count)
    assert Counter(verdicts(results)) == {"error": count, "exact": count}
    assert times(starts) == MOST_RESTARTS + count + 1


@pytest.mark.parametrize(
    ("longest", "verdict", "reason"),
    [(1 << 28, "error", "no answer within 2"), (10_000, "unsupported", "more than 10000")],
)
def test_long_questions(
    longest: int, verdict: str, reason: str, start: Any, suite: list[Vector]
) -> None:
    """A program may not read one; one beyond the limit is not asked."""
    large = [vector for vector in suite if vector.id == "nonzero-large-70001"]
    (result,) = judged(start("say(HELLO), hang()", "start", longest), large)
    assert result.verdict == verdict
    assert reason in result.outcome.details[0]


def test_what_a_program_started_is_killed_with_it(
    start: Any, chosen: list[Vector], starts: Path
) -> None:
    assert verdicts(judged(start("hang_with_a_child()", "int8"), chosen[:1])) == ["error"]
    with open(f"{starts}.lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_nothing_is_left_running(start: Any, chosen: list[Vector]) -> None:
    adapter = start("hang()", "stop")
    assert set(verdicts(judged(adapter, chosen))) == {"exact"}
    (lane,) = adapter._lanes
    before = time.monotonic()
    adapter.close()
    assert time.monotonic() - before < 20
    assert lane.child._process.returncode is not None
    adapter.close()


def test_several_at_a_time(start: Any, chosen: list[Vector], starts: Path) -> None:
    many = [replace(v, id=f"{v.id}-{i}") for i in range(5) for v in chosen]
    results = judged(start("leave(3)", "int32"), many, jobs=3)
    assert [result.vector.id for result in results] == [vector.id for vector in many]
    assert verdicts(results) == ["exact", "exact", "error", "exact", "exact", "exact"] * 5
    assert times(starts) <= 3 + 5


STARTS = {
    "hang()": "no answer within 2 seconds",
    "leave(7)": "exited with status 7 without an answer; stderr: the last words",
    r"write(b'Loading...\n')": "its answer to start breaks protocol 1 at 1:1",
    "say(HELLO | {'protocol': 2})": "/protocol: 2 is not 1",
    "say({'error': 'no such device'})": "no such device",
}
COMMANDS = {
    "": "the command is empty",
    "'open": "No closing quotation",
    "/no/such/program --flag": "/no/such/program",
    str(HERE): "Permission denied",
}


@pytest.mark.parametrize("line", [*STARTS, *COMMANDS])
def test_what_does_not_start(line: str, run: Any, starts: Path, capsys: Output) -> None:
    limit = "2" if line == "hang()" else "60"
    misbehaving = command(HERE / "misbehave.py", line, "start", starts)
    assert run(misbehaving if line in STARTS else line, "--time-limit", limit) == 2
    assert (STARTS | COMMANDS)[line] in capsys.readouterr().err


def test_the_example_is_exact_where_it_claims_to_be(suite: list[Vector]) -> None:
    valid = [v for v in suite if v.is_valid and v.desc is None and "Large" not in v.flags]
    with adapters.started(f"process:{command(LINES)}") as adapter:
        for result in runner.run(adapter, valid[::7], ["default"]):
            x = result.vector.inputs.get("InputTensor")
            is_mine = result.vector.operator == "nonzero_coordinates" and "float" not in x.dtype  # type: ignore[union-attr]
            assert result.verdict == ("exact" if is_mine else "unsupported"), result.vector.id


def test_the_command_shows_how_to_repeat_a_failure(run: Any, starts: Path, capsys: Output) -> None:
    line = command(HERE / "misbehave.py", "hang()", "every", starts)
    assert run(line, "--time-limit", "0.5") == 1
    shown = capsys.readouterr().out
    assert "no answer within 0.5 seconds" in shown
    assert f"run --implementation {shlex.quote(f'process:{line}')}" in shown
