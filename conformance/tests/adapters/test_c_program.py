"""An adapter in C, from the source to the report."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance.format.vectors import Vector

CONFORMANCE = Path(__file__).parents[2]
SOURCE = CONFORMANCE / "examples" / "two_operators.c"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O2")
SMALL = {  # no large vectors
    *("EffectiveRank", "Extreme", "Invalid", "PageExample", "SpecialFloat"),
    *("Groups", "Windows", "Overflow"),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("c") / SOURCE.stem
    subprocess.run([compiler, *STRICT, "-o", path, SOURCE], check=True)
    return path


def is_claimed(vector: Vector) -> bool:
    """Say whether the program takes the call, and the one beside which it counts."""
    if vector.paired_with is not None and not is_claimed(vector.paired_with):
        return False
    x = vector.inputs.get("InputTensor")
    is_counted = x is not None and x.dtype in ("int32", "uint32", "uint8", "float32")
    own = {"nonzero_coordinates": is_counted, "convolution_integer": True}
    return vector.desc is None and own.get(vector.operator, False)


def check(command: list[str], program: Path, suite: list[Vector], **options: Any) -> None:
    """Check that every call with a data type that the program has is exact, refusals too."""
    report = program.with_suffix(".jsonl")
    words = [*command, "--command", str(program), "--report", str(report)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    header, *results, footer = map(json.loads, report.read_text().splitlines())
    assert header["implementation"].startswith("process:")
    assert footer["exact"] + footer["unsupported"] == footer["total"] == len(results)
    exact = {result["id"] for result in results if result["verdict"] == "exact"}
    assert exact == {vector.id for vector in suite if is_claimed(vector)}
    assert {True, False} == {v.is_valid for v in suite if v.id in exact}


def test_it_is_exact(program: Path, suite: list[Vector]) -> None:
    flags = [word for flag in sorted(SMALL) for word in ("--flag", flag)]
    command = [sys.executable, "-W", "error", "-m", "dmlax_conformance", "run", *flags]
    some = [vector for vector in suite if vector.flags & SMALL]
    check(command, program, some, env={"PYTHONPATH": str(CONFORMANCE / "src"), "PATH": ""})


@pytest.mark.slow
def test_in_a_fresh_environment(program: Path, tmp_path: Path, suite: list[Vector]) -> None:
    """Install the distribution, and nothing else, as somebody who writes C would."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "new"], check=True, env=clean)
    folder = tmp_path / "new" / "bin"
    subprocess.run([folder / "pip", "install", "-q", CONFORMANCE], check=True, env=clean)
    absent = "from importlib.util import find_spec as f; assert not any(map(f, %s))"
    code = absent % (("jax", "jaxlib", "dmlax"),)
    subprocess.run([folder / "python", "-c", code], check=True, cwd=tmp_path, env=clean)
    check([str(folder / "dmlax-conformance"), "run"], program, suite, cwd=tmp_path, env=clean)
