"""Structures of a call of a matrix product, and its sums."""

from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...format.tensors import to_numpy
from ...format.vectors import Vector
from .convolution_structures import MANY, has, wrapped
from .cross import Array, beyond, registers
from .matmul import repeat, shape_of
from .output_structures import OutputView

A, B = "ATensor", "BTensor"
A_POINT, B_POINT, BIAS = "AZeroPointTensor", "BZeroPointTensor", "BiasTensor"
OUTPUT_POINT = "OutputZeroPointTensor"
A_SCALE, B_SCALE, OUTPUT_SCALE = (f"{name}ScaleTensor" for name in ("A", "B", "Output"))


class MatmulView(OutputView):
    """The parts of a call that predicates read; an index has an entry for each sum."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector; `sizes` are the matrices, the rows and the columns."""
        super().__init__(vector)
        given = vector.inputs
        self.ranks = len(given[A].sizes), len(given[B].sizes)
        self.shape = shape_of(given[A].sizes, given[B].sizes)
        self.sizes = prod(self.shape.batch), *self.shape.whole[-2:]
        self.products = self.shape.a[-1]
        self.matrix, self.row, self.column = (each.reshape(-1) for each in np.indices(self.sizes))

    def each(self, name: str) -> Array:
        """Return the words of a parameter for each sum; a missing one is 0."""
        sizes = self.shape.output if name == BIAS else self.shape.whole
        return np.array(repeat(self.vector.inputs.get(name), sizes), np.int64)

    def centred(self, name: str) -> Array:
        """Return an operand without its zero point."""
        sizes = self.shape.a if name == A else self.shape.b
        points = repeat(self.vector.inputs.get(name.replace("Tensor", "ZeroPointTensor")), sizes)
        values = to_numpy(self.vector.inputs[name]).astype(np.int64).reshape(sizes)
        return values - np.array(points, np.int64).reshape(sizes)

    @cached_property
    def sums(self) -> Array:
        """The sums of products, in 32 bits."""
        return wrapped((self.centred(A) @ self.centred(B)).reshape(-1))


def _with_types(a: str, b: str) -> Any:
    return lambda view: (view.dtype(A), view.dtype(B)) == (a, b)


def repeats(label: str, name: str, is_optional: bool = True) -> dict[str, Any]:
    """Return whether a parameter is absent, one value, or several."""
    found = {f"no {label}": has(name, 0)} if is_optional else {}
    return {**found, f"one {label}": has(name, 1), f"{label}s": has(name, 2, MANY)}


EIGHT = ("int8", "uint8")
STRUCTURES: dict[str, Any] = {
    "one row": lambda view: view.sizes[1] == 1,
    "one column": lambda view: view.sizes[2] == 1,
    "A of rank 1": lambda view: view.ranks[0] == 1,
    "B of rank 1": lambda view: view.ranks[1] == 1,
    "both of rank 2": lambda view: view.ranks == (2, 2),
    "both of rank 3": lambda view: view.ranks == (3, 3),
    "rank 4 and more": lambda view: max(view.ranks) >= 4,
    "A repeats": lambda view: prod(view.shape.a[:-2]) < view.sizes[0],
    "B repeats": lambda view: prod(view.shape.b[:-2]) < view.sizes[0],
    **beyond("columns", lambda view: view.column, (1, 2, 4, 8, 16, 32, 64, 128)),
    **beyond("rows", lambda view: view.row, (1, 2, 4, 8, 16, 32, 64)),
    **beyond("matrices", lambda view: view.matrix, (1, 2, 4, 8)),
    **registers("columns", lambda view: view.column, lambda view: view.sizes[2], (8, 16, 32, 64)),
    **registers("rows", lambda view: view.row, lambda view: view.sizes[1], (8, 16)),
    "one product": lambda view: view.products == 1,
    "products by fours": lambda view: view.products % 4 == 0,
    "products not by fours": lambda view: view.products % 4 != 0,
    **{
        f"more than {count} products": (lambda view, count=count: view.products > count)
        for count in (8, 32, 64, 256)
    },
    **{f"{a} A, {b} B": _with_types(a, b) for a in EIGHT for b in EIGHT},
    **repeats("zero point of A", A_POINT),
    **repeats("zero point of B", B_POINT),
}
