"""Planted bugs of ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import trunc

import numpy as np

from ...format.tensors import DTYPES
from ...suite.adapter import Case
from ...suite.bugs.descs import DescRules
from ...suite.bugs.element_wise import Dequantize, difference_times_scale
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug, in_output, in_part
from ...suite.bugs.refusals import Rules
from ...suite.bugs.steps import Array, to_float, words
from .._shared import floats
from .._shared.element_wise_bugs import (
    ALIKE_RANKS,
    IMAGE,
    IMPLIED,
    OUTPUT,
    POINT,
    SAME_SIZES,
    SCALE,
    of_parameters,
)
from .._shared.floats import Real, exactly

OPERATOR = "element_wise_dequantize_linear"
RULES = Rules(
    OPERATOR,
    {
        "data_type": "DQT-2 DQT-3",
        "sizes": "DQT-4",
        "value": "DQT-1 DQT-5",
        "missing_tensor": "DQT-6",
    }
    | {"dimension_count": "DQT-4"},
    {
        "data_type": f"{IMAGE}:float32,int64,complex64 {SCALE}:int32,float64 {POINT}:int8,float32",
        "sizes": f"{SCALE} {POINT}",
        "value": f"{SCALE}:minus-zero,float16",
    },
)
Subtract = Callable[[int, int, str], int]
Multiply = Callable[[int, Fraction, str], int]
Convert = Callable[[int, int, Fraction, str, str], int]

DESCS = DescRules(
    OPERATOR,
    {**IMPLIED, "dequantize-same-dimension-count": SAME_SIZES},
    "",
    {"DataType": ((IMAGE, POINT), (SCALE, OUTPUT)), "DimensionCount": ALIKE_RANKS},
)

PARTS = {"dequantize": Dequantize()}
RESULT = "DQT-1"
PERMITTED = ()


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    roles = {
        IMAGE: ("DQT-1 DQT-2", "axes"),
        f"{IMAGE} {POINT}": ("DQT-1 DQT-2", "wide signed"),
        f"{SCALE} {POINT}": ("DQT-4", "elements"),
        SCALE: ("DQT-1 DQT-4 DQT-5", "scale subnormal elements"),
        POINT: ("DQT-1 DQT-2 DQT-4", "zero-point elements"),
    }
    yield from readings(OPERATOR, roles)
    yield from zero_points(OPERATOR, "DQT-6", {POINT: IMAGE})
    yield from outputs(OPERATOR, {OUTPUT: ("DQT-3", "DQT-4")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    differences = {name: _differing(way) for name, way in DIFFERENCES.items()}
    products = {name: _multiplying(way) for name, way in PRODUCTS.items()}
    ways = {**differences, **products, "products-subtracted": _apart, "products-fused": _fused}
    yield from in_part(OPERATOR, "DQT-1 DQT-2 DQT-3", "dequantize", "convert", ways)
    yield from of_parameters(OPERATOR, "DQT-4")
    minus_zero: dict[str, Callable[[Array, Case], Array]] = {
        "minus-zero": lambda y, case: np.where(y == 0, np.asarray(-0.0, y.dtype), y)
    }
    yield from in_output(OPERATOR, "DQT-1", OUTPUT, minus_zero)


def _differing(subtract: Subtract) -> Convert:
    return lambda word, zero, scale, source, dtype: _rounded(
        subtract(word, zero, source), scale, dtype
    )


def _multiplying(multiply: Multiply) -> Convert:
    return lambda word, zero, scale, source, dtype: multiply(word - zero, scale, dtype)


def _rounded(difference: int, scale: Fraction, dtype: str) -> int:
    """Return the bits of the product, rounded once."""
    return floats.encode(exactly(difference * scale), dtype)


def _apart(word: int, zero_point: int, scale: Fraction, source: str, dtype: str) -> int:
    """Multiply input and zero point each on its own, and subtract the rounded products."""
    a, b = (floats.nearest(exactly(each * scale), dtype) for each in (word, zero_point))
    if "inf" in (a.kind, b.kind):
        return difference_times_scale(word, zero_point, scale, source, dtype)
    return floats.encode(exactly(a.value - b.value), dtype)


def _fused(word: int, zero_point: int, scale: Fraction, source: str, dtype: str) -> int:
    """Round zero point * scale only, as a fused multiply-add does."""
    offset = floats.nearest(exactly(zero_point * scale), dtype)
    if offset.kind == "inf":
        return difference_times_scale(word, zero_point, scale, source, dtype)
    return floats.encode(exactly(word * scale - offset.value), dtype)


# -- the difference ----------------------------------------------------------------------------


def _in_bits(value: int, bits: int, unsigned: bool = False) -> int:
    """Keep the low bits, read with or without a sign."""
    low = 0 if unsigned else -(1 << (bits - 1))
    return (value - low) % (1 << bits) + low


def _in_own_type(word: int, zero_point: int, dtype: str) -> int:
    return _in_bits(word - zero_point, DTYPES[dtype].width, DTYPES[dtype].kind == "uint")


def _as_floats(dtype: str) -> Subtract:
    """Round both integers to a float type before they are subtracted."""

    def subtract(word: int, zero_point: int, source: str) -> int:
        a, b = (floats.nearest(exactly(Fraction(v)), dtype) for v in (word, zero_point))
        return word - zero_point if "inf" in (a.kind, b.kind) else int(a.value - b.value)

    return subtract


DIFFERENCES: dict[str, Subtract] = {
    "difference-reversed": lambda x, z, dtype: z - x,
    "difference-in-own-type": _in_own_type,
    "difference-saturates": lambda x, z, dtype: min(
        max(x - z, DTYPES[dtype].low), DTYPES[dtype].high
    ),
    "difference-in-32-bits": lambda x, z, dtype: _in_bits(x - z, 32),
    "difference-in-16-bits": lambda x, z, dtype: _in_bits(x - z, 16),
    "difference-is-unsigned": lambda x, z, dtype: _in_bits(x - z, 32, unsigned=True),
    "float32-before-difference": _as_floats("float32"),
    "float16-before-difference": _as_floats("float16"),
}


# -- the product -------------------------------------------------------------------------------


def _in(dtype: str, only: str = "") -> Multiply:
    """Multiply in NumPy's floats, then round to the type of the scale."""

    def multiply(difference: int, scale: Fraction, own: str) -> int:
        if only and own != only:
            return _rounded(difference, scale, own)
        if difference == 0:
            return 0
        product = to_float(Fraction(difference), dtype) * to_float(scale, dtype)
        return words(np.asarray(product).astype(own))[0]

    return multiply


def _cut(difference: int, scale: Fraction, dtype: str) -> int:
    """Truncate the mantissa instead of rounding it."""
    word = _rounded(difference, scale, dtype)
    number = floats.decode(word, dtype)
    is_beyond = number.kind == "finite" and number.magnitude > abs(difference * scale)
    return word - 1 if is_beyond else word


def _half_away(difference: int, scale: Fraction, dtype: str) -> int:
    exact = abs(difference * scale)
    word = _rounded(difference, scale, dtype)
    number, above = (floats.decode(each, dtype) for each in (word, word + 1))
    if above.kind != "finite" or number.kind != "finite":
        return word
    return word + 1 if exact - number.magnitude == above.magnitude - exact else word


def _flushed(difference: int, scale: Fraction, dtype: str) -> int:
    word, form = _rounded(difference, scale, dtype), floats.FORMATS[dtype]
    return word if word >> form.fraction & ((1 << form.exponent) - 1) else 0


def _finite(difference: int, scale: Fraction, dtype: str) -> int:
    """Give the largest finite number instead of an infinity."""
    word = _rounded(difference, scale, dtype)
    return word - 1 if floats.decode(word, dtype).kind == "inf" else word


PRODUCTS: dict[str, Multiply] = {
    "float32-product": _in("float32"),
    "float64-product": _in("float64"),
    "float16-product": _in("float16", "float16"),
    "float16-through-float32": _in("float32", "float16"),
    "float32-through-float16": _in("float16", "float32"),
    "truncates": _cut,
    "half-away-from-zero": _half_away,
    "integers-only": lambda d, scale, dtype: _rounded(trunc(d * scale), Fraction(1), dtype),
    "flushes-result": _flushed,
    "saturates": _finite,
    "signed-zero": lambda d, scale, dtype: (
        _rounded(d, scale, dtype) if d else floats.encode(Real(scale < 0), dtype)
    ),
    "flushes-scale": lambda d, scale, dtype: (
        _rounded(d, scale, dtype) if abs(scale) >= Fraction(2) ** -126 else 0
    ),
}
