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
from dmlax_conformance.oracle.nonzero import nonzero_coordinates
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.runner import run as runner

PATH = vectors_dir() / "nonzero_coordinates" / "core" / "huge.json"


def test_they_have_more_elements_than_a_signed_number_counts(huge: list[Vector]) -> None:
    assert huge
    for vector in huge:
        x = vector.inputs["InputTensor"]
        assert tensors.count(x.sizes) > 2**31
        assert vector.memory >= 2 * tensors.count(x.sizes)
        assert x.words == ()


@pytest.mark.parametrize("name", ["dmlax", "oracle"])
def test_nothing_is_made_where_it_is_too_much(
    name: str, huge: list[Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "case_of", lambda *_, **__: pytest.fail("it was made"))
    for result in runner.run(adapters.start(name), huge, ["eager"]):
        stated = f"needs {result.vector.memory} bytes, more than {1 << 30}; {limits.MEMORY}"
        assert result.verdict == "unsupported"
        assert result.outcome.details[0].startswith(stated if name == "dmlax" else "needs large")


@pytest.mark.parametrize("name", ["dmlax", "numpy"])
def test_a_sparse_input_arrives(name: str, huge: list[Vector]) -> None:
    """The same vector with 2^31 taken off its sizes and places."""
    vector = next(vector for vector in huge if len(vector.inputs["InputTensor"].sizes) == 3)
    x, sizes, places = vector.inputs["InputTensor"], (100, 3, 7), (0, 6, 7, 700, 2099)
    assert isinstance(x.made_by, Sparse)
    assert isinstance(vector.expect, dict)
    sparse = replace(x, sizes=sizes, made_by=x.made_by._replace(places=places))
    words = tuple(int(n) for place in places for n in np.unravel_index(place, sizes))
    rows = replace(vector.expect["OutputCoordinatesTensor"], words=words)
    wrong = replace(vector, id="wrong", inputs={"InputTensor": sparse}, memory=2 * 2100)
    right = replace(wrong, expect={**vector.expect, "OutputCoordinatesTensor": rows})
    with adapters.started(name) as adapter:
        results = list(runner.run(adapter, [right, wrong], ["eager"]))
    assert [result.verdict for result in results] == ["exact", "fail"]


def test_the_oracle_reads_the_places_off_the_recipe() -> None:
    dense = np.zeros((3, 4, 5), np.uint8)
    places, values = (0, 19, 20, 33, 59), (1, 0, 2, 3, 255)
    dense.reshape(-1)[list(places)] = values
    sparse = tensors.sparse("uint8", (3, 4, 5), Sparse(places, values))
    assert (tensors.to_numpy(sparse) == dense).all()
    rows = nonzero_coordinates(tensors.from_numpy(dense), 3)
    assert nonzero_coordinates(sparse, 3) == rows == [*map(tuple, np.argwhere(dense).tolist())]


def recipe(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda tensor: tensor["recipe"].update(changes)


REFUSED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "places that repeat": recipe(places=[0, 5, 5, 6, 7]),
    "places that descend": recipe(places=[0, 6, 5, 7, 8]),
    "a place beyond the sizes": recipe(places=[0, 1, 2, 3, 2**31 + 65536]),
    "fewer values": recipe(values=[1, 2, 3, 4]),
    "a value beyond the type": recipe(values=[1, 2, 3, 4, 256]),
    "a digest": lambda tensor: tensor.update(sha256="0" * 64),
    "sizes of no array": lambda tensor: tensor.update(sizes=[2**40, 2**40]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_recipe_is_refused(name: str, tmp_path: Path) -> None:
    value = vectors.parse(PATH.read_text())
    REFUSED[name](value["vectors"][0]["inputs"]["InputTensor"])
    (tmp_path / PATH.name).write_text(json.dumps(value))
    with pytest.raises(Malformed) as caught:
        vectors.load(tmp_path / PATH.name)
    assert caught.value.position.startswith("/vectors/0")


@pytest.mark.parametrize("form", ["json", "onnx"])
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
    with adapters.started(name, 300.0) as adapter:
        results = list(runner.run(adapter, huge, ["eager"]))
    assert {result.verdict for result in results} == {"exact"}
