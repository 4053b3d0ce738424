"""Cross coverage: every value class of an operator at every structure of its calls.

Both are predicates over the elements of a valid call, so that a pair is covered where an element
has both, and a bug "only at a structure" differs where the bug and the structure do.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ...format.vectors import Vector

Array = npt.NDArray[Any]
V = TypeVar("V")
Predicates = Mapping[str, Callable[[V], Any]]  # a truth value, or one for each element
Pair = tuple[str, str]  # a value class or a bug, and a structure
Triple = tuple[str, str, str]  # a value class, and two structures that meet
LARGEST = 10_000  # elements of a call that counts; larger ones are no sooner covered


@dataclass(frozen=True)
class Meeting:
    """Patterns of value classes, and of structures that have to meet where they are."""

    classes: tuple[str, ...]
    kinds: tuple[str, ...]  # data types, parameters and ranks
    places: tuple[str, ...]  # of elements
    apart: tuple[Pair, ...] = ()  # patterns of kinds and places that no call has together
    rare: Mapping[Triple, str] = field(default_factory=dict)  # patterns, and why


@dataclass(frozen=True)
class Cross(Generic[V]):
    """The value classes of an operator, its structures, and the pairs that cannot be, with why.

    `view` makes of a vector what the predicates read; it has as many elements as its `count` says.
    """

    view: Callable[[Vector], V]
    classes: Predicates[V]
    structures: Predicates[V]
    impossible: Mapping[Pair, str]  # by patterns of class or bug, and of structure
    whole: tuple[str, ...] = ()  # patterns of bugs that are no arithmetic, but structures
    meeting: Meeting | None = None

    def pairs(self) -> set[Pair]:
        """Return the pairs that have to be covered."""
        every = ((each, at) for each in self.classes for at in self.structures)
        return {pair for pair in every if self.why_not(*pair) is None}

    def covered(self, vector: Vector) -> set[Pair]:
        """Return the pairs that a vector has."""
        view = self.view(vector)
        meet = _meet(masks(self.classes, view), masks(self.structures, view))
        names, places = tuple(self.classes), tuple(self.structures)
        return {(names[each], places[at]) for each, at in np.argwhere(meet)}

    def triples(self) -> set[Triple]:
        """Return the value classes and pairs of structures that have to be covered together."""
        if self.meeting is None:
            return set()
        own = self.meeting
        every = product(
            _matching(self.classes, own.classes),
            _matching(self.structures, own.kinds),
            _matching(self.structures, own.places),
        )
        return {triple for triple in every if self._may_meet(own, triple)}

    def _may_meet(self, own: Meeting, triple: Triple) -> bool:
        name, kind, place = triple
        return (
            self.why_not(name, kind) is None
            and self.why_not(name, place) is None
            and not any(fnmatchcase(kind, a) and fnmatchcase(place, b) for a, b in own.apart)
            and not any(all(map(fnmatchcase, triple, each)) for each in own.rare)
        )

    def met(self, vector: Vector) -> set[Triple]:
        """Return the value classes and pairs of structures that a vector has together."""
        if self.meeting is None:
            return set()
        view, own = self.view(vector), self.meeting
        names = _matching(self.classes, own.classes)
        classes = masks({name: self.classes[name] for name in names}, view)
        kinds, places = (_matching(self.structures, each) for each in (own.kinds, own.places))
        at = masks({name: self.structures[name] for name in places}, view)
        found = set[Triple]()
        for kind in kinds:
            held = masks({kind: self.structures[kind]}, view)
            if held.any():
                meet = np.argwhere(_meet(classes & held, at))
                found |= {(names[each], kind, places[place]) for each, place in meet}
        return found

    def at_structures(self, vector: Vector) -> Array:
        """Return for each structure, in order, which elements are there."""
        return masks(self.structures, self.view(vector))

    def why_not(self, name: str, structure: str) -> str | None:
        """Return why a value class or a bug cannot be at a structure, if so."""
        for (each, at), reason in self.impossible.items():
            if fnmatchcase(name, each) and fnmatchcase(structure, at):
                return reason
        return None


ELEMENTS = (  # patterns of places of an output that is one row of elements
    *(
        "elements beyond 64",
        "elements: in whole vectors of 16",
        "elements: after whole vectors of 8",
    ),
    *("elements: after whole vectors of 16", "a row: after whole vectors of 8"),
)
LINES = (  # patterns of places of an output with images and channels, or rows and columns
    *("columns beyond 8", "rows beyond 8", "images beyond 1", "filters beyond 64"),
    *("channels beyond 64", "rows beyond 64", "columns beyond 64", "matrices beyond 1"),
    *("columns: in whole vectors of 8", "columns: after whole vectors of 8"),
    *("channels: after whole vectors of 8",),
)


def takes_part(vector: Vector) -> bool:
    """Return whether a vector is a call whose elements count."""
    asked = vector.outputs.get("OutputTensor")
    is_call = vector.is_valid and vector.desc is None and not vector.memory
    sizes = vector.inputs["InputTensor"].sizes if asked is None and is_call else ()
    return is_call and prod(asked.sizes if asked else sizes) <= LARGEST


def _matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Return the names that any of the patterns fits."""
    wanted = tuple(patterns)
    return [name for name in names if any(fnmatchcase(name, each) for each in wanted)]


def masks(predicates: Predicates[V], view: Any) -> Array:
    """Return one row for each predicate: on which elements it holds."""
    rows = [np.asarray(test(view), bool) for test in predicates.values()]
    return np.stack([np.broadcast_to(row.reshape(-1), (view.count,)) for row in rows])


def _meet(masks: Array, others: Array) -> Array:
    """Return which masks and others hold on a common element."""
    rows, columns = (np.packbits(each, axis=1) for each in (masks, others))
    return np.array([(columns & row).any(axis=1) for row in rows])


def impossible(why: str, *pairs: Pair) -> dict[Pair, str]:
    """Return pairs that cannot be for one reason."""
    return dict.fromkeys(pairs, why)


def each_at(names: Iterable[str], places: Iterable[str]) -> set[Pair]:
    """Return every pair of these names and structures."""
    return set(product(names, places))


def beyond(name: str, of: Callable[[Any], Any], limits: Iterable[int]) -> dict[str, Any]:
    """Return a structure for each limit: the elements whose index is not below it."""
    return {f"{name} beyond {limit}": _at_least(of, limit) for limit in limits}


def _at_least(of: Callable[[Any], Any], limit: int) -> Callable[[Any], Any]:
    return lambda view: np.asarray(of(view)) >= limit


def registers(
    name: str, of: Callable[[Any], Any], length: Callable[[Any], int], lanes: Iterable[int]
) -> dict[str, Any]:
    """Return for each number of lanes the body of whole vectors, and the tail after one."""
    found: dict[str, Any] = {}
    for count in lanes:
        found[f"{name}: in whole vectors of {count}"] = _in_body(of, length, count)
        found[f"{name}: after whole vectors of {count}"] = _in_tail(of, length, count)
    return found


def _in_body(of: Any, length: Any, lanes: int) -> Callable[[Any], Any]:
    return lambda view: np.asarray(of(view)) < length(view) // lanes * lanes


def _in_tail(of: Any, length: Any, lanes: int) -> Callable[[Any], Any]:
    return lambda view: (
        (np.asarray(of(view)) >= length(view) // lanes * lanes) & (length(view) >= lanes)
    )
