"""Changes the source in small ways, and sees whether the tests notice; `nox -s mutation` runs it.

    python mutation/run.py COPY [MODULE ...]

COPY is a copy of the repository that may be changed. A mutant that survives must be answered in
answers.toml, with the reason why no test can tell it from the original, or the run fails.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome

CONFIGURATION = """
[cosmic-ray]
module-path = "src/dmlax/{module}"
timeout = {seconds}
excluded-modules = []
test-command = "{python} -m pytest -q -x -p no:cacheprovider -p no:xdist {tests}"
[cosmic-ray.distributor]
name = "local"
"""
PLANS = "tests/test_messages.py"
TESTS = {  # what should notice, the quickest first; and the longest that a mutant may take
    "_core/windows.py": ("tests/core/test_windows.py tests/convolution/test_plan.py", 60),
    "_nonzero/plan.py": (f"tests/nonzero/test_plan.py {PLANS}", 60),
    "_elementwise/plan.py": (f"tests/elementwise/test_plan.py {PLANS}", 60),
    "_convolution/plan.py": (f"tests/convolution/test_plan.py {PLANS}", 60),
    "_core/operands.py": (f"tests/core/test_operands.py {PLANS}", 60),
    "_core/dispatch.py": ("tests/core/test_dispatch.py", 120),
    "_core/bits.py": ("tests/core/test_bits.py", 300),
    "_core/rescale.py": ("tests/core/test_rescale.py", 300),
}


def main(copy: Path, modules: list[str]) -> int:
    """How many survivors have no answer."""
    answers = tomllib.loads(Path(__file__).with_name("answers.toml").read_text(encoding="utf-8"))
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
    work = copy / "build" / f"{module.replace('/', '-')}.sqlite"
    work.parent.mkdir(exist_ok=True)
    work.unlink(missing_ok=True)
    settings = work.with_suffix(".toml")
    text = CONFIGURATION.format(module=module, seconds=seconds, tests=tests, python=sys.executable)
    settings.write_text(text, encoding="utf-8")
    for command in (("init",), ("exec",)):
        changed = {**os.environ, "PYTHONPATH": str(copy / "src")}  # before what is installed
        subprocess.run(["cosmic-ray", *command, settings, work], cwd=copy, check=True, env=changed)
    with use_db(str(work), WorkDB.Mode.open) as database:
        done = list(database.completed_work_items)
    alive = [result.diff for _, result in done if result.test_outcome == TestOutcome.SURVIVED]
    return len(done), [change for diff in alive for change in _changes(diff)]


def _changes(diff: str) -> Iterator[str]:
    """A diff in one line: what was, an arrow, what is instead."""
    lines = diff.splitlines()
    was = " ".join(line[1:].strip() for line in lines if re.match(r"-(?!--)", line))
    now = " ".join(line[1:].strip() for line in lines if re.match(r"\+(?!\+\+)", line))
    yield f"{was} -> {now}"


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1]).resolve(), sys.argv[2:]), 1))
