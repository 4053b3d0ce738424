"""Changes the source in small ways, and sees whether the tests notice; `nox -s mutation` runs it.

    python mutation/run.py COPY [MODULE ...]

COPY is a copy of the repository that may be changed. A mutant that survives must be answered in
answers.toml, with the reason why no test can tell it from the original, or the run fails. A run
that was cut short goes on where it was, and tries survivors again: COPY/build keeps what is done.
"""

import multiprocessing
import os
import re
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

import jax.numpy
import pytest
from cosmic_ray.mutating import _make_diff, use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

IMPORTED = jax.numpy  # once, here: each mutant is tested in a fork of this process
CONFIGURATION = """
[cosmic-ray]
module-path = "src/dmlax/{module}"
timeout = {seconds}
excluded-modules = []
test-command = "{tests}"
[cosmic-ray.distributor]
name = "local"
"""
PYTEST = "-q -x -p no:cacheprovider -p no:xdist"
MESSAGES = "tests/test_messages.py"
TESTS = {  # what should notice, the quickest first; and the longest that a mutant may take
    "_core/windows.py": ("tests/core/test_windows.py tests/convolution/test_plan.py", 60),
    "_nonzero/plan.py": (f"tests/nonzero/test_plan.py {MESSAGES}", 60),
    "_elementwise/plan.py": (f"tests/elementwise/test_plan.py {MESSAGES}", 60),
    "_convolution/plan.py": (f"tests/convolution/test_plan.py {MESSAGES}", 60),
    "_core/operands.py": (f"tests/core/test_operands.py {MESSAGES}", 60),
    "_core/dispatch.py": ("tests/core/test_dispatch.py", 120),
    "_core/bits.py": ("tests/core/test_bits_exactly.py tests/core/test_bits.py", 300),
    "_core/rescale.py": ("tests/core/test_rescale.py", 300),
}


def main(copy: Path, modules: list[str]) -> int:
    """How many survivors have no answer."""
    answers = tomllib.loads(Path(__file__).with_name("answers.toml").read_text(encoding="utf-8"))
    os.chdir(copy)
    sys.path.insert(0, str(copy / "src"))  # before what is installed
    unanswered = 0
    for module in modules or TESTS:
        known = [
            re.compile(each["change"]) for each in answers["answer"] if _is_about(each, module)
        ]
        total, survivors = _mutate(copy, module)
        silent = [change for change in survivors if not any(p.search(change) for p in known)]
        print(f"{module}: {total} mutants, {len(survivors)} survive, {len(silent)} unanswered")
        for change in silent:
            print(f"  {change}")
        unanswered += len(silent)
    return unanswered


def _is_about(answer: dict[str, str], module: str) -> bool:
    return answer["module"] in (module, "*")


def _mutate(copy: Path, module: str) -> tuple[int, list[str]]:
    """How many mutants there are, and the changes that survive."""
    tests, seconds = TESTS[module]
    if not _passes(tests, 10 * seconds):
        raise SystemExit(f"{module}: the tests fail before anything is changed")
    with use_db(str(_work(copy, module)), WorkDB.Mode.open) as database:
        before = [item for item, result in database.completed_work_items if _is_alive(result)]
        for item in (*before, *database.pending_work_items):
            database.set_result(item.job_id, _result(item, tests, seconds))
        done = list(database.completed_work_items)
    alive = [result.diff for _, result in done if _is_alive(result)]
    return len(done), [change for diff in alive for change in _changes(diff)]


def _is_alive(result: WorkResult) -> bool:
    return result.test_outcome == TestOutcome.SURVIVED


def _work(copy: Path, module: str) -> Path:
    """The list of mutants and of what became of them."""
    tests, seconds = TESTS[module]
    work = copy / "build" / f"{module.replace('/', '-')}.sqlite"
    if not work.exists():
        work.parent.mkdir(exist_ok=True)
        settings = work.with_suffix(".toml")
        text = CONFIGURATION.format(module=module, seconds=seconds, tests=tests)
        settings.write_text(text, encoding="utf-8")
        subprocess.run(["cosmic-ray", "init", settings, work], check=True)
    return work


def _result(item: WorkItem, tests: str, seconds: int) -> WorkResult:
    (mutation,) = item.mutations
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    try:
        with use_mutation(mutation.module_path, operator, mutation.occurrence) as (was, now):
            alive = _passes(tests, seconds)
    except AttributeError:  # Cosmic Ray takes `except (A, (B, C))` and the like for names alone
        return WorkResult(WorkerOutcome.EXCEPTION, test_outcome=TestOutcome.INCOMPETENT)
    return WorkResult(
        worker_outcome=WorkerOutcome.NORMAL,
        diff="\n".join(_make_diff(was, now, mutation.module_path)),
        test_outcome=TestOutcome.SURVIVED if alive else TestOutcome.KILLED,
    )


def _passes(tests: str, seconds: int) -> bool:
    """Whether the tests pass, in time, in a process of their own that has JAX imported already."""
    process = multiprocessing.get_context("fork").Process(target=_test, args=(tests,))
    with warnings.catch_warnings(action="ignore"):  # JAX has no threads yet
        process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode == 0


def _test(tests: str) -> None:
    sys.dont_write_bytecode = True  # two changes within a second would look the same
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, sys.stdout.fileno())
    os.dup2(quiet, sys.stderr.fileno())
    sys.exit(pytest.main([*PYTEST.split(), *tests.split()]))


def _changes(diff: str) -> Iterator[str]:
    """A diff in one line: what was, an arrow, what is instead."""
    lines = diff.splitlines()
    was = " ".join(line[1:].strip() for line in lines if re.match(r"-(?!--)", line))
    now = " ".join(line[1:].strip() for line in lines if re.match(r"\+(?!\+\+)", line))
    yield f"{was} -> {now}"


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1]).resolve(), sys.argv[2:]), 1))
