"""The suite stands alone: neither JAX nor the library under test is needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dmlax_conformance
from dmlax_conformance.operators import OPERATORS

PROGRAM = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib", "dmlax"):
            raise AssertionError(f"imports {name}")

sys.meta_path.insert(0, Forbidden())
from dmlax_conformance import cli
from dmlax_conformance.suite import lint
from dmlax_conformance.suite.generate import driver
import dmlax_conformance.adapters.dmlax
QUICK = ("--operator", "convolution_integer", "--flag", "Groups")
assert cli.main(["run", "--implementation", "oracle", *QUICK]) == 0
assert next(driver.topics()).file()
assert cli.main(["run", "--implementation", "dmlax", *QUICK]) == 2
assert not {"jax", "jaxlib", "dmlax"} & sys.modules.keys()
"""


def test_neither_jax_nor_dmlax_is_imported() -> None:
    source = str(Path(dmlax_conformance.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={"PYTHONPATH": source, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


WITHOUT_PACKAGES = """
import sys

for name in ("rich", "jsonschema", "onnx", "onnxruntime", "torch"):
    sys.modules[name] = None
from dmlax_conformance import cli

QUICK = ("--operator", "convolution_integer", "--flag", "Groups")
assert cli.main(["run", "--implementation", "oracle", *QUICK]) == 0
assert cli.main(["run", "--implementation", "zeros", *QUICK]) == 1
assert cli.main(["list", "--vectors", sys.argv[1]]) == 2
assert cli.main(["smoke", "--command", "cat"]) == 2
assert cli.main(["models", "--implementation", "oracle", "--model", "products"]) == 0
"""


def test_numpy_alone_is_enough_for_the_suites_own_vectors(tmp_path: Path) -> None:
    own = Path(dmlax_conformance.paths.vectors_dir()) / "convolution_integer"
    foreign = tmp_path / "convolution_integer"
    foreign.mkdir()
    for path in own.glob("*.json"):
        (foreign / path.name).write_bytes(path.read_bytes())
    source = str(Path(dmlax_conformance.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_PACKAGES, str(tmp_path)],
        env={"PYTHONPATH": source, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split()[:3] == ["operator", "total", "applicable"]
    assert rows[0].split()[0] == "convolution_integer"
    assert f"{foreign}" in done.stderr
    assert done.stderr.count("needs the package jsonschema") == 2


LAYERS = {
    **dict.fromkeys(("errors", "exit_codes", "options", "paths", "terminal", "texts"), 0),
    "format": 1,
    "operators": 2,
    "suite": 3,
    "models": 3,
    **dict.fromkeys(("adapters", "exports", "reports", "scoreboard"), 4),
    **dict.fromkeys(("cli", "models_command", "supervision", "__main__"), 5),
    **dict.fromkeys(("pytest_plugin", "pytest_vectors"), 5),
}
PACKAGE = Path(dmlax_conformance.__file__).parent


def imported(file: Path) -> Iterator[str]:
    """Yield the part of the package that each relative import of a file names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = file.relative_to(PACKAGE).parts[: -node.level]
            names = [*folder, *(node.module or "").split(".")]
            path = [name for name in names if name]
            yield from path[:1] or (alias.name for alias in node.names)


@pytest.mark.parametrize("name", LAYERS)
def test_imports_point_downward(name: str) -> None:
    file = PACKAGE / f"{name}.py"
    for path in [file] if file.exists() else sorted((PACKAGE / name).rglob("*.py")):
        # The bugs of an operator are in its room, and are the suite's.
        layer = LAYERS["suite" if path.name.endswith("bugs.py") else name]
        upward = {other for other in imported(path) if LAYERS.get(other, 0) > layer}
        assert not upward, path


def test_every_module_has_a_layer() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"__init__", "__pycache__"} == LAYERS.keys()


ROOMS = {row.name for row in OPERATORS.values()}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_no_other_room(room: str) -> None:
    for path in sorted((PACKAGE / "operators" / room).glob("*.py")):
        assert not set(imported_rooms(path)) & (ROOMS - {room}), path


def imported_rooms(file: Path) -> Iterator[str]:
    """Yield the parts of every module that a file imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")


def test_what_rooms_share_imports_none() -> None:
    for path in sorted((PACKAGE / "operators" / "_shared").glob("*.py")):
        assert not set(imported_rooms(path)) & ROOMS, path
