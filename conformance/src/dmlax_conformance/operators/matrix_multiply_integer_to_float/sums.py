"""Classes of what a sum, two scales and a bias come to when they are rounded once."""

from fractions import Fraction

from .._shared import floats
from .._shared.floats import FORMATS, Real
from .meaning import add

CLASSES = (
    *("exact", "rounded down", "rounded up", "tie, even below", "tie, even above", "near tie"),
    *("subnormal", "overflows above", "overflows below", "vanishes above", "vanishes below"),
    *("zero", "zero of a negative scale"),
)
OF_BIAS = (
    *("bias of minus zero", "bias of NaN", "bias of plus infinity", "bias of minus infinity"),
    *("bias cancels", "bias decides a tie", "bias is lost"),
)
NEAR = Fraction(1, 2**7)  # of the last place


def classes_of(total: int, factor: Fraction, bias: Real | None, dtype: str) -> set[str]:
    """Return the classes of a sum, the product of its scales, and a bias, if there is one."""
    product = total * factor
    exact = add(product, bias or Real(False))
    found = _of_bias(product, bias, exact, dtype) if bias else set[str]()
    if exact.kind != "finite":
        return found
    if not total and exact.is_zero:
        found |= {"zero"} | ({"zero of a negative scale"} if factor < 0 else set())
    return found | (_rounding(exact, dtype) if product else set())


def _rounding(exact: Real, dtype: str) -> set[str]:
    nearest, side = floats.nearest(exact, dtype), "below" if exact.negative else "above"
    if nearest.kind == "inf":
        return {f"overflows {side}"}
    if nearest.is_zero:
        return set() if exact.is_zero else {f"vanishes {side}"}
    steps = exact.magnitude / last_place(exact.magnitude, dtype)
    lost = steps - steps.__floor__()
    found = {"subnormal"} if nearest.magnitude < Fraction(2) ** (1 - FORMATS[dtype].bias) else set()
    if lost == Fraction(1, 2):
        return found | {f"tie, even {'above' if steps.__floor__() % 2 else 'below'}"}
    found |= {"near tie"} if abs(lost - Fraction(1, 2)) < NEAR else set()
    found |= {"exact" if not lost else "rounded up" if lost > Fraction(1, 2) else "rounded down"}
    return found


def _of_bias(product: Fraction, bias: Real, exact: Real, dtype: str) -> set[str]:
    side = "minus" if bias.negative else "plus"
    if bias.kind != "finite":
        return {"bias of NaN" if bias.kind == "nan" else f"bias of {side} infinity"}
    if bias.is_zero:
        return {"bias of minus zero"} if bias.negative else set()
    if not product:
        return set()
    found = {"bias cancels"} if exact.magnitude * 2**7 < abs(product) else set()
    steps = abs(product) / last_place(abs(product), dtype)
    if bias.magnitude * 2**25 < abs(product):
        found |= {"bias decides a tie" if steps % 1 == Fraction(1, 2) else "bias is lost"}
    return found


def last_place(magnitude: Fraction, dtype: str) -> Fraction:
    """Return the unit in the last place at this magnitude."""
    return Fraction(2) ** floats._last_place(magnitude, FORMATS[dtype])
