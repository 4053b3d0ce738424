"""What several tests share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import vectors
from dmlax_conformance.locations import vectors_dir
from dmlax_conformance.vectors import Vector

Edit = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="session")
def suite() -> list[Vector]:
    return vectors.load_all()


@pytest.fixture
def good() -> str:
    """Return a file with nothing wrong in it, relative to the vectors folder."""
    return "nonzero_coordinates/integers.json"


@pytest.fixture
def edited(tmp_path: Path, good: str) -> Callable[[Edit], Path]:
    """Return a function that copies a good file, changes it, and returns its folder."""

    def write(edit: Edit) -> Path:
        value = vectors.parse((vectors_dir() / good).read_text())
        edit(value)
        path = tmp_path / good
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(value))
        return tmp_path

    return write
