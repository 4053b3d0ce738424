"""Planted bugs of ELEMENT_WISE_QUANTIZE_LINEAR."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from ...suite.adapter import Case
from ...suite.bugs.descs import DescRules
from ...suite.bugs.element_wise import Quantize, divided
from ...suite.bugs.permitted import NAN_ROUNDINGS, ROUNDINGS
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug
from ...suite.bugs.refusals import Rules
from ...suite.bugs.rounding import Rounding, full_range
from ...suite.bugs.steps import of_float, to_float
from .._shared import element_wise_bugs as shared
from .._shared.element_wise_bugs import IMAGE, OUTPUT, POINT, SCALE
from .._shared.floats import Real
from .._shared.planted_bugs import Answers, Outputs, Steps, plant
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
    {**shared.IMPLIED, "quantize-same-dimension-count": shared.SAME_SIZES},
    "data-type:inputs",
    {"DataType": ((IMAGE, SCALE), (OUTPUT, POINT)), "DimensionCount": shared.ALIKE_RANKS},
)
ROLES = {
    IMAGE: ("QNT-1 QNT-4", "wide axes"),
    SCALE: ("QNT-1 QNT-5 QNT-6", "scale subnormal elements"),
    POINT: ("QNT-1 QNT-5", "zero-point elements"),
    f"{SCALE} {POINT}": ("QNT-5", "elements"),
}

PARTS = {"quantize": Quantize()}
RESULT = "QNT-1"
PERMITTED = (
    ("QNT-2", "quantize", "rounding", ROUNDINGS),
    ("QNT-7", "quantize", "rounding", NAN_ROUNDINGS),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, ROLES)
    yield from zero_points(OPERATOR, "QNT-8", {POINT: OUTPUT})
    yield from outputs(OPERATOR, {OUTPUT: ("QNT-4", "QNT-5")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from plant(OPERATOR, STEPS, OUTPUTS, ANSWERS)
    clauses = {"round": "QNT-2", "clamp": "QNT-3", "zero": "QNT-1 QNT-3", "exact": "QNT-1"}
    yield from of_rounding(OPERATOR, "quantize", clauses)
    yield from shared.of_parameters(OPERATOR, "QNT-5")


Divide = Callable[[Real, Fraction, str], Real]


Formula = Callable[[Any, Any], Any]


def _in(dtype: str, only: str, formula: Formula, x: Real, scale: Fraction, source: str) -> Real:
    """Divide in NumPy's floats; without a dtype, in that of the input (FLOAT32 for INT32)."""
    if x.kind != "finite" or (only and source != only):
        return divided(x, scale, source)
    own = dtype or ("float32" if source == "int32" else source)
    return of_float(formula(to_float(x.value, own), to_float(scale, own)))


def _quotient(x: Any, scale: Any) -> Any:
    return x / scale


def _by_reciprocal(x: Any, scale: Any) -> Any:
    return x * (type(scale)(1) / scale)


def _special(way: Callable[[Real, int, tuple[int, int]], int]) -> Rounding:
    """Give another integer for what is not finite, from the range of the output."""

    def special(quotient: Real, zero: int, dtype: str) -> int:
        return full_range(way(quotient, zero, RANGES[dtype]), dtype)

    return Rounding(special=special)


def _nan_is(value: Callable[[int], int]) -> Rounding:
    return _special(lambda q, zero, ends: value(zero) if q.kind == "nan" else ends[not q.negative])


STEPS: Steps = {
    ("QNT-1 QNT-4 QNT-6", "quantize", "divide"): {
        "float-division": partial(_in, "", "", _quotient),
        "float-reciprocal": partial(_in, "", "", _by_reciprocal),
        "float64-reciprocal": partial(_in, "float64", "", _by_reciprocal),
        "float32-division": partial(_in, "float32", "float32", _quotient),
        "float16-division": partial(_in, "float16", "float16", _quotient),
        "float32-reciprocal": partial(_in, "float32", "float32", _by_reciprocal),
        "float16-reciprocal": partial(_in, "float16", "float16", _by_reciprocal),
        "float16-reciprocal-in-float32": partial(_in, "float32", "float16", _by_reciprocal),
        "int32-as-float32": partial(_in, "float32", "int32", _quotient),
        "int32-as-float16": partial(_in, "float16", "int32", _quotient),
        "float32-as-float16": partial(_in, "float16", "float32", _quotient),
        "multiplies": partial(_in, "float64", "", lambda x, scale: x * scale),
        "input-without-sign": lambda x, scale, source: divided(
            replace(x, negative=False), scale, ""
        ),
        "epsilon": lambda x, scale, source: divided(x, scale + Fraction(1, 10**7), source),
    },
    ("QNT-7", "quantize", "divide"): {
        "infinity-keeps-sign": lambda x, scale, source: (
            x if x.kind != "finite" else divided(x, scale, source)
        ),
    },
    ("QNT-7", "quantize", "rounding"): {
        "infinity-is-lowest": _special(lambda quotient, zero, ends: ends[0]),
        "infinity-is-highest": _special(lambda quotient, zero, ends: ends[1]),
        "infinity-is-zero-point": _special(lambda quotient, zero, ends: zero),
        "nan-is-one-above-zero-point": _nan_is(lambda zero: zero + 1),
        "nan-is-0": _nan_is(lambda zero: 0),
    },
}
OUTPUTS: Outputs = {
    ("QNT-4", OUTPUT): {
        "output-is-a-float": lambda y, case: y.astype(case.inputs[IMAGE].dtype),
    },
}


def _has_float_scale_for(source: str) -> Callable[[Case], bool]:
    return lambda case: case.inputs[IMAGE].dtype == source and case.inputs[SCALE].dtype.kind == "f"


ANSWERS: Answers = {
    ("QNT-4", "accept", "data_type", SCALE): {
        f"accepts-float-scale-for-{source}": _has_float_scale_for(source)
        for source in ("float32", "float16", "int32")
    },
}
