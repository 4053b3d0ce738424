"""Compares the tensors of a model with those of another runtime, and prints the differences."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jax import Array

_ROUNDING = 1e-5  # floats round within this, relative to the largest element
_MOST_LINES = 8  # lines about floats that differ by rounding


class Difference(NamedTuple):
    """The elements of a tensor that differ."""

    name: str
    operator: str  # the type of the node that writes the tensor
    different: int  # the number of elements that differ
    size: int
    worst: float  # the largest difference
    relative: float | None  # the largest difference divided by the largest element, of floats

    def __str__(self) -> str:
        text = f"{self.name} ({self.operator}): {self.different} of {self.size} elements differ"
        return f"{text}, by at most {self.worst:g}" if self.different else text

    @property
    def kind(self) -> str:
        """The operator without the node's name."""
        return self.operator.partition(" ")[0]

    @property
    def is_rounding(self) -> bool:
        """True for floats that differ as much as another order of a sum makes them."""
        return self.relative is not None and self.relative <= _ROUNDING


def difference_of(
    name: str, operator: str, tensor: Array | np.ndarray, theirs: np.ndarray
) -> Difference:
    """Compares a tensor with a peer's."""
    ours = np.asarray(tensor)
    if ours.shape != theirs.shape:
        return Difference(name, operator, theirs.size, theirs.size, float("inf"), None)
    same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    gap = np.abs(ours[~same].astype(wide) - theirs[~same].astype(wide))
    worst, relative = float(gap.max(initial=0)), None
    if theirs.dtype.kind in "fc":
        scale = np.abs(theirs[np.isfinite(theirs)].astype(wide)).max(initial=0)
        relative = worst / float(scale) if scale else worst
    return Difference(name, operator, int((~same).sum()), theirs.size, worst, relative)


def print_differences(different: Sequence[Difference]) -> None:
    """Prints a line per tensor; many that differ by rounding are one line per operator."""
    rounded = [x for x in different if x.is_rounding]
    summed = rounded if len(rounded) > _MOST_LINES else []
    for difference in different:
        if difference not in summed:
            print(difference)
    for operator in dict.fromkeys(x.kind for x in summed):
        values = [x.relative or 0 for x in summed if x.kind == operator]
        text = f"{len(values)} float tensors differ within rounding"
        print(f"{operator}: {text}, relatively by at most {max(values):.1e}")


def print_total(differences: Sequence[Difference]) -> None:
    """Prints how many tensors there are, and how many elements differ."""
    count = sum(x.different for x in differences)
    total = sum(x.size for x in differences)
    print(f"{len(differences)} tensors, {total} elements: {count} differ")
