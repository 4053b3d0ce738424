"""The coverage matrix of an operator: every equivalence class at every structure of its calls.

Both are predicates over the elements of a valid call. A vector covers a pair if an element is in
the class and at the structure. A mutant "at one structure" is wrong on the elements there only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.format.vectors import Request, Vector

Array = npt.NDArray[Any]
Predicates = Mapping[str, Callable[[Any], Any]]  # a truth value, or one for each element
Pair = tuple[str, str]  # an equivalence class or a mutant, and a structure
LARGEST = 10_000  # elements of a call that counts


@dataclass(frozen=True)
class CoverageMatrix:
    """The equivalence classes and structures of an operator.

    `view` turns a vector into what the predicates read; `count` of a view is its elements.
    `impossible` has the reasons of pairs of patterns, of a class or mutant and of a structure.
    `whole` are patterns of mutants that are not wrong in single elements.
    """

    view: Callable[[Vector], Any]
    classes: Predicates
    structures: Predicates
    impossible: Mapping[Pair, str] = field(default_factory=dict)
    whole: Sequence[str] = ()

    def pairs(self) -> set[Pair]:
        """Return the pairs that vectors must cover."""
        every = product(self.classes, self.structures)
        return {pair for pair in every if self.why_not(*pair) is None}

    def covered(self, vector: Vector) -> set[Pair]:
        """Return the pairs that a vector covers."""
        view = self.view(vector)
        found = _meet(masks(self.classes, view), masks(self.structures, view))
        names, places = list(self.classes), list(self.structures)
        return {(names[one], places[two]) for one, two in np.argwhere(found)}

    def at_structures(self, vector: Vector) -> Array:
        """Return for each structure, in order, which elements are there."""
        return masks(self.structures, self.view(vector))

    def why_not(self, name: str, structure: str) -> str | None:
        """Return why an equivalence class or a mutant cannot be at a structure, if so."""
        for (pattern, at), reason in self.impossible.items():
            if fnmatchcase(name, pattern) and fnmatchcase(structure, at):
                return reason
        return None


def counted(vector: Vector) -> Request | Tensor:
    """Return the output whose elements count, or the input if they are those of an input."""
    return vector.outputs.get("OutputTensor") or vector.inputs["InputTensor"]


def takes_part(vector: Vector) -> bool:
    """Return whether a vector is a call whose elements count."""
    is_call = vector.is_valid and vector.desc is None and not vector.memory
    return is_call and prod(counted(vector).sizes) <= LARGEST


def masks(predicates: Predicates, view: Any) -> Array:
    """Return one row for each predicate: on which elements it holds."""
    rows = [np.asarray(test(view), bool).reshape(-1) for test in predicates.values()]
    return np.stack([np.broadcast_to(row, (view.count,)) for row in rows])


def _meet(masks: Array, others: Array) -> Array:
    """Return which masks and others hold on a common element."""
    rows, columns = (np.packbits(each, axis=1) for each in (masks, others))
    return np.array([(columns & row).any(axis=1) for row in rows])


def impossible(lines: Iterable[str]) -> dict[Pair, str]:
    """Return the reasons of pairs; a line is patterns, "at", patterns, a colon and the reason."""
    found: dict[Pair, str] = {}
    for line in lines:
        names, rest = line.split(" at ", 1)
        places, reason = rest.rsplit(": ", 1)
        found |= dict.fromkeys(product(names.split(" | "), places.split(" | ")), reason)
    return found
