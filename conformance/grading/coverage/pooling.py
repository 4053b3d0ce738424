"""Equivalence classes and structures of pools."""

from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import pooling
from dmlax_conformance.oracle.exact import RANGES

from . import elements
from .elements import BY_TWO, LANES, along, floats, lengths, of_one, of_types
from .matrix import CoverageMatrix

IMAGE = "InputTensor"


class PoolView(elements.OutputView):
    """The axes of the output; a row is the elements of a window, of which padding has none."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        attributes = vector.attributes or pooling.whole(vector.inputs[IMAGE].sizes)
        self.attributes: dict[str, Any] = {"IncludePadding": False, **attributes}
        self.name_axes_of_images("channels")
        self.taps = prod(self.attributes["WindowSize"])

    @property
    def rows(self) -> Any:
        """The elements of each window."""
        given = self.vector.inputs[IMAGE]
        for _, places in pooling.elements(given.sizes, self.attributes):
            yield tuple(given.words[place] for place in places)

    def classes_of(self, row: tuple[int, ...]) -> set[str]:
        """Return the classes of a window; one of padding alone has none."""
        return elements.those(_holds(row, *RANGES[self.output])) if row else set()

    def exceeds(self, least: int, *names: str) -> bool:
        """Return whether an attribute is more than this on any axis."""
        return any(max(self.attributes[name]) > least for name in names)


def _holds(row: tuple[int, ...], low: int, high: int) -> dict[str, bool]:
    """Return which classes the largest element of a window is in."""
    largest = max(row)
    return {
        "the first is the largest": row[0] > max(row[1:], default=high),
        "the last is the largest": row[-1] > max(row[:-1], default=high),
        "another is the largest": max(row[1:-1], default=low) > max(row[0], row[-1]),
        "several are the largest": row.count(largest) > 1,
        "the highest": largest == high,
        "the lowest": largest == low,
        "beyond 7 bits": largest > 127,
        "zero among negatives": largest == 0 > min(row),
        "all are negative": largest < 0,
        "a negative is larger without its sign": -min(row) > largest > 0,
    }


class AverageView(PoolView, elements.QuotientView):
    """The exact means of a call."""

    classes_of = elements.QuotientView.classes_of  # type: ignore[assignment]

    @cached_property
    def means(self) -> list[tuple[pooling.Mean, int]]:
        """The mean of each window: sum, number of elements, words of scales; and zero point."""
        return list(pooling.means(self.vector.inputs, self.attributes))

    @property
    def rows(self) -> Any:
        """The mean over the output scale, and the zero point, of each window."""
        return ((pooling.mean(each), point) for each, point in self.means)

    @property
    def operands(self) -> Any:
        """The sums, the numbers of elements, and both scales."""
        totals, counts, *words = np.array([each for each, _ in self.means]).reshape(-1, 4).T
        return totals, counts, *(floats(each, "f4") for each in words)


AVERAGES = {
    **elements.OF_BYTES,
    **elements.NEAR_TIE,
    **elements.erring(
        float32_multiplier=("f4", lambda total, n, sx, sy: total * (sx / (sy * n))),
        float32_formula=("f4", lambda total, n, sx, sy: total * sx / n / sy),
    ),
}


OF_IMAGES: dict[str, Any] = {
    **elements.at_ranks((3, 4, 5)),
    **of_one("image", "channel"),
    **along("images", (1, 2, 4)),
    **along("channels", (*BY_TWO, 128), LANES),
    "several taps": lambda view: view.taps > 1,
    **elements.of_values("more than {} taps", lambda view, least: view.taps > least, (8, 64)),
}
OF_WINDOWS: dict[str, Any] = {
    **of_one("column"),
    **along("columns", BY_TWO, LANES),
    **along("rows", BY_TWO[:-1]),
    "strides": lambda view: view.exceeds(1, "Strides"),
    "dilations": lambda view: view.exceeds(1, "Dilations"),
    "padding": lambda view: view.exceeds(0, "StartPadding", "EndPadding"),
}
PARAMETERS = of_types("{} input, {} output", IMAGE, elements.OUTPUT)
for name in ("Input", "Output"):
    for kind in ("ZeroPoint", "Scale"):
        label = f"{name} {kind.replace('P', ' p')}".lower()
        PARAMETERS |= lengths(f"{name}{kind}Tensor", label, "one {}", "several {}")
MATRICES = {
    "quantized_linear_average_pooling": CoverageMatrix(
        AverageView, AVERAGES, OF_IMAGES | OF_WINDOWS | PARAMETERS
    ),
    "quantized_linear_global_average_pooling": CoverageMatrix(
        AverageView, AVERAGES, OF_IMAGES | PARAMETERS
    ),
    "max_pooling": CoverageMatrix(
        PoolView,
        elements.classes(*_holds((0,), 0, 0)),
        OF_IMAGES | OF_WINDOWS | of_types("{}", IMAGE),
    ),
}
