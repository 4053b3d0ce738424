"""Python classes: whatever they do, every vector gets a verdict, and only right answers pass."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import adapters, cli
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.runner import run as runner

FOLDER = vectors_dir() / "nonzero_coordinates" / "core"
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def ways_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.fixture(scope="module")
def chosen() -> list[Vector]:
    integers = vectors.load(FOLDER / "integers.json")
    return [vector for vector in integers if vector.is_valid and not vector.paired_with][:3]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Return a function that runs a class with a suite of few calls and descs."""
    folder = tmp_path / "suite" / "nonzero_coordinates"
    folder.mkdir(parents=True)
    for name in ("integers", "invalid", "desc-rules"):
        shutil.copy(FOLDER / f"{name}.json", folder)
    report = str(tmp_path / "report.jsonl")

    def code(implementation: str, *more: str) -> int:
        own = ["--implementation", implementation, "--vectors", str(folder.parent)]
        return cli.main(["run", *own, "--report", report, "--max-shown", "1", *more])

    return code


WAYS = {  # what is done instead of the second answer
    "time.sleep(600)": ("error", "no answer within 2 seconds"),
    "os._exit(0)": ("error", "exited with status 0 without an answer"),
    "ctypes.CDLL(None).exit(3)": ("error", "exited with status 3 without an answer"),
    "os.kill(os.getpid(), 9)": ("error", "was ended by SIGKILL without an answer"),
    "os.execv('/bin/true', ['true'])": ("error", "exited with status 0 without an answer"),
    "os.closerange(0, 256)": ("error", "without an answer"),
    "fail(SystemExit(0))": ("error", "SystemExit: 0"),
    "fail(KeyboardInterrupt())": ("error", "KeyboardInterrupt"),
    "fail(OwnError())": ("error", "OwnError"),
    "fail(ValueError('out of memory ' * 1_000_000))": ("error", "more characters)"),
    r"fail(ValueError('\x1b[2J \ud800'))": ("error", r"ValueError: \x1b[2J \ud800"),
    "fail(Unsupported(OwnError()))": ("unsupported", "<Unsupported without a text>"),
    "fail(SpecViolation(np.arange(3), 'X'))": ("error", "refused with the code [0 1 2]"),
    "input()": ("error", "EOFError"),
    "(patch_numpy(), zeros)[1]": ("fail", "OutputCountTensor"),
    "(patch_the_suite(), zeros)[1]": ("fail", "OutputCountTensor"),
    "{}": ("fail", "OutputCountTensor: missing"),
    "[]": ("error", "the answer is a list, not a mapping"),
    "dict.fromkeys(case.outputs, object())": ("error", "has the data type object"),
    "dict.fromkeys(case.outputs, np.zeros(10**7))": ("error", "80000000 bytes, more than were"),
    "{f'Y{i}': np.zeros(1) for i in range(5000)}": ("fail", "OutputCountTensor: missing"),
    "(write(), answer)[1]": ("exact", ""),
    "(os.fork(), answer)[1]": ("exact", ""),
    "(threading.Thread(target=time.sleep, args=(600,)).start(), answer)[1]": ("exact", ""),
    "(scribble(case), answer)[1]": ("exact", ""),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_rude_call_costs_itself_alone(way: str, chosen: list[Vector]) -> None:
    with adapters.started(f"ways:{way}", 2.0 if "(600)" in way else 60.0) as adapter:
        results = list(runner.run(adapter, chosen, adapter.variants))
    verdict, explanation = WAYS[way]
    assert [result.verdict for result in results] == ["exact", verdict, "exact"]
    details = "\n".join(results[1].outcome.details)
    assert explanation in details
    assert len(details) < 2000
    assert details.replace("\n", "").isprintable()
    assert adapter.unasked == []


STARTS = {
    "ExitsWhenMade": "SystemExit",
    "ExitsAtItsName": "SystemExit",
    "ExitsAtItsLimits": "SystemExit",
    "HasVariantsOfNoKind": "has no variants",
    "HasNoRun": "has no run",
    "MakesNothing": "has no name and no variants and no run",
    "Nobody": "AttributeError",
}


@pytest.mark.parametrize("way", STARTS)
def test_what_is_no_adapter_does_not_start(way: str, run: Any, capsys: Output) -> None:
    assert run(f"ways:{way}") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"dmlax-conformance: ways:{way}: ")
    assert STARTS[way] in error


@pytest.mark.parametrize("way", ["OnlyRefuses", "OnlyValues"])
def test_a_part_of_the_declared_vectors_is_not_enough(way: str, run: Any, capsys: Output) -> None:
    assert run(f"ways:{way}") == 3
    last = capsys.readouterr().out.splitlines()[-1]
    share = float(last.split("(")[1].split()[0])
    assert 0 < share < 100
    assert run(f"ways:{way}", "--min-share", str(share)) == (0 if way == "OnlyValues" else 3)
    assert run(f"ways:{way}", "--min-share", str(share + 0.01)) == 3
    assert f"needed {share + 0.01:g} %" in capsys.readouterr().err


def test_descs_that_no_variant_takes_are_unsupported(run: Any, tmp_path: Path) -> None:
    assert run("ways:NoDescs") == 0
    _, *results, footer = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
    declined = {result["details"][0] for result in results if result["verdict"] == "unsupported"}
    assert declined == {"eager takes no descs"}
    assert footer["total"] == footer["exact"] + footer["unsupported"] == len(results)


def test_values_are_counted_and_named(run: Any, capsys: Output) -> None:
    assert run("oracle") == 0
    *_, last = capsys.readouterr().out.splitlines()
    values = int(last.split(" right values; answered ")[0])
    assert " (100 %)" in last
    assert run("oracle", "--min-cases", str(values + 1)) == 3
    assert f"{values} values, needed {values + 1}" in capsys.readouterr().err
    assert run("oracle", "--flag", "Invalid") == 0
    assert run("oracle", "--flag", "Invalid", "--min-cases", "1") == 3


def test_an_interrupt_keeps_what_ran(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    judge = runner._judged

    def interrupted(adapter: Any, vector: Vector, *more: Any) -> Any:
        if vector.id == "nonzero-uint8-extremes":
            raise KeyboardInterrupt
        return judge(adapter, vector, *more)

    monkeypatch.setattr(runner, "_judged", interrupted)
    start = time.monotonic()
    assert run("oracle", "--jobs", "1") == 1
    assert time.monotonic() - start < 20
    _, *results, _ = (tmp_path / "report.jsonl").read_text().splitlines()
    assert results


def test_what_runs_before_runs_in_the_same_process(chosen: list[Vector], tmp_path: Path) -> None:
    """The first vector runs after the second, and the second after the third."""
    value = json.loads((FOLDER / "integers.json").read_text())
    first, second, third = ids = [vector.id for vector in chosen]
    value["vectors"] = [each for each in value["vectors"] if each["id"] in ids]
    value["vectors"][0]["after"], value["vectors"][1]["after"] = second, third
    path = tmp_path / "nonzero_coordinates" / "chain.json"
    path.parent.mkdir()
    path.write_text(json.dumps(value))
    suite = vectors.load(path)
    assert [vector.id for vector in runner.before(suite[0])] == [third, second]
    sizes = {vector.id: str(vector.inputs["InputTensor"].sizes) for vector in suite}
    for vector, asked in ((suite[0], [third, second, first]), (suite[1], [third, second])):
        with adapters.started("ways:Counting") as adapter:
            (result,) = runner.run(adapter, [vector], adapter.variants, jobs=2)
        assert result.vector.id == vector.id
        assert result.outcome.details == (" ".join(sizes[name] for name in asked),)
