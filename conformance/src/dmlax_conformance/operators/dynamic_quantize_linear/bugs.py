"""Planted bugs of DYNAMIC_QUANTIZE_LINEAR."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor, trunc
from typing import Any

import numpy as np

from ...suite.bugs.descs import DescRules
from ...suite.bugs.permitted import ROUNDINGS
from ...suite.bugs.readings import outputs, readings
from ...suite.bugs.record import Bug
from ...suite.bugs.refusals import Rules
from ...suite.bugs.rounding import Rounding
from ...suite.bugs.steps import Call, Outputs, of_float, reals, to_float
from .._shared import floats
from .._shared.floats import Real, exactly, round_half_even
from .._shared.planted_bugs import Answers, Steps, plant
from .._shared.rounding import RANGES, clamp
from .._shared.rounding_bugs import of_rounding

OPERATOR = "dynamic_quantize_linear"
IMAGE, OUTPUT, SCALE = "InputTensor", "OutputTensor", "OutputScaleTensor"
POINT = "OutputZeroPointTensor"
RULES = Rules(
    OPERATOR,
    {"data_type": "DYN-6", "dimension_count": "DYN-8"},
    {"data_type": f"{IMAGE}:int32,uint8 {OUTPUT}"},
)
DESCS = DescRules(
    OPERATOR,
    {"tensor-element-limit": "the output cannot be so large"},
    "",
    {"DataType": ((OUTPUT, POINT),), "DimensionCount": ((IMAGE, OUTPUT, SCALE, POINT),)},
)

Values = Sequence[Fraction]
Ends = tuple[Fraction, Fraction]
ZERO, ONE = Fraction(0), Fraction(1)
LEAST = Fraction(2) ** -149


def with_zero(values: Values) -> Ends:
    """Return the ends of the range."""
    return min([ZERO, *values]), max([ZERO, *values])


def rounded_once(low: Fraction, high: Fraction) -> Fraction:
    """Return the scale, 0 where there is none."""
    return floats.nearest(exactly((high - low) / 255), "float32").value


def one(low: Fraction, high: Fraction) -> Fraction:
    """Return the scale that stands for 0."""
    return ONE


def from_the_lowest(low: Fraction, high: Fraction, scale: Fraction, dtype: str) -> int:
    """Return the zero point before the clamp."""
    return round_half_even(RANGES[dtype][0] - low / scale)


def divided(x: Fraction, scale: Fraction) -> Real:
    """Return the exact quotient."""
    return exactly(x / scale)


@dataclass(frozen=True)
class Dynamic:
    """The steps, in order."""

    ends: Callable[[Values], Ends] = with_zero
    scale: Callable[[Fraction, Fraction], Fraction] = rounded_once
    nothing: Callable[[Fraction, Fraction], Fraction] = one
    point: Callable[[Fraction, Fraction, Fraction, str], int] = from_the_lowest
    clamp: Callable[[int, str], int] = clamp
    divide: Callable[[Fraction, Fraction], Real] = divided
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, call: Call) -> Outputs:
        """Return the three outputs; 0 and NaN where they are open."""
        x, dtype = call.inputs[IMAGE], call.outputs[OUTPUT].dtype
        numbers, found = reals(x), [0] * x.size
        scale, point = np.float32(np.nan), 0
        if all(number.kind == "finite" for number in numbers):
            values = [number.value for number in numbers]
            low, high = self.ends(values)
            exact = self.scale(low, high) or self.nothing(low, high)
            scale = to_float(exact, "float32")
            point = self.clamp(self.point(low, high, exact, dtype), dtype)
            known = {v: self.rounding(self.divide(v, exact), point, dtype) for v in set(values)}
            found = [known[value] for value in values]
        return {
            OUTPUT: np.array(found, dtype).reshape(x.shape),
            SCALE: np.full(call.outputs[SCALE].sizes, scale, np.float32),
            POINT: np.full(call.outputs[POINT].sizes, point, dtype),
        }


PARTS, RESULT = {"dynamic": Dynamic()}, "DYN-5"
PERMITTED = (("DYN-5", "dynamic", "rounding", ROUNDINGS),)
NEVER = "16-bits 32-bits"  # no quotient is so large


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, {IMAGE: ("DYN-1 DYN-5 DYN-6 DYN-8", "wide axes elements")})
    clauses = {OUTPUT: ("DYN-6", "DYN-5"), SCALE: ("DYN-6", "DYN-8"), POINT: ("DYN-6", "DYN-8")}
    yield from outputs(OPERATOR, clauses, f"{SCALE} {POINT}")


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from plant(OPERATOR, STEPS, {}, ANSWERS)
    clauses = {"round": "DYN-5", "clamp": "DYN-5", "exact": "DYN-5"}
    for each in of_rounding(OPERATOR, "dynamic", clauses):
        if not any(word in each.id for word in NEVER.split()):
            yield each


def _to(dtype: str, value: Fraction) -> Fraction:
    """Round to a float type; what overflows becomes its largest number."""
    number = floats.nearest(exactly(value), dtype)
    return number.value if number.kind == "finite" else Fraction(2) ** 127 * (1 - 2 * (value < 0))


def _whole_blocks(size: int) -> Callable[[Values], Ends]:
    """Leave out what is no whole block, if there is one."""
    return lambda values: with_zero(values[: len(values) // size * size or None])


def _in_float32(formula: Callable[[Any, Any], Any]) -> Callable[[Fraction, Fraction], Real]:
    return lambda x, scale: of_float(formula(to_float(x, "float32"), to_float(scale, "float32")))


def _point(rule: Callable[[Fraction], int]) -> Callable[[Fraction, Fraction, Fraction, str], int]:
    return lambda low, high, scale, dtype: rule(RANGES[dtype][0] - low / scale)


STEPS: Steps = {
    ("DYN-1", "dynamic", "ends"): {
        "range-without-0": lambda values: (min(values, default=ZERO), max(values, default=ZERO)),
        "range-without-0-below": lambda values: (min(values, default=ZERO), max([ZERO, *values])),
        "range-without-0-above": lambda values: (min([ZERO, *values]), max(values, default=ZERO)),
        "symmetric-range": lambda values: (
            -max([ZERO, *map(abs, values)]),
            max([ZERO, *map(abs, values)]),
        ),
        "largest-only": lambda values: (ZERO, max([ZERO, *values])),
        "least-only": lambda values: (min([ZERO, *values]), ZERO),
        "range-of-magnitudes": lambda values: (ZERO, max([ZERO, *map(abs, values)])),
        "range-without-the-first": lambda values: with_zero(values[1:]),
        "range-without-the-last": lambda values: with_zero(values[:-1]),
        **{f"range-of-whole-{n}s": _whole_blocks(n) for n in (4, 8, 16, 32, 64)},
        **{f"range-of-{n}": (lambda v, n=n: with_zero(v[:n])) for n in (8, 16, 32, 64, 128)},
        **{f"range-from-{n}": (lambda v, n=n: with_zero(v[n:] or v)) for n in (8, 16, 32, 64)},
        "every-second": lambda values: with_zero(values[::2]),
        "range-in-float16": lambda values: with_zero([_to("float16", v) for v in values]),
        "subnormals-are-0": lambda values: with_zero(
            [v if abs(v) >= 2**23 * LEAST else ZERO for v in values]
        ),
    },
    ("DYN-2", "dynamic", "scale"): {
        "over-256": lambda low, high: _to("float32", (high - low) / 256),
        "over-254": lambda low, high: _to("float32", (high - low) / 254),
        "over-127": lambda low, high: _to("float32", (high - low) / 127),
        "rounds-the-length": lambda low, high: _to("float32", _to("float32", high - low) / 255),
        "rounds-both-ends": lambda low, high: _to(
            "float32", _to("float32", high / 255) - _to("float32", low / 255)
        ),
        "by-reciprocal": lambda low, high: _to(
            "float32", (high - low) * _to("float32", Fraction(1, 255))
        ),
        "scale-in-float16": lambda low, high: _to("float16", (high - low) / 255),
        "subnormal-scale-is-0": lambda low, high: (
            s if (s := rounded_once(low, high)) >= 2**23 * LEAST else ZERO
        ),
        "scale-of-at-least-1e-7": lambda low, high: max(
            rounded_once(low, high), Fraction(1, 10**7) if high > low else ZERO
        ),
    },
    ("DYN-3", "dynamic", "nothing"): {
        "nothing-is-a-255th": lambda low, high: _to("float32", Fraction(1, 255)),
        "nothing-is-the-least": lambda low, high: LEAST,
        "nothing-is-the-least-normal": lambda low, high: 2**23 * LEAST,
        "nothing-is-the-least-if-not-0": lambda low, high: LEAST if high > low else ONE,
    },
    ("DYN-4", "dynamic", "point"): {
        "point-truncated": _point(trunc),
        "point-floored": _point(floor),
        "point-half-up": _point(lambda value: floor(value + Fraction(1, 2))),
        "point-from-the-highest": lambda low, high, scale, dtype: round_half_even(
            RANGES[dtype][1] - high / scale
        ),
        "point-by-exact-scale": lambda low, high, scale, dtype: round_half_even(
            RANGES[dtype][0] - (low * 255 / (high - low) if high > low else ZERO)
        ),
        "point-of-0": lambda low, high, scale, dtype: 0,
        "point-of-uint8": lambda low, high, scale, dtype: round_half_even(-low / scale),
        "point-in-the-middle": lambda low, high, scale, dtype: (sum(RANGES[dtype]) + 1) // 2,
        "point-without-sign": lambda low, high, scale, dtype: round_half_even(
            RANGES[dtype][0] + low / scale
        ),
        "point-in-float32": lambda low, high, scale, dtype: round_half_even(
            RANGES[dtype][0] - _to("float32", low / scale)
        ),
    },
    ("DYN-4", "dynamic", "clamp"): {
        "point-wraps": lambda value, dtype: (value - RANGES[dtype][0]) % 256 + RANGES[dtype][0],
        "point-is-not-the-end": lambda value, dtype: min(clamp(value, dtype), RANGES[dtype][1] - 1),
    },
    ("DYN-5", "dynamic", "divide"): {
        "float32-division": _in_float32(lambda x, scale: x / scale),
        "float32-reciprocal": _in_float32(lambda x, scale: x * (np.float32(1) / scale)),
        "without-sign": lambda x, scale: exactly(abs(x) / scale),
        "multiplies": lambda x, scale: exactly(x * scale),
    },
}
ANSWERS: Answers = {
    ("DYN-7", "refuse", "value", IMAGE): {
        "refuses-nan": lambda case: np.isnan(case.inputs[IMAGE]).any(),
        "refuses-infinities": lambda case: np.isinf(case.inputs[IMAGE]).any(),
    },
}
