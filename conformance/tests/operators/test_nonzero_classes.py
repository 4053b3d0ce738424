"""The elements that a planted bug of nonzero coordinates gets wrong, and those of a class."""

from typing import NamedTuple

import numpy as np
import pytest

from dmlax_conformance.format.tensors import Tensor, from_numpy
from dmlax_conformance.format.vectors import Request
from dmlax_conformance.operators.nonzero_coordinates import bugs
from dmlax_conformance.operators.nonzero_coordinates.structures import CLASSES, STRUCTURES, View
from dmlax_conformance.suite.bugs.catalogue import catalogue
from dmlax_conformance.suite.bugs.steps import Call

X = np.array([[0, np.nan, 3, -0.0, 1], [5, 6, 7, 0, np.inf]], np.float32)


class Asking(NamedTuple):
    """The tensors of a vector."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Request]


OUTPUTS = {
    "OutputCountTensor": Request("uint32", (1, 1)),
    "OutputCoordinatesTensor": Request("uint32", (10, 2)),
}


@pytest.mark.parametrize(
    ("bug", "places"),
    [
        ("nan-is-zero", [1]),
        ("minus-zero-is-found", [3]),
        ("only-ones", [1, 2, 5, 6, 7, 9]),
        ("one-based", [1, 2, 4, 5, 6, 7, 9]),
        ("axes-reversed", [1, 2, 4, 5, 7, 9]),  # but for the one at (1, 1)
        ("count-plus-1", [*range(10)]),
    ],
)
def test_where_a_bug_is_wrong(bug: str, places: list[int]) -> None:
    parts = catalogue()[f"nonzero-{bug}"].implementation.parts
    found = bugs.differing(parts, Call({}, {"InputTensor": X}, OUTPUTS))
    assert np.flatnonzero(found).tolist() == places


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("NaN", [1]),
        ("zero", [0, 8]),
        ("minus zero", [3]),
        ("plus infinity", [9]),
        ("first of a row", [5]),
        ("last of a row", [4, 9]),
        ("found alone", [9]),
        ("found within a run", [5, 6]),
        ("zero between others", [3, 8]),
        ("smallest integer", []),
        ("a row: in whole vectors of 8", []),
        ("rank 2", [*range(10)]),
        ("elements beyond 8", [8, 9]),
        ("none is found", []),
    ],
)
def test_elements_of_a_class_or_a_structure(name: str, places: list[int]) -> None:
    view = View(Asking({"InputTensor": from_numpy(X)}, OUTPUTS))  # type: ignore[arg-type]
    found = np.broadcast_to(np.asarray({**CLASSES, **STRUCTURES}[name](view), bool), (10,))
    assert np.flatnonzero(found).tolist() == places
