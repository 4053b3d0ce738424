"""Imports point one way, and the suite needs neither JAX nor the library under test."""

import ast
import graphlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import dmlax_conformance
from dmlax_conformance.paths import vectors_dir

PACKAGE = Path(dmlax_conformance.__file__).parent
GRADING = PACKAGE.parents[1] / "grading"
LAYERS = {
    **dict.fromkeys(("errors", "exit_codes", "options", "paths"), 0),
    **dict.fromkeys(("terminal", "texts"), 0),
    "format": 1,
    "oracle": 2,
    "runner": 3,
    "models": 4,
    "adapters": 5,
    "reports": 6,
    **dict.fromkeys(("cli", "models_command", "__main__"), 7),
    **dict.fromkeys(("pytest_plugin", "pytest_vectors"), 7),
}

FEW_PACKAGES = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        assert root not in ("jax", "jaxlib", "dmlax", "grading"), f"imports {name}"
        if root in ("rich", "onnx", "onnxruntime", "torch"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
from dmlax_conformance import cli
import dmlax_conformance.adapters.dmlax

QUICK = ("--operator", "convolution_integer", "--flag", "Groups")
assert cli.main(["run", "--implementation", "oracle", *QUICK]) == 0
assert cli.main(["models", "--implementation", "oracle", "--model", "products"]) == 0
assert cli.main(["list", "--vectors", sys.argv[1]]) == 3
"""


def test_numpy_and_jsonschema_are_enough(tmp_path: Path) -> None:
    """Foreign files are checked by their schema, too."""
    name = "convolution_integer/core/sums.json"
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text((vectors_dir() / name).read_text().replace('"rev": 1,', '"rev": "1",', 1))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FEW_PACKAGES, str(tmp_path)],
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{path}:/vectors/0/rev: '1' is not of type integer" in done.stderr


def imported(file: Path, package: Path) -> Iterator[str]:
    """Yield the dotted name of every module of the suite that a file imports."""
    parents = [package.name, *file.relative_to(package).parts[:-1]]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("name", LAYERS)
def test_imports_point_downward(name: str) -> None:
    file = PACKAGE / f"{name}.py"
    files = [file] if file.exists() else sorted((PACKAGE / name).rglob("*.py"))
    assert files
    for path in files:
        parts = [found.split(".") for found in imported(path, PACKAGE)]
        assert "grading" not in {part[0] for part in parts}, path
        inside = {part[1] for part in parts if part[0] == PACKAGE.name and len(part) > 1}
        assert not {other for other in inside if LAYERS.get(other, 0) > LAYERS[name]}, path


def test_every_module_has_a_layer() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"__init__", "__pycache__"} == LAYERS.keys()


@pytest.mark.parametrize("package", [PACKAGE, GRADING], ids=lambda package: package.name)
def test_no_import_leads_in_a_circle(package: Path) -> None:
    """Modules that `__init__` imports do not import from `__init__`."""
    modules = {
        ".".join((package.name, *file.relative_to(package).with_suffix("").parts)): file
        for file in package.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): file for name, file in modules.items()}
    arrows = dict[str, set[str]]()
    for name, file in modules.items():
        others = list(imported(file, package))
        wholes = {other.rpartition(".")[0] for other in others if other not in modules}
        arrows[name] = {*others, *wholes} & modules.keys() - {name}
    graphlib.TopologicalSorter(arrows).prepare()


def test_no_folder_has_more_than_15_files() -> None:
    files = Counter(path.parent for root in (PACKAGE, GRADING) for path in root.rglob("*.py"))
    assert {folder: count for folder, count in files.items() if count > 15} == {}
