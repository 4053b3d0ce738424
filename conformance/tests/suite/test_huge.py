"""Vectors that need gigabytes are described, and made only where they are allowed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlax_conformance import adapters, cli
from dmlax_conformance.errors import Malformed
from dmlax_conformance.format import limits, tensors, vectors
from dmlax_conformance.format.recipe import Sparse
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators.nonzero_coordinates.meaning import nonzero_coordinates
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.suite import lint, runner

PATH = "nonzero_coordinates/huge.json"
Edit = Callable[[dict[str, Any]], Any]


def test_they_have_more_elements_than_a_signed_number_counts(huge: list[Vector]) -> None:
    assert huge
    for vector in huge:
        x = vector.inputs["InputTensor"]
        assert tensors.count(x.sizes) > 2**31
        assert vector.memory >= 2 * tensors.count(x.sizes)
        assert x.words == ()


@pytest.mark.parametrize("name", ["dmlax", "numpy", "oracle", "zeros"])
def test_nothing_is_made_where_it_is_too_much(
    name: str, huge: list[Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "case_of", lambda vector: pytest.fail("it was made"))
    for result in runner.run(adapters.start(name), huge, ["eager"]):
        assert result.verdict == "unsupported"
        reason = result.outcome.details[0]
        is_able = "large" in getattr(adapters.start(name), "capabilities", ())
        stated = f"needs {result.vector.memory} bytes, more than {1 << 30}; {limits.MEMORY}"
        assert stated in reason if is_able else reason == "needs large"


def small(vector: Vector) -> Vector:
    """Return the same vector with 2^31 taken off its sizes and places."""
    x = vector.inputs["InputTensor"]
    sizes, places = (100, 3, 7), (0, 6, 7, 700, 2099)
    assert isinstance(x.made_by, Sparse)
    sparse = replace(x, sizes=sizes, made_by=x.made_by._replace(places=places))
    words = tuple(int(n) for place in places for n in np.unravel_index(place, sizes))
    assert isinstance(vector.expect, dict)
    expect = {
        k: replace(v, words=words if k.endswith("sTensor") else v.words)
        for k, v in vector.expect.items()
    }
    return replace(vector, inputs={"InputTensor": sparse}, expect=expect, memory=2 * 2100)


@pytest.mark.parametrize("name", ["dmlax", "numpy"])
def test_a_sparse_input_arrives(name: str, huge: list[Vector]) -> None:
    vector = next(vector for vector in huge if len(vector.inputs["InputTensor"].sizes) == 3)
    (result,) = runner.run(adapters.start(name), [small(vector)], ["eager"])
    assert result.verdict == "exact"
    wrong = replace(small(vector), expect=vector.expect)
    (result,) = runner.run(adapters.start(name), [wrong], ["eager"])
    assert result.verdict == "fail"


def test_the_oracle_reads_the_places_off_the_recipe() -> None:
    dense = np.zeros((3, 4, 5), np.uint8)
    places = (0, 19, 20, 33, 59)
    dense.reshape(-1)[list(places)] = (1, 0, 2, 3, 255)
    sparse = tensors.sparse("uint8", (3, 4, 5), Sparse(places, (1, 0, 2, 3, 255)))
    assert (tensors.to_numpy(sparse) == dense).all()
    rows = nonzero_coordinates(tensors.from_numpy(dense), 3)
    assert nonzero_coordinates(sparse, 3) == rows == [*map(tuple, np.argwhere(dense).tolist())]


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Edit], Path]:
    """Return a function that copies the file, changes its first vector, and returns the folder."""

    def write(edit: Edit) -> Path:
        value = vectors.parse((vectors_dir() / PATH).read_text())
        edit(value["vectors"][0])
        (tmp_path / PATH).parent.mkdir()
        (tmp_path / PATH).write_text(json.dumps(value))
        return tmp_path

    return write


def recipe(**changes: Any) -> Edit:
    return lambda vector: vector["inputs"]["InputTensor"]["recipe"].update(changes)


REFUSED: dict[str, Edit] = {
    "places that repeat": recipe(places=[0, 5, 5, 6, 7]),
    "places that descend": recipe(places=[0, 6, 5, 7, 8]),
    "a place beyond the sizes": recipe(places=[0, 1, 2, 3, 2**31 + 65536]),
    "fewer values": recipe(values=[1, 2, 3, 4]),
    "a value beyond the type": recipe(values=[1, 2, 3, 4, 256]),
    "a digest": lambda v: v["inputs"]["InputTensor"].update(sha256="0" * 64),
    "sizes of no array": lambda v: v["inputs"]["InputTensor"].update(sizes=[2**40, 2**40]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_recipe_is_refused(name: str, changed: Callable[[Edit], Path]) -> None:
    with pytest.raises(Malformed) as caught:
        vectors.load_all(changed(REFUSED[name]))
    assert caught.value.position.startswith("/vectors/0")


LINT: dict[str, Edit] = {
    "go together": lambda vector: vector.pop("memory"),
    "fewer than its inputs": lambda vector: vector.update(memory=2**31),
}


@pytest.mark.parametrize("message", LINT)
def test_lint_wants_the_memory_stated(message: str, changed: Callable[[Edit], Path]) -> None:
    assert any(message in line for line in lint.problems(changed(LINT[message])))


@pytest.mark.parametrize("form", ["json", "onnx", "dxdispatch"])
def test_no_export_has_them(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--format", form, "--output", str(tmp_path), "--flag", "Huge"]
    assert cli.main(["export", *arguments]) == 3
    assert "2: too large for a file" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dmlax", "numpy"])
def test_with_the_memory_they_are_exact(
    name: str, huge: list[Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Takes five gigabytes."""
    monkeypatch.setenv(limits.MEMORY, str(6 * 10**9))
    results = runner.run(adapters.start(name), huge, ["eager"])
    assert {result.verdict for result in results} == {"exact"}
