"""Equivalence classes and structures of nonzero coordinates; the elements are the input's."""

from functools import cached_property
from typing import Any

import numpy as np

from dmlax_conformance.format.tensors import DTYPES, to_numpy
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle.nonzero import effective_rank, is_nonzero

from . import elements
from .elements import at_ranks
from .matrix import Array, CoverageMatrix


class NonzeroView(elements.OutputView):
    """The elements of the input, and which are found: they are not zero."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        self.tensor = vector.inputs["InputTensor"]
        self.type, self.x = DTYPES[self.tensor.dtype], to_numpy(self.tensor).reshape(-1)
        self.width = vector.outputs["OutputCoordinatesTensor"].sizes[-1]
        self.kept = self.sizes[len(self.sizes) - effective_rank(self.sizes) :]  # after sizes of 1
        words, dtype = self.tensor.words, self.tensor.dtype
        self.found = np.array([is_nonzero(word, dtype) for word in words], bool)

    @cached_property
    def beside(self) -> Array:
        """The number of non-zero neighbours, 0 to 2."""
        around = np.pad(self.found, 1).astype(int)
        return np.asarray(around[:-2] + around[2:])


def _of(*kinds: str, **tests: Any) -> dict[str, Any]:
    """Return predicates that hold for these kinds of data type only."""
    return {
        name.replace("_", " "): lambda view, test=test: view.type.kind in kinds and test(view)
        for name, test in tests.items()
    }


CLASSES: dict[str, Any] = {
    **_of(
        "bits",
        minus_zero=lambda view: (view.x == 0) & np.signbit(view.x),
        subnormal=lambda view: elements.is_subnormal(view.x),
        largest_finite=lambda view: np.abs(view.x) == np.finfo(view.x.dtype).max,
        plus_infinity=lambda view: view.x == np.inf,
        minus_infinity=lambda view: view.x == -np.inf,
        NaN=lambda view: view.x != view.x,
    ),
    **_of(
        *("int", "uint"),
        largest_integer=lambda view: view.x == view.type.high,
        even_integer=lambda view: view.found & (view.x % 2 == 0),
    ),
    **_of(
        "int",
        smallest_integer=lambda view: view.x == view.type.low,
        minus_one=lambda view: view.x == -1,
    ),
    **_of("uint", top_bit_alone=lambda view: view.x == view.type.high // 2 + 1),
    "one": lambda view: view.x == 1,
    "first of a row": lambda view: view.found & (view.index % view.columns == 0),
    "last of a row": lambda view: view.found & ((view.index + 1) % view.columns == 0),
    "found alone": lambda view: view.found & (view.beside == 0),
    "found within a run": lambda view: view.found & (view.beside == 2),
    "zero": lambda view: np.array(view.tensor.words) == 0,
    "zero between others": lambda view: ~view.found & (view.beside == 2),
}
STRUCTURES: dict[str, Any] = {
    **elements.ELEMENTS,
    **elements.along("elements", (1000,)),
    **elements.along("a row", (), (64,)),
    **at_ranks(range(1, 9)),
    **at_ranks(range(3, 9), "rank {}, every axis varies", elements.varies),
    "a size of 1 within": lambda view: 1 in view.kept[:-1],
    "fewer columns than axes": lambda view: view.width < len(view.sizes),
    "columns of leading sizes of 1": lambda view: view.width > len(view.kept) > 0,
    "every element is found": lambda view: view.count > 1 and view.found.all(),
    "none is found": lambda view: view.count > 1 and not view.found.any(),
    **elements.of_types("{} input", "InputTensor", dtypes=elements.FLOATS + elements.INTEGERS),
}
MATRICES = {"nonzero_coordinates": CoverageMatrix(NonzeroView, CLASSES, STRUCTURES)}
