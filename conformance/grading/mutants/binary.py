"""Mutants of the operators on two quantized tensors."""

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.oracle.binary import POINTS, SCALES
from dmlax_conformance.oracle.exact import exactly

from . import arithmetic
from .arithmetic import Rounding, fixed_point
from .engine.steps import Array, Call, Outputs, Sizes, fractions, of_float, to_float
from .family import load

OUTPUT = "OutputTensor"
NUMBERS = cache(to_float)  # a call has few different ones

# Stored bytes a and b, zero points, the differences x and y, scales: integers and fractions, or
# NumPy floats of one type.
Element = namedtuple("Element", "a b za zb zy x y sa sb sy")
Quotient = Callable[[Element], Any]  # to a fraction, a NumPy float, or an integer after rounding
Centre = Callable[[int, int, str], int]  # from a byte, a zero point and a data type
Ways = Mapping[str, Any]
Repeat = Callable[[Array, Sizes, str], Array]  # from an operand, the output's sizes, and "A" or "B"


def exact_sum(e: Element) -> Any:
    """Return the sum over the output scale."""
    return (e.x * e.sa + e.y * e.sb) / e.sy


def exact_product(e: Element) -> Any:
    """Return the product over the output scale."""
    return e.x * e.y * e.sa * e.sb / e.sy


@dataclass(frozen=True)
class Binary:
    """The steps, in order."""

    quotient: Quotient
    repeat: Repeat = lambda operand, sizes, side: np.broadcast_to(operand, sizes)
    centre: Centre = lambda byte, zero_point, dtype: byte - zero_point
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, call: Call) -> Outputs:
        """Return the quantized output."""
        given, dtype = call.inputs, call.outputs[OUTPUT].dtype
        a, b = given["ATensor"], given["BTensor"]
        sizes = np.broadcast_shapes(a.shape, b.shape)
        scales = [fractions(given[name])[0] for name in SCALES]
        za, zb, zy = (given[name].item() if name in given else 0 for name in POINTS)

        @cache
        def quantized(i: int, j: int) -> int:
            x, y = self.centre(i, za, a.dtype.name), self.centre(j, zb, b.dtype.name)
            value = self.quotient(Element(i, j, za, zb, zy, x, y, *scales))
            exact = of_float(value) if isinstance(value, np.floating) else exactly(Fraction(value))
            return self.rounding(exact, zy, dtype)

        operands = (
            self.repeat(tensor, sizes, side).reshape(-1).tolist()
            for tensor, side in ((a, "A"), (b, "B"))
        )
        return {OUTPUT: np.array(list(map(quantized, *operands)), dtype).reshape(sizes)}


def _in_floats(formulas: Ways, with_zero_point: bool = False) -> Ways:
    """Compute formulas, which may add the zero point before they round, in both float types."""

    def computed(formula: Quotient, dtype: str, e: Element) -> Any:
        value = formula(Element(*(NUMBERS(Fraction(number), dtype) for number in e)))
        return round(value) - e.zy if with_zero_point and np.isfinite(value) else value

    pairs = ((name, dtype) for name in formulas for dtype in ("float32", "float64"))
    return {f"{dtype}-{name}": partial(computed, formulas[name], dtype) for name, dtype in pairs}


def _fused(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""
    if not np.isfinite([a, b, c]).all():
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return to_float(exact, a.dtype.name)


def _in_integers(exact: Quotient, degree: int, e: Element) -> Any:
    """Count scales in units of the least float, of which they have a whole number."""
    sa, sb = (int(scale * 2**149) for scale in (e.sa, e.sb))
    return exact(e._replace(sa=sa, sb=sb, sy=e.sy * 2 ** (149 * degree)))


def _runtime_sum(fused: Callable[[Any, Any, Any], Any], e: Element) -> Any:
    """Add by two multipliers and three fused steps, as ONNX Runtime does."""
    ra, rb = e.sa / e.sy, e.sb / e.sy
    return fused(e.a, ra, fused(e.b, rb, e.zy - fused(ra, e.za, rb * e.zb)))


def _without_small_terms(bits: int, e: Element) -> Any:
    """Drop the term that is so many bits below the other."""
    small, large = sorted((e.x * e.sa, e.y * e.sb), key=abs)
    return (large + (small if abs(small) * 2**bits > abs(large) else 0)) / e.sy


def _with_scale_sticky(e: Element) -> Any:
    """Let a term count by its scale although its operand equals the zero point."""
    least, most = sorted((abs(e.sa), abs(e.sb)))
    return exact_sum(e) + (least / e.sy if most > least * 2**40 and 0 in (e.x, e.y) else 0)


def _of_product(change: Callable[[int], int]) -> Quotient:
    return lambda e: change(e.x * e.y) * e.sa * e.sb / e.sy


SUMS: Ways = {
    **_in_floats(
        {
            "terms": exact_sum,
            "terms-fused": lambda e: _fused(e.x, e.sa, e.y * e.sb) / e.sy,
            "terms-fused-on-b": lambda e: _fused(e.y, e.sb, e.x * e.sa) / e.sy,
            "reciprocal": lambda e: (e.x * e.sa + e.y * e.sb) * (1 / e.sy),
            "multipliers": lambda e: e.x * (e.sa / e.sy) + e.y * (e.sb / e.sy),
            "multipliers-fused": lambda e: _fused(e.x, e.sa / e.sy, e.y * (e.sb / e.sy)),
            "quotients": lambda e: e.x * e.sa / e.sy + e.y * e.sb / e.sy,
            "ratio-of-scales": lambda e: (e.x * (e.sa / e.sb) + e.y) * (e.sb / e.sy),
        }
    ),
    "two-roundings": lambda e: sum(map(round, (e.x * e.sa / e.sy, e.y * e.sb / e.sy))),
    **{
        f"{n}-bit-multipliers": lambda e, n=n: (
            e.x * fixed_point(e.sa / e.sy, n) + e.y * fixed_point(e.sb / e.sy, n)
        )
        for n in (8, 16, 22, 31, 62)
    },
    **{f"drops-terms-{n}-bits-below": partial(_without_small_terms, n) for n in (24, 53, 64, 128)},
    "counts-a-term-of-0": _with_scale_sticky,
    "subtracts": lambda e: (e.x * e.sa - e.y * e.sb) / e.sy,
    "subtracts-from-b": lambda e: (e.y * e.sb - e.x * e.sa) / e.sy,
    "multiplies": exact_product,
    "a-only": lambda e: e.x * e.sa / e.sy,
    "b-only": lambda e: e.y * e.sb / e.sy,
    "averages": lambda e: (e.x * e.sa + e.y * e.sb) / 2 / e.sy,
    "largest": lambda e: max(e.x * e.sa, e.y * e.sb) / e.sy,
    "one-scale-for-both": lambda e: (e.x + e.y) * e.sa / e.sy,
    "output-scale-ignored-for-b": lambda e: e.x * e.sa / e.sy + e.y * e.sb,
    "magnitudes": lambda e: (abs(e.x * e.sa) + abs(e.y * e.sb)) / e.sy,
}
ROUNDED_SUMS: Ways = _in_floats(
    {
        "runtime": partial(_runtime_sum, _fused),
        "runtime-swapped": lambda e: _runtime_sum(
            _fused, e._replace(a=e.b, b=e.a, za=e.zb, zb=e.za, sa=e.sb, sb=e.sa)
        ),
        "runtime-unfused": partial(_runtime_sum, lambda a, b, c: a * b + c),
    },
    with_zero_point=True,
)
PRODUCTS: Ways = {
    **_in_floats(
        {
            "terms": lambda e: (e.x * e.sa) * (e.y * e.sb) / e.sy,
            "one-multiplier": lambda e: e.x * e.y * (e.sa * e.sb / e.sy),
            "scale-ratio-first": lambda e: e.x * e.y * (e.sa / e.sy * e.sb),
            "reciprocal": lambda e: e.x * e.y * (e.sa * e.sb) * (1 / e.sy),
            "divides-last": lambda e: e.x * e.y * (e.sa * e.sb) / e.sy,
        }
    ),
    **{
        f"{n}-bit-multiplier": lambda e, n=n: e.x * e.y * fixed_point(e.sa * e.sb / e.sy, n)
        for n in (8, 16, 24, 31, 62)
    },
    "products-saturate-to-int16": _of_product(lambda p: min(max(p, -(2**15)), 2**15 - 1)),
    "products-wrap-to-int16": _of_product(lambda p: (p + 2**15) % 2**16 - 2**15),
    "products-wrap-to-uint16": _of_product(lambda p: p % 2**16),
    "products-without-sign": _of_product(abs),
    "high-halves-only": _of_product(lambda p: p >> 8 << 8),
    "adds": exact_sum,
    "a-only": SUMS["a-only"],
    "b-only": SUMS["b-only"],
    "a-scale-squared": lambda e: e.x * e.y * e.sa * e.sa / e.sy,
    "output-scale-squared": lambda e: e.x * e.y * e.sa * e.sb / (e.sy * e.sy),
    "differences-of-raw-b": lambda e: e.x * e.b * e.sa * e.sb / e.sy,
    "differences-of-raw-a": lambda e: e.a * e.y * e.sa * e.sb / e.sy,
}
ROUNDED_PRODUCTS: Ways = _in_floats(
    {
        "runtime": lambda e: (e.a - e.za) * (e.b - e.zb) * (e.sa * e.sb / e.sy) + e.zy,
        "runtime-fused": lambda e: _fused((e.a - e.za) * (e.b - e.zb), e.sa * e.sb / e.sy, e.zy),
    },
    with_zero_point=True,
)
INTEGER_SUM = {"integer-sum": partial(_in_integers, exact_sum, 1)}
INTEGER_PRODUCT = {"integer-product": partial(_in_integers, exact_product, 2)}

CENTRES: Mapping[str, Centre] = {
    "differences-wrap-to-8-bits": lambda byte, zero, dtype: (byte - zero + 128) % 256 - 128,
    "differences-saturate-to-int8": lambda byte, zero, dtype: min(max(byte - zero, -128), 127),
    "differences-are-not-negative": lambda byte, zero, dtype: max(byte - zero, 0),
    "differences-from-the-middle": lambda byte, zero, dtype: byte - 128 * (dtype == "uint8"),
}
REPEATS: Mapping[str, Callable[[Array, Sizes], Array]] = {
    "cycled": np.resize,
    "stretched": lambda array, sizes: np.repeat(array, prod(sizes) // array.size).reshape(sizes),
    "aligned-left": lambda array, sizes: array[(..., *[None] * (len(sizes) - array.ndim))],
    "first-of-last-axis": lambda array, sizes: array[..., :1],
    "first-of-first-axis": lambda array, sizes: array[:1],
}


def _repeats() -> Mapping[str, Repeat]:
    """Return wrong ways for A, for B, and for outputs of every rank."""

    def repeated(name: str, when: str, array: Array, sizes: Sizes, side: str) -> Array:
        repeats = array.shape not in (sizes, ()) and array.size > 0
        is_wrong = repeats and when in (side, str(len(sizes)))
        tried = REPEATS[name](array, sizes) if is_wrong else array
        fits = all(a in (1, b) for a, b in zip(tried.shape[::-1], sizes[::-1], strict=False))
        return np.broadcast_to(tried if fits else array, sizes)

    places = {f"{side.lower()}-{name}": (name, side) for name in REPEATS for side in "AB"}
    for rank in "2345678":
        places |= {f"{name}-at-rank-{rank}": (name, rank) for name in ("cycled", "stretched")}
    return {label: partial(repeated, *place) for label, place in places.items()}


def _swap(one: str, two: str, call: Call) -> Call:
    """Exchange two tensors, where both are there."""
    given = dict(call.inputs)
    if one in given and two in given:
        given[one], given[two] = given[two], given[one]
    return call._replace(inputs=given)


def both(*numbers: int) -> str:
    """Return clauses of both operators."""
    return " ".join(f"{label}-{number}" for label in ("ADD", "MUL") for number in numbers)


MUTANTS = load(
    "binary",
    {
        "element_wise_quantized_linear_add": {"binary": Binary(exact_sum)},
        "element_wise_quantized_linear_multiply": {"binary": Binary(exact_product)},
    },
    {
        **arithmetic.roundings("binary", both(2), both(3), both(1)),
        ("ADD-1", "binary.quotient"): SUMS,
        ("ADD-1 ADD-2", "binary.quotient"): ROUNDED_SUMS,
        ("MUL-1", "binary.quotient"): PRODUCTS,
        ("MUL-1 MUL-2", "binary.quotient"): ROUNDED_PRODUCTS,
        (both(1), "binary.centre"): CENTRES,
        (both(5), "binary.repeat"): _repeats(),
        (both(1), "whole"): {
            f"swaps-{label}": {"read": partial(_swap, f"{one}Tensor", f"{two}Tensor")}
            for label, one, two in (
                ("operands", "A", "B"),
                ("zero-points", "AZeroPoint", "BZeroPoint"),
                ("scale-of-a-and-output", "AScale", "OutputScale"),
                ("zero-point-of-a-and-output", "AZeroPoint", "OutputZeroPoint"),
            )
        },
        ("ADD-1", "whole"): {"swaps-scales": {"read": partial(_swap, *SCALES[:2])}},
        (both(2), "permitted binary.rounding"): arithmetic.PERMITTED_ROUNDINGS,
        ("ADD-1", "permitted binary.quotient"): INTEGER_SUM,
        ("MUL-1", "permitted binary.quotient"): INTEGER_PRODUCT,
    },
)
