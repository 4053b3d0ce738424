"""Value classes and structures of NONZERO_COORDINATES; the elements are those of the input."""

from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...format.tensors import DTYPES, to_numpy
from ...format.vectors import Vector
from .._shared.cross import ELEMENTS, Array, Cross, Meeting, beyond, each_at, impossible, registers
from .meaning import effective_rank, is_nonzero


class View:
    """The parts of a call that predicates read; every array has the input's elements, flat."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        self.tensor = vector.inputs["InputTensor"]
        self.sizes, self.dtype = self.tensor.sizes, self.tensor.dtype
        self.rank = len(self.sizes)
        self.width = vector.outputs["OutputCoordinatesTensor"].sizes[-1]
        self.count = prod(self.sizes)
        self.index = np.arange(self.count)
        self.columns = self.sizes[-1]
        self.place = self.index % max(self.columns, 1)  # in a row

    @property
    def kind(self) -> str:
        """`int` or `uint`; of floats `bits`."""
        return DTYPES[self.dtype].kind

    @cached_property
    def x(self) -> Array:
        """The input."""
        return to_numpy(self.tensor).reshape(-1)

    @cached_property
    def found(self) -> Array:
        """A mask of the elements that are not zero."""
        return np.array([is_nonzero(word, self.dtype) for word in self.tensor.words], bool)

    @cached_property
    def neighbours(self) -> tuple[Array, Array]:
        """Masks of the elements whose neighbour before or after is not zero; the ends have none."""
        around = np.concatenate([[False], self.found, [False]])
        return around[:-2], around[2:]


def _of(*kinds: str) -> Any:
    """Make predicates of values hold for these kinds of data type only."""
    return lambda test: lambda view: view.kind in kinds and test(view)


_of_floats, _of_integers = _of("bits"), _of("int", "uint")
_of_signed, _of_unsigned = _of("int"), _of("uint")

OF_FLOATS: dict[str, Any] = {
    name: _of_floats(test)
    for name, test in {
        "minus zero": lambda view: (view.x == 0) & np.signbit(view.x),
        "subnormal": lambda view: view.found & (np.abs(view.x) < np.finfo(view.x.dtype).tiny),
        "largest finite": lambda view: np.abs(view.x) == np.finfo(view.x.dtype).max,
        "plus infinity": lambda view: view.x == np.inf,
        "minus infinity": lambda view: view.x == -np.inf,
        "NaN": lambda view: view.x != view.x,
    }.items()
}
OF_INTEGERS: dict[str, Any] = {
    "largest integer": _of_integers(lambda view: view.x == DTYPES[view.dtype].high),
    "smallest integer": _of_signed(lambda view: view.x == DTYPES[view.dtype].low),
    "minus one": _of_signed(lambda view: view.x == -1),
    "top bit alone": _of_unsigned(lambda view: view.x == DTYPES[view.dtype].high // 2 + 1),
    "even integer": _of_integers(lambda view: view.found & (view.x % 2 == 0)),
}
OF_FOUND: dict[str, Any] = {
    "one": lambda view: view.x == 1,
    "first of a row": lambda view: view.found & (view.place == 0),
    "last of a row": lambda view: view.found & (view.place == view.columns - 1),
    "found alone": lambda view: view.found & ~view.neighbours[0] & ~view.neighbours[1],
    "found within a run": lambda view: view.found & view.neighbours[0] & view.neighbours[1],
}
CLASSES: dict[str, Any] = {
    **OF_FLOATS,
    **OF_INTEGERS,
    **OF_FOUND,
    "zero": lambda view: np.array([word == 0 for word in view.tensor.words], bool),
    "zero between others": lambda view: ~view.found & view.neighbours[0] & view.neighbours[1],
}


def _at_rank(rank: int) -> Any:
    return lambda view: view.rank == rank


def _varies_at_rank(rank: int) -> Any:
    return lambda view: view.rank == rank and min(view.sizes) > 1


def _has_one_within(view: View) -> bool:
    """Return whether a size of 1 is between others."""
    kept = view.sizes[view.rank - effective_rank(view.sizes) :]
    return 1 in kept[:-1]


def _is_type(dtype: str) -> Any:
    return lambda view: view.dtype == dtype


FLOATS = ("float16 input", "float32 input")
UNSIGNED = ("uint8 input", "uint16 input", "uint32 input")
SIGNED = ("int8 input", "int16 input", "int32 input")
TAILS, ALL, NONE = "a row: after whole vectors of *", "every element is found", "none is found"
STRUCTURES: dict[str, Any] = {
    "fewer than 8 elements": lambda view: view.count < 8,
    **beyond("elements", lambda view: view.index, (8, 16, 32, 64, 128, 256, 1000)),
    **registers("elements", lambda view: view.index, lambda view: view.count, (8, 16, 32, 64)),
    **registers(
        "a row",
        lambda view: view.place,
        lambda view: view.columns * (view.rank > 1),
        (8, 16, 32, 64),
    ),
    **{f"rank {rank}": _at_rank(rank) for rank in range(1, 9)},
    **{f"rank {rank}, every axis varies": _varies_at_rank(rank) for rank in range(3, 9)},
    "a size of 1 within": _has_one_within,
    "fewer columns than axes": lambda view: view.width < view.rank,
    "columns of leading sizes of 1": lambda view: view.width > effective_rank(view.sizes) > 0,
    ALL: lambda view: view.count > 1 and view.found.all(),
    NONE: lambda view: view.count > 1 and not view.found.any(),
    **{name: _is_type(name.removesuffix(" input")) for name in (*UNSIGNED, *SIGNED, *FLOATS)},
}

ROWS = ("nonzero-axes-reversed", "nonzero-flat-index", "nonzero-sizes-reversed")
COUNTS = ("nonzero-count-distinct", "nonzero-count-times-width")
BUGS_OF_FLOATS = ("nonzero-nan-*", "nonzero-infinity-*", "nonzero-minus-*")
BUGS_OF_INTEGERS = ("nonzero-lowest-*", "nonzero-top-*", "nonzero-odd-*")
IMPOSSIBLE = {
    **impossible(
        "floats have them",
        *each_at((*OF_FLOATS, *BUGS_OF_FLOATS), (*UNSIGNED, *SIGNED)),
    ),
    **impossible(
        "integers have them",
        *each_at((*OF_INTEGERS, *BUGS_OF_INTEGERS), FLOATS),
    ),
    **impossible(
        "integers with a sign have them",
        *each_at(("smallest integer", "minus one"), UNSIGNED),
        *each_at(("nonzero-lowest-*", "nonzero-positive-only"), UNSIGNED),
    ),
    **impossible(
        "integers without a sign have them",
        *each_at(("top bit alone", "nonzero-top-*"), SIGNED),
    ),
    **impossible("the first of a row is before its tail", ("first of a row", TAILS)),
    **impossible(
        "every element is another",
        *each_at(("zero", "minus zero", "zero between others", "found alone"), (ALL,)),
        *each_at(("nonzero-minus-zero-is-found", "nonzero-count-elements"), (ALL,)),
    ),
    **impossible(
        "every element is a zero",
        *each_at((*(set(OF_FLOATS) - {"minus zero"}), *OF_INTEGERS, *OF_FOUND), (NONE,)),
        *each_at(("zero between others", *BUGS_OF_INTEGERS, *ROWS, *COUNTS), (NONE,)),
        *each_at(("nonzero-nan-*", "nonzero-infinity-*", "nonzero-positive-only"), (NONE,)),
        *each_at(("nonzero-only-ones", "nonzero-one-based", "nonzero-count-from-*"), (NONE,)),
    ),
    **impossible(
        "a row of one column is the index, and all are distinct",
        *each_at((*ROWS, *COUNTS), ("rank 1",)),
    ),
}
OF_ITS_OWN = (
    *("nonzero-last-*-axes", "nonzero-coordinates-in-*", "nonzero-index-in-*"),
    *("nonzero-count-in-*", "nonzero-count-saturates-*", "nonzero-count-at-least-1"),
    *("nonzero-count-never-full", "nonzero-left-aligned", "nonzero-squeezed", "nonzero-first-axes"),
)
MEETING = Meeting(
    ("zero", "last of a row", "found within a run"),
    ("* input", "rank [2-8]", "fewer columns *"),
    ELEMENTS,
)
CROSS: Cross[View] = Cross(View, CLASSES, STRUCTURES, IMPOSSIBLE, OF_ITS_OWN, MEETING)
