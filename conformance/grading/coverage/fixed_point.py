"""Equivalence classes of calls that name a requantization."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any
from unittest import mock

from dmlax_conformance.oracle import OPERATORS, fixed_point
from dmlax_conformance.oracle.exact import RANGES
from dmlax_conformance.oracle.fixed_point import FIELD

from .elements import OutputView

NOTED = ("multiplier", "float64", "half_up", "half_away")
NEAR = 15  # bits of a half that a near tie agrees in
SIDES = ("above zero", "below zero")
LARGEST = "multiplier of 2^31 - 1"  # two float32 make it, a quotient of float32 does not
MULTIPLIERS: dict[str, Callable[[fixed_point.Multiplier], bool]] = {
    "multiplier of 2^30": lambda by: by.value == 1 << 30,
    "shift to the left": lambda by: by.exponent > 0,
    "shift to the right": lambda by: by.exponent < 0,
}


class RequantizedView(OutputView):
    """The steps of the oracle: roundings of integers, and multipliers."""

    @property
    def mode(self) -> str:
        """The requantization."""
        return str(self.vector.attributes[FIELD])

    @cached_property
    def named(self) -> set[str]:
        """The classes of all steps, and of the outputs."""
        found, given = set[str](), self.vector
        with mock.patch.multiple(fixed_point, **{k: _noted(k, found) for k in NOTED}):
            self._answer(self.mode)
        low, high = RANGES[self.output]
        found |= {"saturates high"} if high in self.expected else set()
        found |= {"saturates low"} if low in self.expected else set()
        words = tuple(self.expected.tolist())
        for mode in OPERATORS[given.operator].definition.requantizations:
            found |= {f"parts from {mode}"} if self._answer(mode) != words else set()
        found |= {"parts from the real number"} if self._answer("") != words else set()
        return {f"{name} ({self.mode})" for name in found}

    def _answer(self, mode: str) -> Any:
        """Return the words by another mode, or by none."""
        given = self.vector
        attributes = {k: v for k, v in given.attributes.items() if k != FIELD}
        attributes |= {FIELD: mode} if mode else {}
        compute = OPERATORS[given.operator].compute
        return compute(attributes, given.inputs, given.outputs)["OutputTensor"].words


def _noted(name: str, found: set[str]) -> Any:
    """Return a step of the oracle that notes the classes of what it is given."""
    own = getattr(fixed_point, name)

    def step(x: Any, *others: Any) -> Any:
        result = own(x, *others)
        if name == "multiplier":
            found.update(what for what, holds in MULTIPLIERS.items() if holds(result))
            found.update({LARGEST} if result.value == (1 << 31) - 1 else ())
        elif name == "float64":
            product = abs(x * others[0])
            is_tie = fixed_point.in_float(product, "float64") % 1 == Fraction(1, 2)
            found.update({f"tie in float64 {_side(x)}"} if is_tie else ())
            found.update({"becomes a tie in float64"} if is_tie and product % 1 != 0.5 else ())
        elif others[0] > 0:
            rest, half = x % (1 << others[0]), 1 << others[0] >> 1
            is_near = 0 < abs(rest - half) <= max(half >> NEAR, 1)
            found.update({f"tie by {name} {_side(x)}"} if rest == half else ())
            found.update({f"near tie by {name}"} if is_near else ())
        return result

    return step


def _side(x: Any) -> str:
    return SIDES[x < 0]


def names_of(operator: str) -> Iterator[str]:
    """Yield the classes that the modes of an operator need a vector of."""
    modes = OPERATORS[operator].definition.requantizations
    for mode in modes:
        names = ["saturates high", "saturates low", "parts from the real number"]
        names += [f"parts from {other}" for other in modes if other != mode]
        if mode == "float64":
            names += ["becomes a tie in float64", *(f"tie in float64 {side}" for side in SIDES)]
        else:
            roundings = NOTED[2:] if mode == fixed_point.DOUBLE else NOTED[2:3]
            for rounding in roundings:
                names += [f"tie by {rounding} {side}" for side in SIDES]
            names += [f"near tie by {roundings[-1]}"]
            if "_add" not in operator:
                names += MULTIPLIERS
            names += [LARGEST] if "BiasTensor" in OPERATORS[operator].signature.inputs else []
        yield from (f"{name} ({mode})" for name in names)
