"""Calls that cover convolutions: sizes, windows, data types and parameters, as lines of text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from .convolution_cases import attributes
from .rounding import RANGES


@dataclass(frozen=True)
class Plan:
    """A call: sizes of image and filter, data types, which parameters there are, and windows."""

    image: tuple[int, ...]
    filters: tuple[int, ...]
    types: tuple[str, str]
    points: tuple[str, str]  # of image and filter: `absent`, `one` or `each`
    sign: int  # of the sums, where no filter has a zero point of its own
    windows: dict[str, Any] = field(default_factory=dict)
    words: frozenset[str] = frozenset()  # what else there is

    @classmethod
    def of(cls, text: str) -> "Plan":
        """Read a plan, such as `1x2x5x7 3x2x2x2 uint8 int8 one each + strides=2,1 groups=2`."""
        image, filters, x, w, zx, zw, sign, *windows = text.split()
        sizes = [tuple(map(int, each.split("x"))) for each in (image, filters)]
        found: dict[str, Any] = {}
        words = frozenset(each for each in windows if "=" not in each)
        for each in (each for each in windows if "=" in each):
            name, _, values = each.partition("=")
            numbers = tuple(map(int, values.split(",")))
            found[name] = numbers[0] if name == "groups" else numbers
        return cls(sizes[0], sizes[1], (x, w), (zx, zw), 1 if sign == "+" else -1, found, words)

    @property
    def options(self) -> dict[str, Any]:
        """The attributes of the call."""
        spatial = len(self.image) - 2
        plain = dict.fromkeys(("strides", "dilations"), (1,) * spatial)
        plain |= dict.fromkeys(("start", "end"), (0,) * spatial)
        return attributes(**{**plain, **self.windows})

    @property
    def about(self) -> str:
        """The plan in words."""
        sizes = f"{prod(self.filters[1:])} products, {self.filters[0]} filters"
        return f"{sizes}, image {list(self.image)}; zero points: {' and '.join(self.points)}"


def zero_points(plan: Plan) -> dict[str, list[int] | None]:
    """Return zero points at the ends of the ranges, so that the sums are large."""
    w_low, w_high = RANGES[plan.types[1]]
    ends = (w_low, w_high, (w_low + w_high) // 2)
    one = w_low if plan.sign > 0 else w_high
    each = [ends[k % 3] for k in range(plan.filters[0])]
    return {
        "zx": [255 if plan.types[0] == "uint8" else -128] if plan.points[0] == "one" else None,
        "zw": {"absent": None, "one": [one], "each": each}[plan.points[1]],
    }


def large(plan: Plan, seed: int) -> tuple[Tensor, Tensor]:
    """Return operands whose sums are as large as so many products can be."""
    (_, xh), (wl, wh) = (RANGES[dtype] for dtype in plan.types)
    x = Recipe(seed, xh - 12, xh)
    if plan.points[0] == "one":
        x = Recipe(seed, *((0, 50) if plan.types[0] == "uint8" else (77, 127)))
    ends = {
        "absent": (wh - 12, wh) if plan.sign > 0 else (wl, wl + 12),
        "one": (wh - 50, wh) if plan.sign > 0 else (wl, wl + 50),
        "each": (wl, wh),
    }
    w = Recipe(seed + 1, *ends[plan.points[1]])
    return made(plan.types[0], plan.image, x), made(plan.types[1], plan.filters, w)


def small(plan: Plan, seed: int) -> tuple[Tensor, Tensor]:
    """Return operands of which many are zero."""
    x, w = (Recipe(seed + i, *RANGES[dtype], 3) for i, dtype in enumerate(plan.types))
    return made(plan.types[0], plan.image, x), made(plan.types[1], plan.filters, w)


def made(dtype: str, sizes: Sequence[int], recipe: Recipe) -> Tensor:
    """Return a tensor by its recipe."""
    return from_recipe(dtype, tuple(sizes), recipe)
