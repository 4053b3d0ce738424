"""Planted bugs of ELEMENT_WISE_QUANTIZE_LINEAR."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ...suite.adapter import Case
from ...suite.bugs.descs import DescRules
from ...suite.bugs.element_wise import Quantize, divided
from ...suite.bugs.permitted import NAN_ROUNDINGS, ROUNDINGS
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug, in_output, in_part
from ...suite.bugs.refusals import Rules, accept, in_refusals
from ...suite.bugs.rounding import Rounding
from ...suite.bugs.steps import of_float, to_float
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
from .._shared.floats import Real
from .._shared.rounding import RANGES
from .._shared.rounding_bugs import of_rounding

OPERATOR = "element_wise_quantize_linear"
RULES = Rules(
    OPERATOR,
    {"data_type": "QNT-4", "sizes": "QNT-5", "value": "QNT-6", "missing_tensor": "QNT-8"}
    | {"dimension_count": "QNT-5"},
    {
        "data_type": f"{IMAGE}:uint8,int16,complex64 {SCALE}:int32,float16,float32"
        f" {POINT}:float32,int8 {OUTPUT}",
        "sizes": f"{SCALE} {POINT}",
        "value": f"{SCALE}:minus-zero,float16",
    },
)

DESCS = DescRules(
    OPERATOR,
    {**IMPLIED, "quantize-same-dimension-count": SAME_SIZES},
    "data-type:inputs",
    {"DataType": ((IMAGE, SCALE), (OUTPUT, POINT)), "DimensionCount": ALIKE_RANKS},
)

PARTS = {"quantize": Quantize()}
RESULT = "QNT-1"
PERMITTED = (
    ("QNT-2", "quantize", "rounding", ROUNDINGS),
    ("QNT-7", "quantize", "rounding", NAN_ROUNDINGS),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    roles = {
        IMAGE: ("QNT-1 QNT-4", "wide axes"),
        SCALE: ("QNT-1 QNT-5 QNT-6", "scale subnormal elements"),
        POINT: ("QNT-1 QNT-5", "zero-point elements"),
        f"{SCALE} {POINT}": ("QNT-5", "elements"),
    }
    yield from readings(OPERATOR, roles)
    yield from zero_points(OPERATOR, "QNT-8", {POINT: OUTPUT})
    yield from outputs(OPERATOR, {OUTPUT: ("QNT-4", "QNT-5")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from in_part(OPERATOR, "QNT-1 QNT-4 QNT-6", "quantize", "divide", QUOTIENTS)
    specials = {name: Rounding(special=way) for name, way in SPECIALS.items()}
    yield from in_part(OPERATOR, "QNT-7", "quantize", "rounding", specials)
    yield from in_part(OPERATOR, "QNT-7", "quantize", "divide", {"infinity-keeps-sign": _kept})
    clauses = {"round": "QNT-2", "clamp": "QNT-3", "zero": "QNT-1 QNT-3", "exact": "QNT-1"}
    yield from of_rounding(OPERATOR, "quantize", clauses)
    yield from of_parameters(OPERATOR, "QNT-5")
    as_input = {"output-is-a-float": lambda y, case: y.astype(case.inputs[IMAGE].dtype)}
    yield from in_output(OPERATOR, "QNT-4", OUTPUT, as_input)
    calls = {
        f"accepts-float-scale-for-{source}": _has_float_scale_for(source)
        for source in ("float32", "float16", "int32")
    }
    yield from in_refusals(OPERATOR, "QNT-4", accept, "data_type", SCALE, calls)


def _has_float_scale_for(source: str) -> Callable[[Case], bool]:
    return lambda case: case.inputs[IMAGE].dtype == source and case.inputs[SCALE].dtype.kind == "f"


# -- the quotient ------------------------------------------------------------------------------


Divide = Callable[[Real, Fraction, str], Real]


def _in(dtype: str | None, formula: Callable[[Any, Any], Any], only: str = "") -> Divide:
    """Divide in NumPy's floats; without a dtype, in that of the input (FLOAT32 for INT32)."""

    def divide(x: Real, scale: Fraction, source: str) -> Real:
        if x.kind != "finite" or (only and source != only):
            return divided(x, scale, source)
        own = dtype or ("float32" if source == "int32" else source)
        return of_float(formula(to_float(x.value, own), to_float(scale, own)))

    return divide


def _quotient(x: Any, scale: Any) -> Any:
    return x / scale


def _by_reciprocal(x: Any, scale: Any) -> Any:
    return x * (type(scale)(1) / scale)


def _kept(x: Real, scale: Fraction, source: str) -> Real:
    """Keep the sign of an infinity under a negative scale."""
    return x if x.kind != "finite" else divided(x, scale, source)


QUOTIENTS: dict[str, Divide] = {
    "float-division": _in(None, _quotient),
    "float32-division": _in("float32", _quotient, "float32"),
    "float16-division": _in("float16", _quotient, "float16"),
    "float32-reciprocal": _in("float32", _by_reciprocal, "float32"),
    "float16-reciprocal": _in("float16", _by_reciprocal, "float16"),
    "float16-reciprocal-in-float32": _in("float32", _by_reciprocal, "float16"),
    "int32-as-float32": _in("float32", _quotient, "int32"),
    "int32-as-float16": _in("float16", _quotient, "int32"),
    "float32-as-float16": _in("float16", _quotient, "float32"),
    "multiplies": _in("float64", lambda x, scale: x * scale),
    "input-without-sign": lambda x, scale, source: divided(replace(x, negative=False), scale, ""),
    "epsilon": lambda x, scale, source: divided(x, scale + Fraction(1, 10**7), source),
}
SPECIALS: dict[str, Callable[[Real, int, str], int]] = {
    "infinity-is-lowest": lambda quotient, zero, dtype: RANGES[dtype][0],
    "infinity-is-highest": lambda quotient, zero, dtype: RANGES[dtype][1],
    "infinity-is-zero-point": lambda quotient, zero, dtype: zero,
    "nan-is-one-above-zero-point": lambda quotient, zero, dtype: (
        zero + 1 if quotient.kind == "nan" else RANGES[dtype][not quotient.negative]
    ),
    "nan-is-0": lambda quotient, zero, dtype: (
        0 if quotient.kind == "nan" else RANGES[dtype][not quotient.negative]
    ),
}
