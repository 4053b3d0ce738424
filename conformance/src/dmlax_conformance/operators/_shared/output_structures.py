"""Structures of the elements of an output: their number, rows and ranks, and exact quotients."""

from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...format.vectors import Vector
from . import floats, value_classes
from .call_rules import Attributes, Inputs, Outputs
from .cross import Array, beyond, registers
from .floats import Real

Quotients = Callable[[Attributes, Inputs, Outputs], Sequence[tuple[Real, int]]]


class OutputView:
    """The parts of a call that predicates read; an index has an entry for each output element."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        self.vector = vector
        self.sizes = vector.outputs["OutputTensor"].sizes
        self.count = prod(self.sizes)
        self.index = np.arange(self.count)

    @property
    def columns(self) -> int:
        """The number of elements in a row."""
        return self.sizes[-1] if self.sizes else 1

    @property
    def output(self) -> str:
        """The data type of the output."""
        return self.vector.outputs["OutputTensor"].dtype

    @cached_property
    def expected(self) -> Array:
        """The words of the output."""
        expect: Any = self.vector.expect
        return np.array(expect["OutputTensor"].words, np.int64)

    def dtype(self, name: str) -> str:
        """Return the data type of an input or of the output."""
        given: Any = {**self.vector.inputs, **self.vector.outputs}
        dtype: str = given[name].dtype
        return dtype

    def length(self, name: str) -> int:
        """Return how many elements a parameter has; an absent one has none."""
        given = self.vector.inputs.get(name)
        return 0 if given is None else len(given.words)


class QuotientView(OutputView):
    """Exact quotients, with the zero points that are added to them once they are rounded."""

    quotients_of: Quotients

    @cached_property
    def quotients(self) -> list[tuple[Real, int]]:
        """The quotient and the zero point of each element."""
        given = self.vector
        return list(type(self).quotients_of(given.attributes, given.inputs, given.outputs))

    @cached_property
    def classes(self) -> dict[str, Array]:
        """The classes of the quotients."""
        distinct = list(dict.fromkeys(self.quotients))
        reals = [quotient for quotient, _ in distinct]
        points = np.array([point for _, point in distinct])
        found = value_classes.of_quotients(reals, points, self.output)
        found |= {f"near tie in {dtype}": misleads(reals, dtype) for dtype in NEAR}
        places = {each: place for place, each in enumerate(distinct)}
        own = np.array([places[each] for each in self.quotients], np.int64)
        return {name: mask[own] for name, mask in found.items()}


NEAR = ("float32", "float64")


def misleads(quotients: Sequence[Real], dtype: str) -> Array:
    """Return which quotients, rounded to a float type first, come to another integer."""
    found = value_classes.near_ties(quotients)
    for index in map(int, np.flatnonzero(found)):
        exact = quotients[index]
        rounded = floats.round_half_even(floats.nearest(exact, dtype).value)
        found[index] = rounded != floats.round_half_even(exact.value)
    return found


def _in(name: str) -> Any:
    return lambda view: view.classes[name]


QUOTIENTS: dict[str, Any] = {
    name: _in(name)
    for name in (*value_classes.QUOTIENTS, *(f"near tie in {dtype}" for dtype in NEAR))
}
ELEMENTS: dict[str, Any] = {
    "fewer than 8 elements": lambda view: view.count < 8,
    **beyond("elements", lambda view: view.index, (8, 16, 32, 64, 128, 256)),
    **registers("elements", lambda view: view.index, lambda view: view.count, (8, 16, 32, 64)),
    **registers(
        "a row",
        lambda view: view.index % view.columns,
        lambda view: view.columns * (len(view.sizes) > 1),
        (8, 16, 32),
    ),
}


def at_ranks(ranks: Sequence[int]) -> dict[str, Any]:
    """Return a structure for each rank of the output."""
    return {f"rank {rank}": (lambda view, rank=rank: len(view.sizes) == rank) for rank in ranks}


TYPES: dict[str, Any] = {
    f"{dtype} output": (lambda view, dtype=dtype: view.output == dtype)
    for dtype in ("int8", "uint8")
}
