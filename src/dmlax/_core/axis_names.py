"""Names of array axes: the language in which an operator says how it may be split over devices.

Axes of one name are split in the same way. An axis named "-" is whole on every device. So a
product of matrices is `AxisNames(["m -", "- n"], ["m n"])`. An axis named "group.channel" has the
channels of the first group, then those of the next. The first output has every name.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

WHOLE = "-"
Names: TypeAlias = str  # the names of an array's axes, separated by spaces
Shape: TypeAlias = tuple[int, ...]


class AxisNames(NamedTuple):
    """The names of the axes of an operator's operands and outputs.

    Attributes:
      operands: a pytree of `Names`, or a list once flat.
      outputs: the same of the outputs.
      pieces: the number of pieces of names that are a part of an axis, or cut into equal pieces.
    """

    operands: Any
    outputs: Any
    pieces: tuple[tuple[str, int], ...] = ()

    def mapped(self, dims: Sequence[int | None]) -> "AxisNames":
        """The names of flat operands and outputs under `jax.vmap`, whose axis is split, too."""
        name = f"map{len(self.outputs[0].split())}"
        operands = [
            names if dim is None else _insert(names, dim, name)
            for names, dim in zip(self.operands, dims, strict=True)
        ]
        outputs = tuple(_insert(names, 0, name) for names in self.outputs)
        return AxisNames(tuple(operands), outputs, self.pieces)


def _insert(names: Names, at: int, name: str) -> Names:
    parts = names.split()
    return " ".join([*parts[:at], name, *parts[at:]])


def whole(array: Any) -> Names:
    """The names of an array that every device has whole."""
    return " ".join([WHOLE] * array.ndim)


def numbered(rank: int) -> Names:
    """The names of an array whose axes may all be split."""
    return " ".join(f"axis{i}" for i in range(rank))


def of_rows(plan: object, operands: tuple[Any, ...]) -> AxisNames:
    """The names of an operator of rows: each axis of the first operand except the last splits."""
    rows = " ".join([*numbered(operands[0].ndim - 1).split(), WHOLE])
    return AxisNames((rows, *jax.tree.map(whole, operands[1:])), rows)


def rename(names: Any, **others: Names) -> Any:
    """Names with others in place of some, of a pytree."""

    def of_array(text: Names) -> Names:
        return " ".join(others.get(name, name) for name in text.split())

    return jax.tree.map(of_array, names)


def broadcast(shape: Shape, names: Names, sizes: Shape) -> Names:
    """The names of a shape that broadcasts to one of these names; more axes of 1 may lead."""
    ends = reversed(list(zip(names.split(), sizes, strict=True)))
    found = [_alike(size, next(ends, (WHOLE, 1))) for size in reversed(shape)]
    return " ".join(reversed(found))


def _alike(size: int, axis: tuple[str, int]) -> str:
    name, wanted = axis
    return name if size == wanted != 1 else WHOLE


def along(shape: Shape, name: str, size: int) -> Names:
    """The names of the shape of one value, or of one for each index of an axis."""
    return " ".join(_alike(length, (name, size)) for length in shape)


def placed(names: Mapping[int, str], rank: int) -> Names:
    """The names of an array that has some at given axes."""
    return " ".join(names.get(axis, WHOLE) for axis in range(rank))


@dataclass
class ShardingRule:
    """Names as a rule of Shardy's, which `write` makes.

    Attributes:
      pieces: the number of pieces of every name.
      whole: the factors that are not split: axes, or parts of axes.
      sizes: those of factors that are parts of axes.
      plain: the names that are the only factor of an axis.
    """

    pieces: Mapping[str, int]
    whole: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)

    def write(self, names: Iterable[Names], shapes: Iterable[Shape]) -> str:
        """Writes arrays as `custom_partitioning` reads them."""
        arrays = zip(names, shapes, strict=True)
        return ", ".join(self._array(axes.split(), shape) for axes, shape in arrays)

    @property
    def options(self) -> dict[str, Any]:
        """The keywords beside the text."""
        sizes = {name: size for name, size in self.sizes.items() if name not in self.plain}
        return {"need_replication_factors": tuple(self.whole), **sizes}

    def _array(self, axes: Sequence[str], shape: Shape) -> str:
        return " ".join(map(self._axis, axes, shape))

    def _axis(self, axis: str, size: int) -> str:
        pieces = {name: self.pieces.get(name, 1) for name in axis.split(".")}
        factors = [name for name, count in pieces.items() if count > 1]
        rest = size // math.prod(pieces.values())
        if rest > 1 or not factors:
            self.whole.append(f"whole{len(self.whole)}")
            factors.append(self.whole[-1])
        if len(factors) == 1:
            self.plain.add(factors[0])
            return factors[0]
        self.sizes |= {name: pieces.get(name, rest) for name in factors}
        return f"({' '.join(factors)})"


def pieces(names: AxisNames, sizes: Shape) -> dict[str, int]:
    """The number of pieces of every name in the first output, which has these sizes."""
    given = dict(zip(names.outputs[0].split(), sizes, strict=True)) | dict(names.pieces)
    return {name: max(1, count) for name, count in given.items() if name != WHOLE}


class Grid(NamedTuple):
    """Devices by the pieces that they have: an axis for every name, and one for equal devices."""

    names: tuple[str, ...]
    devices: np.ndarray

    def tiles(self, names: Names) -> np.ndarray:
        """The devices by the tiles of an array, and along a last axis those of the same tile."""
        places = {name: axis for axis, name in enumerate(self.names)}
        axes = [[places[x] for x in axis.split(".") if x in places] for axis in names.split()]
        kept = [place for axis in axes for place in axis]
        rest = [place for place in range(self.devices.ndim) if place not in kept]
        shape = [math.prod(self.devices.shape[place] for place in axis) for axis in axes]
        return self.devices.transpose(kept + rest).reshape(*shape, -1)


def grid(names: AxisNames, tiles: np.ndarray) -> Grid:
    """The grid of an output's tiles: devices that would share a piece of an axis all have it."""
    limits, split = {WHOLE: 1, **dict(names.pieces)}, list[tuple[str, int]]()
    for axis, count in zip(names.outputs[0].split(), tiles.shape[:-1], strict=True):
        for name in axis.split("."):
            limit = limits.get(name, count)
            parts = math.gcd(count, limit)
            split.append((name, parts))
            count //= parts
            if parts < limit:  # the names after it would be split in every piece of this one
                break
        split.append((WHOLE, count))
    named = [i for i, (name, _) in enumerate(split) if name != WHOLE]
    rest = [i for i in range(len(split) + 1) if i not in named]
    devices = tiles.reshape(*(parts for _, parts in split), -1).transpose(named + rest)
    shape = [split[i][1] for i in named]
    return Grid(tuple(split[i][0] for i in named), devices.reshape(*shape, -1))
