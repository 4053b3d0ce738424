"""The last step of both quantizing operators: from a real quotient to an 8-bit integer."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from ...operators._shared.floats import Real, round_half_even
from ...operators._shared.rounding import RANGES


def round_then_add(quotient: Fraction, zero_point: int) -> int:
    """Round to nearest, ties to even, and then add the zero point."""
    return round_half_even(quotient) + zero_point


def full_range(value: int, dtype: str) -> int:
    """Limit to everything that the data type can hold."""
    low, high = RANGES[dtype]
    return min(max(value, low), high)


def at_the_ends(quotient: Real, zero_point: int, dtype: str) -> int:
    """Saturate an infinity by its sign; NaN is the lowest value."""
    low, high = RANGES[dtype]
    return low if quotient.kind == "nan" or quotient.negative else high


@dataclass(frozen=True)
class Rounding:
    """The steps, in order."""

    place: Callable[[Fraction, int], int] = round_then_add
    clamp: Callable[[int, str], int] = full_range
    special: Callable[[Real, int, str], int] = at_the_ends

    def __call__(self, quotient: Real, zero_point: int, dtype: str) -> int:
        """Return the quantized integer."""
        if quotient.kind != "finite":
            return self.special(quotient, zero_point, dtype)
        return self.clamp(self.place(quotient.value, zero_point), dtype)
