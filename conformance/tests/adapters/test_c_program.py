"""An adapter in C, from the source to the report, where neither JAX nor dmlax can be imported."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dmlax_conformance
from dmlax_conformance.format.vectors import Vector

CONFORMANCE = Path(__file__).parents[2]
SOURCE = CONFORMANCE / "examples" / "two_operators.c"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O2")
PROGRAM = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib", "dmlax"):
            raise AssertionError(f"imports {name}")

sys.meta_path.insert(0, Forbidden())
from dmlax_conformance import cli
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("c") / SOURCE.stem
    subprocess.run([os.environ.get("CC", "cc"), *STRICT, "-o", path, SOURCE], check=True)
    return path


SMALL = (  # no large vectors
    *("EffectiveRank", "Extreme", "Invalid", "PageExample", "SpecialFloat"),
    *("Groups", "Windows", "Overflow"),
)


def expect_exact(report: Path, suite: list[Vector]) -> None:
    """Check that every call with a data type that the program has is exact, refusals too."""
    header, *results, footer = map(json.loads, report.read_text().splitlines())
    assert header["implementation"].startswith("process:")
    assert footer["total"] == len(results)
    assert footer["exact"] + footer["unsupported"] == footer["total"]
    exact = {result["id"] for result in results if result["verdict"] == "exact"}
    assert exact == {vector.id for vector in suite if is_claimed(vector)}
    assert {True, False} == {v.is_valid for v in suite if v.id in exact}


def is_claimed(vector: Vector) -> bool:
    """Say whether the program takes the call, and the one beside which it counts."""
    if vector.desc is not None:
        return False
    if vector.paired_with is not None and not is_claimed(vector.paired_with):
        return False
    dtypes = {tensor.dtype for name, tensor in vector.inputs.items() if name == "InputTensor"}
    is_counted = bool(dtypes & {"int32", "uint8", "float32"})
    own = {"nonzero_coordinates": is_counted, "convolution_integer": True}
    return own.get(vector.operator, False)


def run(command: list[str], program: Path, report: Path, *filters: str, **options: Any) -> None:
    own = ["--command", str(program), "--report", str(report)]
    done = subprocess.run(
        [*command, "run", *own, *filters], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_jax(program: Path, tmp_path: Path, suite: list[Vector]) -> None:
    source = str(Path(dmlax_conformance.__file__).parents[1])
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    report = tmp_path / "report.jsonl"
    filters = [word for flag in SMALL for word in ("--flag", flag)]
    run(command, program, report, *filters, env={"PYTHONPATH": source, "PATH": ""})
    expect_exact(report, [vector for vector in suite if not vector.flags.isdisjoint(SMALL)])


@pytest.mark.slow
def test_in_a_fresh_environment(program: Path, tmp_path: Path, suite: list[Vector]) -> None:
    """Install the distribution, and nothing else, as somebody who writes C would."""
    environment = tmp_path / "environment"
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, env=clean)
    bin_folder = environment / "bin"
    subprocess.run([bin_folder / "pip", "install", "-q", CONFORMANCE], check=True, env=clean)
    for absent in ("jax", "jaxlib", "dmlax"):
        code = f"import importlib.util as u; assert u.find_spec({absent!r}) is None"
        subprocess.run([bin_folder / "python", "-c", code], check=True, cwd=tmp_path, env=clean)
    report = tmp_path / "report.jsonl"
    run([str(bin_folder / "dmlax-conformance")], program, report, cwd=tmp_path, env=clean)
    expect_exact(report, suite)
