"""Means of a pool as implementations in floats compute them, each step rounded."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from . import floats
from .floats import NAN, Real, exactly, nearest

Mean = Callable[[Sequence[int], int, Fraction, Fraction], Real]  # differences, n, both scales


def exact_mean(values: Sequence[int], count: int, sx: Fraction, sy: Fraction) -> Real:
    """Return sum * sx / (sy * n) in real arithmetic, 0 for an empty window."""
    return exactly(sum(values) * sx / (sy * count) if count else Fraction(0))


def _divide(a: Real, b: Real, dtype: str) -> Real:
    """Divide by a number that may be infinite or 0."""
    if b.kind == "inf":
        return NAN if a.kind == "inf" else Real(a.negative != b.negative)
    if b.is_zero:
        return NAN if a.is_zero else Real(a.negative != b.negative, kind="inf")
    return floats.divide(a, b, dtype)


def _whole(value: int, dtype: str) -> Real:
    return nearest(exactly(Fraction(value)), dtype)


def by_multiplier(dtype: str) -> Mean:
    """Return sum * (sx / (sy * n))."""

    def mean(values: Sequence[int], count: int, sx: Fraction, sy: Fraction) -> Real:
        divisor = floats.multiply(exactly(sy), _whole(count, dtype), dtype)
        factor = _divide(exactly(sx), divisor, dtype)
        return floats.multiply(_whole(sum(values), dtype), factor, dtype)

    return _unless_empty(mean)


def by_reciprocal(dtype: str) -> Mean:
    """Return sum * sx * (1 / (sy * n))."""

    def mean(values: Sequence[int], count: int, sx: Fraction, sy: Fraction) -> Real:
        divisor = floats.multiply(exactly(sy), _whole(count, dtype), dtype)
        factor = _divide(exactly(Fraction(1)), divisor, dtype)
        product = floats.multiply(_whole(sum(values), dtype), exactly(sx), dtype)
        return floats.multiply(product, factor, dtype)

    return _unless_empty(mean)


def by_formula(dtype: str) -> Mean:
    """Return sum * sx / n / sy."""

    def mean(values: Sequence[int], count: int, sx: Fraction, sy: Fraction) -> Real:
        product = floats.multiply(_whole(sum(values), dtype), exactly(sx), dtype)
        return _divide(_divide(product, _whole(count, dtype), dtype), exactly(sy), dtype)

    return _unless_empty(mean)


def by_rounded_divisor(values: Sequence[int], count: int, sx: Fraction, sy: Fraction) -> Real:
    """Return sum * sx / float32(sy * n), which is exact but for the divisor."""
    divisor = nearest(exactly(sy * count), "float32")
    if not count or divisor.kind == "inf":
        return exactly(Fraction(0))
    return exactly(sum(values) * sx / divisor.value)


def in_turn(dtype: str) -> Mean:
    """Dequantize each element, add one after the other, and divide by n and the output scale."""

    def mean(values: Sequence[int], count: int, sx: Fraction, sy: Fraction) -> Real:
        total = Fraction(0)
        for value in values:
            term = floats.multiply(exactly(Fraction(value)), exactly(sx), dtype)
            if term.kind != "finite":
                return term
            added = nearest(exactly(total + term.value), dtype)
            if added.kind != "finite":
                return added
            total = added.value
        return _divide(_divide(exactly(total), _whole(count, dtype), dtype), exactly(sy), dtype)

    return _unless_empty(mean)


def _unless_empty(mean: Mean) -> Mean:
    return lambda values, count, sx, sy: (
        mean(values, count, sx, sy) if count else exactly(Fraction(0))
    )


MEANS: dict[str, Mean] = {
    "float32-multiplier": by_multiplier("float32"),
    "float32-formula": by_formula("float32"),
    "float32-reciprocal": by_reciprocal("float32"),
    "float32-divisor": by_rounded_divisor,
    "float32-in-turn": in_turn("float32"),
    "float64-multiplier": by_multiplier("float64"),
    "float64-reciprocal": by_reciprocal("float64"),
}
