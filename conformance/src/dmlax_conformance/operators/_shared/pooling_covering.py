"""Calls that cover pools: windows that share no element, so that each has the sum it needs."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...format.recipe import Cycle
from ...format.tensors import Tensor, from_recipe
from ..topics import ints
from .binary_covering import QUARTERS
from .convolution_cases import scale_words
from .near_ties import Draw, float32
from .pooling_cases import PoolTopic, pair_of_family, spread, windows
from .rounding import RANGES

Fill = Callable[[int, int, int], Sequence[int]]  # of window number, elements and zero point


class Plan(NamedTuple):
    """A call: sizes of the output and of the window, data types, zero points, and words."""

    output: tuple[int, ...]
    window: tuple[int, ...]
    types: tuple[str, str]
    points: tuple[str, str]  # of input and output: `absent`, `one` or `each`
    words: frozenset[str]

    @classmethod
    def of(cls, text: str) -> "Plan":
        """Read a plan, such as `1x3x2x31 1x3 uint8 int8 one each scales dilated padded`."""
        output, window, x, y, zx, zy, *words = text.split()
        sizes, size = (tuple(map(int, each.split("x"))) for each in (output, window))
        return cls(sizes, size, (x, y), (zx, zy), frozenset(words))

    @property
    def dilation(self) -> int:
        """The dilation on each axis."""
        return 2 if "dilated" in self.words else 1

    @property
    def padding(self) -> int:
        """The padding on both sides of each axis."""
        return 1 if "padded" in self.words else 0

    def options(self, include: bool | None) -> dict[str, Any]:
        """Return the attributes: windows that lie beside each other."""
        steps = [(size - 1) * self.dilation + 1 for size in self.window]
        axes = len(self.window)
        around = {"start": (self.padding,) * axes, "end": (self.padding,) * axes}
        return windows(
            self.window, include, strides=steps, dilations=(self.dilation,) * axes, **around
        )

    def points_of(self, side: int) -> list[int] | None:
        """Return the zero points of input or output."""
        middle = {"uint8": 128 + side, "int8": 3}[self.types[side]]
        count = {"absent": 0, "one": 1, "each": self.output[1]}[self.points[side]]
        return [middle + at % 4 for at in range(count)] or None


def image(plan: Plan, fill: Fill) -> Tensor:
    """Return an image whose windows are filled, and between whose taps lies noise."""
    options = plan.options(None)
    spatial = [
        (count - 1) * stride + (size - 1) * plan.dilation + 1 - 2 * plan.padding
        for count, stride, size in zip(
            plan.output[2:], options["Strides"], plan.window, strict=True
        )
    ]
    draw, (low, high) = Draw(sum(plan.output)), RANGES[plan.types[0]]
    points, sizes = plan.points_of(0) or [0], (*plan.output[:2], *spatial)
    x = np.array([draw.below(high - low + 1) + low for _ in range(prod(sizes))]).reshape(sizes)
    for number, place in enumerate(product(*map(range, plan.output))):
        own = x[place[0], place[1]]
        inside = list(_inside(plan, place[2:], options["Strides"], spatial))
        point = points[place[1] % len(points)]
        for at, value in zip(inside, fill(number, len(inside), point), strict=True):
            own[at] = min(max(value + point, low), high)
    return repeated(plan.types[0], sizes, x.reshape(-1).tolist())


def repeated(dtype: str, sizes: tuple[int, ...], words: list[int]) -> Tensor:
    """Return a tensor, by a cycle if its words repeat."""
    for period in range(20, len(words) // 2):
        if words[period:] == words[:-period]:
            return from_recipe(dtype, sizes, Cycle(tuple(words[:period])))
    return ints(dtype, sizes, words)


def _inside(
    plan: Plan, place: tuple[int, ...], strides: list[int], spatial: list[int]
) -> Iterator[tuple[int, ...]]:
    """Yield where the taps of a window lie inside the image."""
    axes = [
        [
            at * stride + tap * plan.dilation - plan.padding
            for tap in range(size)
            if 0 <= at * stride + tap * plan.dilation - plan.padding < length
        ]
        for at, stride, size, length in zip(place, strides, plan.window, spatial, strict=True)
    ]
    yield from product(*axes)


# -- averages ----------------------------------------------------------------------------------


class Family(NamedTuple):
    """Scales of input and output as words, and sums of windows."""

    input: int
    output: int
    sums: Sequence[int]


def _plain(count: int, number: int) -> Family:
    """Return sums of which a window's mean is 7/4, over the output scale."""
    return Family(*_words(1.75 * count, 1), QUARTERS)


def _far(count: int, number: int) -> Family:
    """Return sums whose means leave 16 and 32 bits."""
    return Family(*_words(count * 2.0**20, 2.0**-12), (1, -1, 0, 5, -9, 100, -100))


def _near(count: int, number: int) -> Family:
    """Return sums that arithmetic in float32 misplaces."""
    sums, scales, _ = pair_of_family("float32", (count,), number % 2)
    return Family(*scales, sums)


def _words(*scales: float) -> tuple[int, int]:
    one, two = (float32(Fraction(scale)) for scale in scales)
    return one, two


FAMILIES = {"plain": _plain, "far": _far, "near": _near}


def add_averages(clause: str, family: str, lines: str) -> Callable[[PoolTopic], None]:
    """Return what adds a call of a family of values for each line."""

    def fill(topic: PoolTopic) -> None:
        for number, line in enumerate(lines.strip().splitlines(), 1):
            plan = Plan.of(line)
            values = FAMILIES[family](prod(plan.window), number)
            x = image(plan, partial(_spread, plan.types[0], values.sums, number))
            own = {"zx": plan.points_of(0), "zy": plan.points_of(1), **_scales(plan, values)}
            options = plan.options(("counted" in plan.words) if topic.has_windows else None)
            text = f"an output of {list(plan.output)}, windows of {list(plan.window)}"
            name, flags = f"covering-{family}-{number}", "Tie NearTieFloat32 Saturation BlockEdge"
            topic.add(name, text, clause, x, own, flags, options, plan.types[1])

    return fill


def _spread(
    source: str, sums: Sequence[int], number: int, at: int, inside: int, point: int
) -> list[int]:
    """Return the elements of a window with one of the sums, in turn."""
    (low, high), turn = RANGES[source], (at + 7 * number) % len(sums)
    return spread(sums[turn], inside, low - point, high - point, turn) if inside else []


def _scales(plan: Plan, values: Family) -> dict[str, Any]:
    """Return both scales; those of channels are powers of two apart, or alike."""
    has_both = {"sxs", "sys"} <= plan.words
    return {
        key: scale_words(
            [
                word + (at % 3 << 23) * has_both
                for at in range(plan.output[1] if many in plan.words else 1)
            ]
        )
        for key, many, word in (("sx", "sxs", values.input), ("sy", "sys", values.output))
    }
