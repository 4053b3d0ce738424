"""Maps whose keys are compared by identity."""

from collections.abc import Iterable, Iterator, MutableMapping
from typing import TypeVar

V = TypeVar("V")


class IdentityMap(MutableMapping[object, V]):
    """Values by object: arrays are equal element by element, and have no hash.

    The map keeps its keys alive, so that no other object takes the identity of one.
    """

    def __init__(self, pairs: Iterable[tuple[object, V]] = ()) -> None:
        self._pairs: dict[int, tuple[object, V]] = {}
        self.update(pairs)

    def __getitem__(self, key: object) -> V:
        return self._pairs[id(key)][1]

    def __setitem__(self, key: object, value: V) -> None:
        self._pairs[id(key)] = key, value

    def __delitem__(self, key: object) -> None:
        del self._pairs[id(key)]

    def __iter__(self) -> Iterator[object]:
        return (key for key, _ in self._pairs.values())

    def __len__(self) -> int:
        return len(self._pairs)
