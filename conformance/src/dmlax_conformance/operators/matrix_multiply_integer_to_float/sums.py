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
NEAR = 2**7  # parts of the last place


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
    word, side = floats.encode(Real(False, exact.magnitude), dtype), _side(exact)
    if word == FORMATS[dtype].infinity:
        return {f"overflows {side}"}
    if not word:
        return set() if exact.is_zero else {f"vanishes {side}"}
    steps, one = floats.in_last_places(exact.magnitude, FORMATS[dtype])
    whole, lost = divmod(steps, one)
    found = {"subnormal"} if word < 1 << FORMATS[dtype].fraction else set()
    if 2 * lost == one:
        return found | {f"tie, even {'above' if whole % 2 else 'below'}"}
    found |= {"near tie"} if abs(2 * lost - one) * NEAR < 2 * one else set()
    found |= {"exact" if not lost else "rounded up" if 2 * lost > one else "rounded down"}
    return found


def _side(exact: Real) -> str:
    return "below" if exact.negative else "above"


def _of_bias(product: Fraction, bias: Real, exact: Real, dtype: str) -> set[str]:
    side = "minus" if bias.negative else "plus"
    if bias.kind != "finite":
        return {"bias of NaN" if bias.kind == "nan" else f"bias of {side} infinity"}
    if bias.is_zero:
        return {"bias of minus zero"} if bias.negative else set()
    if not product:
        return set()
    found = {"bias cancels"} if exact.magnitude * 2**7 < abs(product) else set()
    if bias.magnitude * 2**25 < abs(product):
        steps, one = floats.in_last_places(abs(product), FORMATS[dtype])
        found |= {"bias decides a tie" if 2 * (steps % one) == one else "bias is lost"}
    return found
