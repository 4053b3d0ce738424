"""Planted bugs of ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from math import trunc

import numpy as np

from ...format.tensors import DTYPES
from ...suite.bugs.descs import DescRules
from ...suite.bugs.element_wise import Dequantize, difference_times_scale
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug
from ...suite.bugs.refusals import Rules
from ...suite.bugs.steps import to_float, words
from .._shared import element_wise_bugs as shared
from .._shared import floats
from .._shared.element_wise_bugs import IMAGE, OUTPUT, POINT, SCALE
from .._shared.floats import Real, exactly
from .._shared.planted_bugs import Outputs, Steps, plant

OPERATOR = "element_wise_dequantize_linear"
RULES = Rules(
    OPERATOR,
    {"data_type": "DQT-2 DQT-3", "sizes": "DQT-4", "value": "DQT-1 DQT-5"}
    | {"missing_tensor": "DQT-6", "dimension_count": "DQT-4"},
    {
        "data_type": f"{IMAGE}:float32,int64,complex64 {SCALE}:int32,float64 {POINT}:int8,float32",
        "sizes": f"{SCALE} {POINT}",
        "value": f"{SCALE}:minus-zero,float16",
    },
)
DESCS = DescRules(
    OPERATOR,
    {**shared.IMPLIED, "dequantize-same-dimension-count": shared.SAME_SIZES},
    "",
    {"DataType": ((IMAGE, POINT), (SCALE, OUTPUT)), "DimensionCount": shared.ALIKE_RANKS},
)
ROLES = {
    IMAGE: ("DQT-1 DQT-2", "axes"),
    f"{IMAGE} {POINT}": ("DQT-1 DQT-2", "wide signed"),
    f"{SCALE} {POINT}": ("DQT-4", "elements"),
    SCALE: ("DQT-1 DQT-4 DQT-5", "scale subnormal elements"),
    POINT: ("DQT-1 DQT-2 DQT-4", "zero-point elements"),
}
Convert = Callable[[int, int, Fraction, str, str], int]

PARTS = {"dequantize": Dequantize()}
RESULT = "DQT-1"
PERMITTED = ()


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, ROLES)
    yield from zero_points(OPERATOR, "DQT-6", {POINT: IMAGE})
    yield from outputs(OPERATOR, {OUTPUT: ("DQT-3", "DQT-4")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from plant(OPERATOR, STEPS, OUTPUTS, {})
    yield from shared.of_parameters(OPERATOR, "DQT-4")


def _rounded(difference: int, scale: Fraction, dtype: str) -> int:
    """Return the bits of the product, rounded once."""
    return floats.encode(exactly(difference * scale), dtype)


def _subtract(way: Callable[[int, int, str], int]) -> Convert:
    """Take another difference of input and zero point, in the data type of the input."""
    return lambda x, z, scale, source, dtype: _rounded(way(x, z, source), scale, dtype)


def _multiply(way: Callable[[int, Fraction, str], int]) -> Convert:
    """Make another product of difference and scale, in the data type of the output."""
    return lambda x, z, scale, source, dtype: way(x - z, scale, dtype)


def _round_product(
    is_fused: bool, word: int, zero_point: int, scale: Fraction, source: str, dtype: str
) -> int:
    """Multiply input and zero point each on its own; round both or the latter, then subtract."""
    a, b = (exactly(each * scale) for each in (word, zero_point))
    a, b = a if is_fused else floats.nearest(a, dtype), floats.nearest(b, dtype)
    if "inf" in (a.kind, b.kind):
        return difference_times_scale(word, zero_point, scale, source, dtype)
    return floats.encode(exactly(a.value - b.value), dtype)


def _in_bits(value: int, bits: int, unsigned: bool = False) -> int:
    """Keep the low bits, read with or without a sign."""
    low = 0 if unsigned else -(1 << (bits - 1))
    return (value - low) % (1 << bits) + low


def _as_floats(dtype: str) -> Convert:
    """Round both integers to a float type before they are subtracted."""

    def subtract(word: int, zero_point: int, source: str) -> int:
        a, b = (floats.nearest(exactly(Fraction(v)), dtype) for v in (word, zero_point))
        return word - zero_point if "inf" in (a.kind, b.kind) else int(a.value - b.value)

    return _subtract(subtract)


def _in(dtype: str, only: str = "") -> Convert:
    """Multiply in NumPy's floats, then round to the type of the scale."""

    def multiply(difference: int, scale: Fraction, own: str) -> int:
        if only and own != only:
            return _rounded(difference, scale, own)
        product = to_float(Fraction(difference), dtype) * to_float(scale, dtype)
        return words(np.asarray(product).astype(own))[0] if difference else 0

    return _multiply(multiply)


def _cut(difference: int, scale: Fraction, dtype: str) -> int:
    """Truncate the mantissa instead of rounding it."""
    word = _rounded(difference, scale, dtype)
    number = floats.decode(word, dtype)
    is_beyond = number.kind == "finite" and number.magnitude > abs(difference * scale)
    return word - 1 if is_beyond else word


def _half_away(difference: int, scale: Fraction, dtype: str) -> int:
    exact, word = abs(difference * scale), _rounded(difference, scale, dtype)
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


STEPS: Steps = {
    ("DQT-1 DQT-2 DQT-3", "dequantize", "convert"): {
        "difference-reversed": _subtract(lambda x, z, dtype: z - x),
        "difference-in-own-type": _subtract(
            lambda x, z, dtype: _in_bits(x - z, DTYPES[dtype].width, DTYPES[dtype].kind == "uint")
        ),
        "difference-saturates": _subtract(
            lambda x, z, dtype: min(max(x - z, DTYPES[dtype].low), DTYPES[dtype].high)
        ),
        "difference-in-32-bits": _subtract(lambda x, z, dtype: _in_bits(x - z, 32)),
        "difference-in-16-bits": _subtract(lambda x, z, dtype: _in_bits(x - z, 16)),
        "difference-is-unsigned": _subtract(lambda x, z, dtype: _in_bits(x - z, 32, unsigned=True)),
        "float32-before-difference": _as_floats("float32"),
        "float16-before-difference": _as_floats("float16"),
        "float32-product": _in("float32"),
        "float64-product": _in("float64"),
        "float16-product": _in("float16", "float16"),
        "float16-through-float32": _in("float32", "float16"),
        "float32-through-float16": _in("float16", "float32"),
        "truncates": _multiply(_cut),
        "half-away-from-zero": _multiply(_half_away),
        "integers-only": _multiply(lambda d, s, dtype: _rounded(trunc(d * s), Fraction(1), dtype)),
        "flushes-result": _multiply(_flushed),
        "saturates": _multiply(_finite),
        "signed-zero": _multiply(
            lambda d, s, dtype: _rounded(d, s, dtype) if d else floats.encode(Real(s < 0), dtype)
        ),
        "flushes-scale": _multiply(
            lambda d, s, dtype: _rounded(d, s, dtype) if abs(s) >= Fraction(2) ** -126 else 0
        ),
        "products-subtracted": partial(_round_product, False),
        "products-fused": partial(_round_product, True),
    },
}
OUTPUTS: Outputs = {
    ("DQT-1", OUTPUT): {
        "minus-zero": lambda y, case: np.where(y == 0, np.asarray(-0.0, y.dtype), y),
    },
}
