"""An operator on two quantized tensors in steps, each of which a bug can replace."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ...operators._shared import floats
from ...operators._shared.floats import Real
from .rounding import Rounding
from .steps import Array, Call, Outputs, Sizes, fractions, words


class Element(NamedTuple):
    """Two elements as they are stored, their differences from the zero points, and parameters."""

    a: int
    b: int
    x: int
    y: int
    za: int
    zb: int
    zy: int
    sa: Fraction
    sb: Fraction
    sy: Fraction


Quotient = Callable[[Element], Real]


def exact_sum(e: Element) -> Real:
    """Return the sum over the output scale."""
    return floats.exactly((e.x * e.sa + e.y * e.sb) / e.sy)


def exact_product(e: Element) -> Real:
    """Return the product over the output scale."""
    return floats.exactly(e.x * e.y * e.sa * e.sb / e.sy)


def repeated(array: Array, sizes: Sizes, name: str) -> Array:
    """Repeat A or B to the sizes of the output."""
    return np.broadcast_to(array, sizes)


def difference(word: int, zero_point: int, dtype: str) -> int:
    """Subtract a zero point."""
    return word - zero_point


@dataclass(frozen=True)
class Binary:
    """The steps, in order."""

    quotient: Quotient
    repeat: Callable[[Array, Sizes, str], Array] = repeated
    centre: Callable[[int, int, str], int] = difference
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, call: Call) -> Outputs:
        """Return the quantized output."""
        given, dtype = call.inputs, call.outputs["OutputTensor"].dtype
        a, b = given["ATensor"], given["BTensor"]
        sizes = np.broadcast_shapes(a.shape, b.shape)
        sa, sb, sy = (fractions(given[f"{name}ScaleTensor"])[0] for name in ("A", "B", "Output"))
        za, zb, zy = (_zero_point(call, name) for name in ("A", "B", "Output"))
        known: dict[tuple[int, int], int] = {}
        found = []
        columns = (words(self.repeat(own, sizes, name)) for own, name in ((a, "A"), (b, "B")))
        for i, j in zip(*columns, strict=True):
            if (i, j) not in known:
                x, y = self.centre(i, za, a.dtype.name), self.centre(j, zb, b.dtype.name)
                element = Element(i, j, x, y, za, zb, zy, sa, sb, sy)
                known[i, j] = self.rounding(self.quotient(element), zy, dtype)
            found.append(known[i, j])
        return {"OutputTensor": np.array(found, dtype).reshape(sizes)}


def _zero_point(call: Call, name: str) -> int:
    field = f"{name}ZeroPointTensor"
    return int(call.inputs[field].reshape(-1)[0]) if field in call.inputs else 0
