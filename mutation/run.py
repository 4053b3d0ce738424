"""Changes the source in small ways, and counts what the tests notice; `nox -s mutation` runs it.

    python mutation/run.py COPY [MODULE ...]

COPY is a copy of the repository that may be changed. The run prints each survivor, and fails where
more survive than score.json beside this file says. A module without a score gets one, and fails
once; a better score replaces the old one. A run that was cut short goes on where it was, and tries
survivors again: COPY/build keeps what is done.
"""

import gc
import importlib
import importlib.machinery
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import jax.numpy
import pytest
from cosmic_ray.mutating import _make_diff, use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

SCORE = Path(__file__).with_name("score.json")
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
PYTEST = "-q -x -p no:cacheprovider -p no:xdist -m not(slow)"
MESSAGES = "tests/test_messages.py"
TESTS = {  # what should notice, the quickest first; and the longest that a mutant may take
    "_core/windows.py": ("tests/core/test_windows.py tests/convolution/test_plan.py", 60),
    "_nonzero/plan.py": (f"tests/nonzero/test_plan.py {MESSAGES}", 60),
    "_quantize/plan.py": (f"tests/quantize/test_plan.py {MESSAGES}", 60),
    "_convolution/plan.py": (f"tests/convolution/test_plan.py {MESSAGES}", 60),
    "_convolution/cuda/space_to_depth.py": ("tests/convolution/cuda/test_space_to_depth.py", 120),
    "_core/arguments.py": (f"tests/core/test_arguments.py {MESSAGES}", 60),
    "_core/dispatch.py": ("tests/core/test_dispatch.py", 120),
    "_core/float_bits.py": ("tests/core/test_float_bits.py", 300),
    "_core/requantize.py": ("tests/core/test_requantize.py", 300),
    "_cuda/capability.py": ("tests/cuda/test_capability.py", 60),
    "_core/compat.py": ("tests/core/test_compat.py tests/test_public_api.py", 120),
    "_cpu/library.py": ("tests/cpu/test_library.py tests/core/test_dispatch.py", 120),
}  # the rest of _cuda writes a GPU's programs, which no test without one can run
QUICK = {  # of these, what needs nothing but the module itself: see _Quick
    "_core/windows.py": "tests/core/test_windows.py",
    "_nonzero/plan.py": "tests/nonzero/test_plan.py",
    "_quantize/plan.py": "tests/quantize/test_plan.py",
    "_convolution/plan.py": "tests/convolution/test_plan.py",
    "_convolution/cuda/space_to_depth.py": "tests/convolution/cuda/test_space_to_depth.py",
    "_core/arguments.py": "tests/core/test_arguments.py",
    "_core/dispatch.py": "tests/core/test_dispatch.py",
    "_core/float_bits.py": "tests/core/test_float_bits_exactly.py",
    "_core/requantize.py": "tests/core/test_requantize_exactly.py",
    "_cuda/capability.py": "tests/cuda/test_capability.py",
    "_core/compat.py": "tests/core/test_compat.py",
    "_cpu/library.py": "tests/cpu/test_library.py",
}
QUICK_SECONDS = 20
QUICKLY = "--tb=no -p no:unraisableexception"  # no tracebacks, and no search for garbage


def main(copy: Path, modules: list[str]) -> int:
    """Return how many modules have more survivors than their score allows."""
    scores = json.loads(SCORE.read_text(encoding="utf-8"))
    os.chdir(copy)
    _import_from(copy / "src")
    worse = 0
    for module in modules or TESTS:
        total, survivors = _mutate(copy, module)
        print(f"{module}: {total} mutants, {len(survivors)} survive")
        for change in survivors:
            print(f"  {change}")
        most = scores[module]["survivors"] if module in scores else None
        worse += most is None or len(survivors) > most
        if most is None or len(survivors) <= most:
            scores[module] = {"mutants": total, "survivors": len(survivors)}
    SCORE.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
    return worse


def _import_from(source: Path) -> None:
    """Has dmlax come from the copy, also where an editable install would redirect it."""
    installed = importlib.util.find_spec("dmlax")
    for folder in (installed and installed.submodule_search_locations) or ():
        library = Path(folder) / "_native.so"  # which a copy of the source lacks
        if library.exists() and Path(folder) != source / "dmlax":
            shutil.copy(library, source / "dmlax")
    sys.path.insert(0, str(source))
    sys.meta_path.insert(0, importlib.machinery.PathFinder)
    sys.dont_write_bytecode = True  # two changes within a second would look the same
    spec = importlib.util.find_spec("dmlax")
    if spec is None or spec.origin != str(source / "dmlax" / "__init__.py"):
        raise SystemExit(f"dmlax does not come from {source}")


def _mutate(copy: Path, module: str) -> tuple[int, list[str]]:
    """Return the number of mutants, and the changes that survive."""
    tests, seconds = TESTS[module]
    if not _passes(tests, 10 * seconds):
        raise SystemExit(f"{module}: the tests fail before anything is changed")
    quick = _Quick(module)
    with use_db(str(_work(copy, module)), WorkDB.Mode.open) as database:
        before = [item for item, result in database.completed_work_items if _is_alive(result)]
        for item in (*before, *database.pending_work_items):
            database.set_result(item.job_id, _result(item, tests, seconds, quick))
        done = list(database.completed_work_items)
    quick.close()
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


def _result(item: WorkItem, tests: str, seconds: int, quick: "_Quick") -> WorkResult:
    (mutation,) = item.mutations
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    quick.start()
    try:
        with use_mutation(mutation.module_path, operator, mutation.occurrence) as (was, now):
            alive = not quick.fail() and _passes(tests, seconds)
    except AttributeError:  # Cosmic Ray takes `except (A, (B, C))` and the like for names alone
        return WorkResult(WorkerOutcome.EXCEPTION, test_outcome=TestOutcome.INCOMPETENT)
    return WorkResult(
        worker_outcome=WorkerOutcome.NORMAL,
        diff="\n".join(_make_diff(was, now, mutation.module_path)),
        test_outcome=TestOutcome.SURVIVED if alive else TestOutcome.KILLED,
    )


class _Quick:
    """Quick tests in a process that stays, where JAX has compiled each of their ops already.

    Only the module and its tests are loaded again, so that a mutant is tried in a second. Other
    modules keep what they have imported: a mutant that passes is tried with all tests.
    """

    def __init__(self, module: str) -> None:
        self.tests, self.module = QUICK[module], f"dmlax.{module[:-3].replace('/', '.')}"
        self.process: BaseProcess | None = None

    def start(self) -> None:
        """Compiles, with the source as it should be."""
        if self.process is None:
            self.pipe, other = multiprocessing.Pipe()
            self.process = _fork(_serve, self.module, self.tests, other)
            other.close()
            if any(self._fail(600) is not False for _ in ("first", "loaded again")):
                raise SystemExit(f"{self.tests}: fails before anything is changed")

    def fail(self) -> bool:
        """True if the tests fail, in time, with the module as it is now."""
        return self._fail(QUICK_SECONDS) or False

    def close(self) -> None:
        """Ends it, if the tests still pass."""
        self.start()
        if self._fail(600) is not False:
            raise SystemExit(f"{self.tests}: fails without a change: a mutant left something")
        self._stop()

    def _fail(self, seconds: int) -> bool | None:
        self.pipe.send(True)
        try:
            if self.pipe.poll(seconds):
                return not self.pipe.recv()
        except EOFError:  # it crashed
            pass
        self._stop()
        return None

    def _stop(self) -> None:
        assert self.process
        self.process.kill()
        self.process.join()
        self.process = None


def _serve(module: str, tests: str, pipe: Connection) -> None:
    _be_quiet()
    while pipe.recv():
        try:
            if module in sys.modules:
                importlib.reload(sys.modules[module])
            for name in [*filter(_is_of_tests, sys.modules)]:
                del sys.modules[name]  # for the names that they import
            pipe.send(_run(f"{QUICKLY} {tests}") == 0)
            gc.freeze()  # what stays need not be searched for garbage every time
        except Exception:  # the mutant cannot be imported
            pipe.send(False)


def _is_of_tests(module: str) -> bool:
    return module.split(".")[-1].startswith("test_")


def _passes(tests: str, seconds: int) -> bool:
    """True if the tests pass in a process of their own; twice out of time is failing."""
    process = _fork(_test, tests)
    process.join(seconds)
    if process.exitcode is None:  # the machine may have been busy
        process.kill()
        process = _fork(_test, tests)
        process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode == 0


def _fork(function: Callable[..., None], *args: Any) -> BaseProcess:
    """A process that has JAX imported already."""
    process = multiprocessing.get_context("fork").Process(target=function, args=args, daemon=True)
    with warnings.catch_warnings(action="ignore"):  # JAX has no threads yet
        process.start()
    return process


def _test(tests: str) -> None:
    _be_quiet()
    sys.exit(_run(tests))


def _run(tests: str) -> int:
    return int(pytest.main([*PYTEST.split(), *tests.split()]))


def _be_quiet() -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, sys.stdout.fileno())
    os.dup2(quiet, sys.stderr.fileno())


def _changes(diff: str) -> Iterator[str]:
    """A diff in one line: what was, an arrow, what is instead."""
    lines = diff.splitlines()
    was = " ".join(line[1:].strip() for line in lines if re.match(r"-(?!--)", line))
    now = " ".join(line[1:].strip() for line in lines if re.match(r"\+(?!\+\+)", line))
    yield f"{was} -> {now}"


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1]).resolve(), sys.argv[2:]), 1))
