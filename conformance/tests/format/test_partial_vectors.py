"""A partial vector has the rest of its twin; a digest stands for elements."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import Malformed
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import ExpectedError, Vector
from dmlax_conformance.operators.answer import with_elements
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.reports import values
from dmlax_conformance.suite.adapter import Array, Case
from dmlax_conformance.suite.runner import judge

DIFFERS = "OutputTensor: the digest of its elements differs; a report shows which"
REFUSALS = ("matrix_multiply_integer/invalid.json", "max_pooling/desc-kills.json")


@pytest.mark.parametrize("path", REFUSALS)
def test_a_partial_vector_has_the_rest_of_its_twin(path: str) -> None:
    file = vectors.parse((vectors_dir() / path).read_text(encoding="utf-8"))
    partial = {value["id"]: value for value in file["vectors"] if "partial" in value}
    assert partial
    whole = {value["id"]: value for value in vectors.completed(file["vectors"])}
    for name, value in partial.items():
        base, own = whole[value["twin"]], whole[name]
        for part in vectors.PARTS:
            changed = value.get(part, {})
            kept = {} if "desc" in value and part != "desc" else base.get(part, {})
            assert own.get(part, {}) == {**kept, **changed}
            assert all(base[part].get(key) != each for key, each in changed.items())


@pytest.mark.parametrize("twin", ["nowhere", "a partial vector"])
def test_a_twin_is_a_whole_vector_of_the_file(twin: str, tmp_path: Path) -> None:
    file = json.loads((vectors_dir() / REFUSALS[0]).read_text(encoding="utf-8"))
    one, two, *_ = (value for value in file["vectors"] if "partial" in value)
    one["twin"] = two["id"] if twin == "a partial vector" else twin
    path = tmp_path / "matrix_multiply_integer" / "invalid.json"
    path.parent.mkdir()
    path.write_text(json.dumps(file))
    with pytest.raises(Malformed, match="no whole vector"):
        vectors.load(path)


class Changed(Oracle):
    """Answers rightly but for one element."""

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Change the last element."""
        found = {name: np.array(array) for name, array in super().run(case, variant).items()}
        found["OutputTensor"].reshape(-1)[-1] ^= 1
        return found


def digested() -> Vector:
    every = vectors.load(vectors_dir() / "matrix_multiply_integer" / "large-pairs-1.json")
    return next(vector for vector in every if vector.has_digests)


def test_a_digest_stands_for_elements() -> None:
    vector = digested()
    assert not isinstance(vector.expect, ExpectedError)
    assert vector.expect["OutputTensor"].words == ()
    known: Any = with_elements(vector).expect
    assert len(known["OutputTensor"].words) == np.prod(known["OutputTensor"].sizes)
    assert judge(Oracle(), vector, "eager").verdict == "exact"
    outcome = judge(Changed(), vector, "eager")
    assert (outcome.verdict, *outcome.details) == ("fail", DIFFERS)
    last = len(known["OutputTensor"].words) - 1
    assert values.differing(vector, outcome.answer) == {"OutputTensor": [last]}
    (first,) = values.first_differing(vector, outcome.answer)["OutputTensor"]
    assert first["index"] == last


def test_the_oracle_makes_no_elements_of_other_files(tmp_path: Path) -> None:
    vector = replace(digested(), file=tmp_path / "large.json")
    assert with_elements(vector) is vector
    assert judge(Oracle(), vector, "eager").verdict == "exact"
    outcome = judge(Changed(), vector, "eager")
    assert (outcome.verdict, *outcome.details) == ("fail", DIFFERS)
