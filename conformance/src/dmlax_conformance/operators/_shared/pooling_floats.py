"""Means of a pool as implementations in floats compute them, each step rounded."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from . import floats
from .floats import NAN, Real, exactly, nearest

Values = Sequence[int]
Mean = Callable[[Values, int, Fraction, Fraction], Real]  # differences, n, both scales


def exact_mean(values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
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


def by_multiplier(dtype: str, values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
    """Return sum * (sx / (sy * n))."""
    divisor = floats.multiply(exactly(sy), _whole(count, dtype), dtype)
    factor = _divide(exactly(sx), divisor, dtype)
    return floats.multiply(_whole(sum(values), dtype), factor, dtype)


def by_reciprocal(dtype: str, values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
    """Return sum * sx * (1 / (sy * n))."""
    divisor = floats.multiply(exactly(sy), _whole(count, dtype), dtype)
    factor = _divide(exactly(Fraction(1)), divisor, dtype)
    product = floats.multiply(_whole(sum(values), dtype), exactly(sx), dtype)
    return floats.multiply(product, factor, dtype)


def by_formula(dtype: str, values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
    """Return sum * sx / n / sy."""
    product = floats.multiply(_whole(sum(values), dtype), exactly(sx), dtype)
    return _divide(_divide(product, _whole(count, dtype), dtype), exactly(sy), dtype)


def by_rounded_divisor(values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
    """Return sum * sx / float32(sy * n), which is exact but for the divisor."""
    divisor = nearest(exactly(sy * count), "float32")
    if not count or divisor.kind == "inf":
        return exactly(Fraction(0))
    return exactly(sum(values) * sx / divisor.value)


def by_terms(dtype: str, values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
    """Dequantize each element, add one after the other, and divide by n and the output scale."""
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


def in_floats(way: Callable[..., Real], dtype: str) -> Mean:
    """Return one of the ways above in a float type; the mean of an empty window is 0."""
    return lambda values, count, sx, sy: (
        way(dtype, values, count, sx, sy) if count else exactly(Fraction(0))
    )


def in_turn(dtype: str) -> Mean:
    """Return the mean of terms that are rounded to a float type."""
    return in_floats(by_terms, dtype)


MEANS: dict[str, Mean] = {
    "float32-multiplier": in_floats(by_multiplier, "float32"),
    "float32-formula": in_floats(by_formula, "float32"),
    "float32-reciprocal": in_floats(by_reciprocal, "float32"),
    "float32-divisor": by_rounded_divisor,
    "float32-in-turn": in_turn("float32"),
    "float64-multiplier": in_floats(by_multiplier, "float64"),
    "float64-reciprocal": in_floats(by_reciprocal, "float64"),
}
