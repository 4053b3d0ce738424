"""Structures of a call of a pool, and value classes of averages."""

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...format.vectors import Vector
from . import floats, value_classes
from .call_rules import Attributes, Inputs
from .convolution_structures import MANY, has
from .cross import LINES as LINES_MEET
from .cross import Array, Cross, Meeting, beyond, impossible, registers
from .floats import Real, round_half_even
from .output_structures import QUOTIENTS, OutputView, misleads
from .pooling import Mean, elements, mean, means, whole
from .pooling_floats import MEANS
from .value_classes import ROUNDED

IMAGE = "InputTensor"


class PoolView(OutputView):
    """The parts of a call that predicates read; an index has an entry for each output element."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        self.attributes: Attributes = {
            "IncludePadding": False,
            **(vector.attributes or whole(vector.inputs[IMAGE].sizes)),
        }
        self.image, self.channel, *spatial = (each.reshape(-1) for each in np.indices(self.sizes))
        self.column = spatial[-1]
        self.row = spatial[-2] if len(spatial) > 1 else 0 * spatial[0]

    @property
    def taps(self) -> int:
        """The number of elements in a window."""
        return prod(self.attributes["WindowSize"])

    @cached_property
    def windows(self) -> list[list[int]]:
        """The elements in each window, in order; padding has none."""
        words = self.vector.inputs[IMAGE].words
        sizes = self.vector.inputs[IMAGE].sizes
        return [[words[at] for at in places] for _, places in elements(sizes, self.attributes)]


class AverageView(PoolView):
    """The exact means of a call."""

    @cached_property
    def means(self) -> list[tuple[Mean, int]]:
        """The sum, the number, both scales and the output zero point of each window."""
        given: Inputs = self.vector.inputs
        return list(means(given, self.attributes))

    @cached_property
    def distinct(self) -> tuple[list[tuple[Mean, int]], Array]:
        """The means that differ, and which of them each element has."""
        found = {each: at for at, each in enumerate(dict.fromkeys(self.means))}
        return list(found), np.array([found[each] for each in self.means], np.int64)

    @cached_property
    def quotients(self) -> list[Real]:
        """The quotient of each distinct mean."""
        return [mean(each) for each, _ in self.distinct[0]]

    @cached_property
    def classes(self) -> dict[str, Array]:
        """The classes of the quotients."""
        points = np.array([point for _, point in self.distinct[0]])
        found = value_classes.of_quotients(self.quotients, points, self.output)
        found["near tie in float32"] = misleads(self.quotients, "float32")
        return {name: mask[self.distinct[1]] for name, mask in found.items()}

    def errs(self, name: str) -> Array:
        """Return where a mean in floats comes to another integer; only near ties are tried."""
        near = value_classes.near_ties(self.quotients)
        pairs = zip(self.distinct[0], self.quotients, near, strict=True)
        found = [bool(is_near) and _errs(MEANS[name], each[0], own) for each, own, is_near in pairs]
        return np.array(found, bool)[self.distinct[1]]


def _errs(method: Callable[..., Real], given: Mean, exact: Real) -> bool:
    total, count, *words = given
    sx, sy = (floats.decode(word, "float32").value for word in words)
    found = method([total], count, sx, sy)
    return found.kind == "finite" and round_half_even(found.value) != round_half_even(exact.value)


OF_AVERAGES: dict[str, Any] = {
    **{name: own for name, own in QUOTIENTS.items() if name != "near tie in float64"},
    **{
        f"{name.replace('-', ' ')} errs": (lambda view, name=name: view.errs(name))
        for name in ("float32-multiplier", "float32-formula")
    },
}


def _any(name: str, least: int) -> Callable[[PoolView], bool]:
    return lambda view: max(view.attributes[name]) > least


LINES: dict[str, Any] = {  # of images and channels
    **{f"rank {rank}": (lambda view, r=rank: len(view.sizes) == r) for rank in (3, 4, 5)},
    "one image": lambda view: view.sizes[0] == 1,
    "one channel": lambda view: view.sizes[1] == 1,
    **beyond("images", lambda view: view.image, (1, 2, 4)),
    **beyond("channels", lambda view: view.channel, (1, 2, 4, 8, 16, 32, 64, 128)),
    **registers("channels", lambda view: view.channel, lambda view: view.sizes[1], (8, 16, 32, 64)),
    "several taps": lambda view: view.taps > 1,
    "more than 8 taps": lambda view: view.taps > 8,
    "more than 64 taps": lambda view: view.taps > 64,
}
WINDOWS: dict[str, Any] = {
    "one column": lambda view: view.columns == 1,
    **beyond("columns", lambda view: view.column, (1, 2, 4, 8, 16, 32, 64)),
    **beyond("rows", lambda view: view.row, (1, 2, 4, 8, 16, 32)),
    **registers("columns", lambda view: view.column, lambda view: view.columns, (8, 16, 32, 64)),
    "strides": _any("Strides", 1),
    "dilations": _any("Dilations", 1),
    "padding": lambda view: (
        max(*view.attributes["StartPadding"], *view.attributes["EndPadding"]) > 0
    ),
}
PARAMETERS: dict[str, Any] = {
    **{
        f"{x} input, {y} output": (
            lambda view, x=x, y=y: (view.dtype(IMAGE), view.output) == (x, y)
        )
        for x, y in product(("int8", "uint8"), repeat=2)
    },
    **{
        f"{label} {end.lower()} {kind}": has(f"{end}{field}Tensor", *lengths)
        for end in ("Input", "Output")
        for kind, field in (("zero point", "ZeroPoint"), ("scale", "Scale"))
        for label, lengths in {"no": (0,), "one": (1,), "several": (2, MANY)}.items()
        if (label, kind) != ("no", "scale")
    },
}


MEETING = Meeting(
    ROUNDED,
    ("rank *", "* input, * output", "* zero point", "* scale", "padding", "strides", "dilations"),
    LINES_MEET,
    (("rank 3", "rows *"),),
)


def cross_of_averages(prefix: str, structures: Mapping[str, Any]) -> Cross[AverageView]:
    """Return the table of an average, whose bugs begin with the prefix."""
    none = impossible(
        "a zero point of 0 is added",
        (f"{prefix}-zero-point-first", "no output zero point"),
        (f"{prefix}-clamps-before-zero-point", "no output zero point"),
    )
    whole = (  # of data types, lengths, places and padding, and of sums that short windows lack
        *("clamps-int8-*", "clamps-uint8-*", "clamps-to-minus-127", "only-*", "float64-*"),
        *("*-along-*-axis", "padding-*counts", "include-padding-*", "n-the-same-at-the-border"),
        "no-elements-is-nan",
        *("sums-wrap-*", "sums-saturate-*", "sums-in-*", "difference-*"),
    )
    own = tuple(f"{prefix}-{name}" for name in whole)
    every = {**structures, **PARAMETERS}
    return Cross(AverageView, OF_AVERAGES, every, none, own, MEETING)
