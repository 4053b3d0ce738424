"""Calls that cover matrix products: sizes, data types and parameters, as lines of text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...format.recipe import Cycle, Recipe
from ...format.tensors import Tensor, from_recipe, to_numpy
from ..topics import ints
from .matmul import Shape, shape_of
from .rescale_covering import weights
from .rounding import RANGES

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A call: sizes and data types of both operands, which zero points there are, and words."""

    a: Sizes
    b: Sizes
    types: tuple[str, str]
    points: tuple[str, str]  # of A and B: `absent`, `one` or `each`
    words: frozenset[str]

    @classmethod
    def of(cls, text: str) -> "Plan":
        """Read a plan, such as `2x3x5 5x71 uint8 int8 one each nobias`."""
        a, b, ta, tb, za, zb, *words = text.split()
        one, two = (tuple(map(int, each.split("x"))) for each in (a, b))
        return cls(one, two, (ta, tb), (za, zb), frozenset(words))

    @property
    def shape(self) -> Shape:
        """The sizes of operands, batch and output."""
        return shape_of(self.a, self.b)

    @property
    def terms(self) -> int:
        """The number of products in a sum."""
        return self.shape.a[-1]

    @property
    def about(self) -> str:
        """The plan in words."""
        return f"A of {list(self.a)}, B of {list(self.b)}; zero points: {' and '.join(self.points)}"

    def point(self, side: int, values: Sequence[int]) -> list[int] | None:
        """Return no zero point, the first of these, or one of them in turn for each row or column.

        Rows are those of A, columns those of B.
        """
        count = self.shape.b[-1] if side else self.shape.a[-2]
        kind = self.points[side]
        return (
            None
            if kind == "absent"
            else [values[at % len(values)] for at in range(count)][: count if kind == "each" else 1]
        )


def plans(text: str) -> Iterator[tuple[int, Plan]]:
    """Yield the plan of each line, counted from 1."""
    for number, line in enumerate(text.strip().splitlines(), 1):
        yield number, Plan.of(line)


FACTORS = (255, -255, 1, 0, -1, 254, 3)  # by which the columns of B multiply the rows of A


def sums(plan: Plan, number: int) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Return operands and zero points whose sums are of every size and sign in each row.

    The words `sparse` and `turn` make most elements of A zero, and its rows of other signs.
    """
    (al, ah), (bl, bh) = (RANGES[dtype] for dtype in plan.types)
    turned = [al, ah, al + 1, (al + ah) // 2] if "turn" in plan.words else [al, al + 3, al + 1]
    points = [3, 2, 5] if "sparse" in plan.words else turned
    low = ah - 12 if "turn" in plan.words else ah - 55
    recipe = Recipe(3300 + number, low, ah, 9 if "sparse" in plan.words else 1)
    za, zb = plan.point(0, points), plan.point(1, [(bl + bh) // 2, bl, bh])
    columns = plan.shape.b[-1]
    centres = np.resize(zb or [0], columns).tolist()
    factors = [FACTORS[(at + number) % len(FACTORS)] for at in range(columns)]
    words = [min(max(f + z, bl), bh) for f, z in zip(factors, centres, strict=True)]
    b = from_recipe(plan.types[1], plan.b, Cycle(tuple(words)))
    return from_recipe(plan.types[0], plan.a, recipe), b, {"za": za, "zb": zb}


# -- operands whose rows, or columns, are alike --------------------------------------------------


def middles(dtype: str) -> list[int]:
    """Return zero points about the middle of a range."""
    return [sum(RANGES[dtype]) // 2 + step for step in range(5)]


def alike(plan: Plan, side: int, taps: Sequence[int], points: Sequence[int]) -> Tensor:
    """Return A with equal rows, or B with equal columns, once the zero points are subtracted."""
    sizes = plan.shape.b if side else plan.shape.a
    values, centres = np.array(taps), np.resize(points or [0], sizes[-1 if side else -2])
    matrix = values[:, None] + centres if side else values + centres[:, None]
    words = np.broadcast_to(matrix, sizes).reshape(-1).tolist()
    given = (plan.a, plan.b)[side]
    is_plain = prod(given) > 60 and len({*words}) == 1
    made = from_recipe(plan.types[side], given, Recipe(0, words[0], words[0])) if is_plain else None
    return made or ints(plan.types[side], given, words)


def weighted(
    plan: Plan, side: int, wanted: list[int], taps: list[int], points: list[int] | None
) -> Tensor:
    """Return rows of A, or columns of B, whose products with the taps make the sums."""
    low, high = RANGES[plan.types[side]]
    centres = np.resize(points or [0], len(wanted)).tolist()
    chosen = [
        [w + z for w in weights(total, taps, low - z, high - z)]
        for total, z in zip(wanted, centres, strict=True)
    ]
    matrix, sizes = np.array(chosen), (plan.a, plan.b)[side]
    whole = np.broadcast_to(matrix.T if side else matrix, (plan.shape.b if side else plan.shape.a))
    return ints(plan.types[side], sizes, whole.reshape(-1).tolist())


def sums_of_lines(
    plan: Plan, side: int, own: Tensor, points: list[int], taps: list[int]
) -> list[int]:
    """Return the sum of each row of A, or column of B, in the first matrix, with the taps."""
    sizes = plan.shape.b if side else plan.shape.a
    matrix = to_numpy(own).astype(np.int64).reshape(-1, *sizes[-2:])[0]
    lines = matrix.T if side else matrix
    centres = np.resize(points, len(lines))[:, None]
    found: list[int] = ((lines - centres) @ np.array(taps)).tolist()
    return found


def shaped(plan: Plan, values: list[int], of_rows: bool) -> tuple[tuple[int, ...], list[int]]:
    """Return sizes and values of a parameter of rows, or of columns."""
    is_flat = len(plan.a) == 1 or len(plan.b) == 1
    return ((len(values), 1) if of_rows and not is_flat else (len(values),)), values
