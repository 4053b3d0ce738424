"""Value classes of accumulators that three scales multiply and divide, and that are rounded."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np

from . import floats, value_classes
from .cross import Array
from .floats import Real
from .output_structures import OutputView
from .value_classes import extended


class RescaleView(OutputView):
    """Exact quotients; each array has an entry for each element of the output."""

    accumulators: Any
    scales: Any  # words of both inputs' scales, and of the output's
    zero_points: Any

    @cached_property
    def distinct(self) -> tuple[Array, Array]:
        """The elements with other numbers than before, and for each element which has its own."""
        rows = np.stack([self.accumulators, *self.scales, self.zero_points])
        _, first, inverse = np.unique(rows, axis=1, return_index=True, return_inverse=True)
        return first, inverse.reshape(-1)

    @cached_property
    def factors(self) -> list[Fraction]:
        """The multiplier of each distinct element."""
        first, _ = self.distinct
        rows = zip(*(words[first].tolist() for words in self.scales), strict=True)
        return [_factor(*words) for words in rows]

    @cached_property
    def quotients(self) -> list[Real]:
        """The exact quotient of each distinct element."""
        totals = self.accumulators[self.distinct[0]].tolist()
        return [floats.exactly(t * f) for t, f in zip(totals, self.factors, strict=True)]

    @cached_property
    def classes(self) -> dict[str, Array]:
        """The classes of the quotients."""
        first, inverse = self.distinct
        found = value_classes.of_quotients(self.quotients, self.zero_points[first], self.output)
        return {name: mask[inverse] for name, mask in found.items()}

    @cached_property
    def near_ties(self) -> Array:
        """A mask of the quotients that are near ties or ties."""
        return value_classes.near_ties(self.quotients)[self.distinct[1]]

    def errs(self, dtype: str, formula: Callable[..., Any]) -> Array:
        """Return where a formula of accumulator and scales in a float type errs."""
        scales = (s.astype(np.uint32).view(np.float32).astype(dtype) for s in self.scales)
        with np.errstate(all="ignore"):
            found = formula(self.accumulators.astype(dtype), *scales)
        wrong = value_classes.errs(found, self.zero_points, self.output, self.expected)
        return np.asarray(self.near_ties & wrong)

    def extended_errs(self) -> Array:
        """Return where a multiplier in extended precision errs."""
        first, inverse = self.distinct

        def way(index: int) -> Any:
            return extended(int(self.accumulators[first[index]]) * extended(self.factors[index]))

        is_near = self.near_ties[first]
        return value_classes.extended_errs(self.quotients, way, is_near)[inverse]


@cache
def _factor(*words: int) -> Fraction:
    x, w, y = (floats.decode(word, "float32").value for word in words)
    return x * w / y


def _in(name: str) -> Any:
    return lambda view: view.classes[name]


FORMULAS: dict[str, tuple[str, Callable[..., Any]]] = {
    "float32 multiplier errs": ("float32", lambda a, x, w, y: a * (x * w / y)),
    "float32 formula errs": ("float32", lambda a, x, w, y: a * (x * w) / y),
    "float64 multiplier errs": ("float64", lambda a, x, w, y: a * (x * w / y)),
    "float64 reciprocal errs": ("float64", lambda a, x, w, y: a * (x * w) * (1 / y)),
}
CLASSES: dict[str, Any] = {
    **{name: _in(name) for name in value_classes.QUOTIENTS},
    **{name: (lambda view, own=own: view.errs(*own)) for name, own in FORMULAS.items()},
    "extended multiplier errs": RescaleView.extended_errs,
}
