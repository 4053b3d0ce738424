"""Mutants of dynamic quantization."""

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import floor, trunc

import numpy as np

from dmlax_conformance.oracle.exact import RANGES, clamp, exactly, nearest

from . import arithmetic
from .arithmetic import Rounding
from .element_wise import DIVISIONS, Element, Quantize, Way, exact
from .engine.mutant import Table
from .engine.steps import Call, Outputs, to_float
from .family import load

IMAGE, OUTPUT = "InputTensor", "OutputTensor"
SCALE, POINT = "OutputScaleTensor", "OutputZeroPointTensor"
Values = Sequence[Fraction]
Range = namedtuple("Range", "low high scale lowest highest")  # the last two of the data type
ZERO, LEAST, NORMAL = Fraction(0), Fraction(2) ** -149, Fraction(2) ** -126


@dataclass(frozen=True)
class Dynamic:
    """The steps, in order."""

    values: Callable[[Values], Values] = lambda values: values
    ends: Callable[[Values], Values] = lambda values: (min([ZERO, *values]), max([ZERO, *values]))
    scale: Callable[[Fraction, Fraction], Fraction] = lambda low, high: (high - low) / 255
    nothing: Callable[[Fraction, Fraction], Fraction] = lambda low, high: Fraction(1)
    point: Callable[[Range], Fraction] = lambda r: r.lowest - r.low / r.scale
    place: Callable[[Fraction], int] = round
    clamp: Callable[[int, str], int] = clamp
    divide: Way = Quantize.divide
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, call: Call) -> Outputs:
        """Return the three outputs; 0 and NaN where they are open."""
        x, dtype = call.inputs[IMAGE], call.outputs[OUTPUT].dtype
        quantized, scale, point = [0] * x.size, np.float32(np.nan), 0
        if np.isfinite(x).all():
            values = [Fraction(value) for value in x.reshape(-1).tolist()]
            low, high = self.ends(self.values(values))
            step = _float32(self.scale(low, high)) or self.nothing(low, high)
            real = self.point(Range(low, high, step, *RANGES[dtype]))
            scale, point = to_float(step, "float32"), self.clamp(self.place(real), dtype)
            e = Element(ZERO, point, step, "float32", "float32")
            quotients = {value: exact(self.divide(e._replace(x=value))) for value in set(values)}
            quantized = [self.rounding(quotients[value], point, dtype) for value in values]
        return {
            OUTPUT: np.array(quantized, dtype).reshape(x.shape),
            SCALE: np.full(call.outputs[SCALE].sizes, scale, np.float32),
            POINT: np.full(call.outputs[POINT].sizes, point, dtype),
        }


def _to(dtype: str, value: Fraction) -> Fraction:
    """Round to a float type; what overflows becomes a large number."""
    number = nearest(exactly(value), dtype)
    return number.value if number.kind == "finite" else Fraction(2) ** 127 * (1 - 2 * (value < 0))


_float32 = partial(_to, "float32")
TABLE: Table = {  # by clause and place; a range has the ends a and b
    ("DYN-1", "dynamic.values"): {
        "symmetric-range": lambda values: [*values, *(-value for value in values)],
        "largest-only": lambda values: [max(value, ZERO) for value in values],
        "least-only": lambda values: [min(value, ZERO) for value in values],
        "range-of-magnitudes": lambda values: [abs(value) for value in values],
        "range-without-the-first": lambda values: values[1:],
        "range-without-the-last": lambda values: values[:-1],
        **{
            f"range-of-whole-{n}s": lambda values, n=n: values[: len(values) // n * n or None]
            for n in (4, 8, 16, 32, 64)
        },
        **{f"range-of-{n}": lambda values, n=n: values[:n] for n in (8, 16, 32, 64, 128)},
        **{f"range-from-{n}": lambda values, n=n: values[n:] or values for n in (8, 16, 32, 64)},
        "every-second": lambda values: values[::2],
        "range-in-float16": lambda values: [_to("float16", value) for value in values],
    },
    ("DYN-1", "dynamic.ends"): {
        "range-without-0": lambda values: (min(values or [ZERO]), max(values or [ZERO])),
        "range-without-0-below": lambda values: (min(values or [ZERO]), max([ZERO, *values])),
        "range-without-0-above": lambda values: (min([ZERO, *values]), max(values or [ZERO])),
    },
    ("DYN-2", "dynamic.scale"): {
        **{f"over-{n}": lambda a, b, n=n: (b - a) / n for n in (256, 254, 127)},
        "rounds-the-length": lambda a, b: _float32(b - a) / 255,
        "rounds-both-ends": lambda a, b: _float32(b / 255) - _float32(a / 255),
        "by-reciprocal": lambda a, b: (b - a) * _float32(Fraction(1, 255)),
        "scale-in-float16": lambda a, b: _to("float16", (b - a) / 255),
        "subnormal-scale-is-0": lambda a, b: (b - a) * (_float32((b - a) / 255) >= NORMAL) / 255,
        "scale-of-at-least-1e-7": lambda a, b: max((b - a) / 255, (b > a) * Fraction(1, 10**7)),
    },
    ("DYN-1 DYN-2", "whole"): {  # the whole part is replaced: no element is wrong by itself
        "gap-first-8192": {"dynamic": Dynamic(values=lambda values: values[:8192]).__call__},
        "gap-float64": {
            "dynamic": Dynamic(scale=lambda a, b: Fraction((float(b) - float(a)) / 255)).__call__
        },
    },
    ("DYN-3", "dynamic.nothing"): {
        "nothing-is-a-255th": lambda a, b: _float32(Fraction(1, 255)),
        "nothing-is-the-least": lambda a, b: LEAST,
        "nothing-is-the-least-if-not-0": lambda a, b: LEAST if b > a else Fraction(1),
    },
    ("DYN-4", "dynamic.point"): {
        "point-from-the-highest": lambda r: r.highest - r.high / r.scale,
        "point-by-exact-scale": lambda r: r.lowest - (r.low * 255 / ((r.high - r.low) or 1)),
        "point-of-0": lambda r: ZERO,
        "point-of-uint8": lambda r: -r.low / r.scale,
        "point-in-the-middle": lambda r: (r.lowest + r.highest + 1) // 2,
        "point-without-sign": lambda r: r.lowest + r.low / r.scale,
        "point-in-float32": lambda r: r.lowest - _float32(r.low / r.scale),
    },
    ("DYN-4", "dynamic.place"): {
        "point-truncated": trunc,
        "point-floored": floor,
        "point-half-up": lambda value: floor(value + Fraction(1, 2)),
    },
    ("DYN-4", "dynamic.clamp"): {
        "point-wraps": lambda value, dtype: (value - RANGES[dtype][0]) % 256 + RANGES[dtype][0],
        "point-is-not-the-end": lambda value, dtype: min(clamp(value, dtype), RANGES[dtype][1] - 1),
    },
    ("DYN-5", "dynamic.divide"): {
        "float32-division": DIVISIONS["float-division"],
        "float32-reciprocal": DIVISIONS["float-reciprocal"],
        "without-sign": DIVISIONS["input-without-sign"],
        "multiplies": DIVISIONS["multiplies"],
    },
    ("DYN-5", "dynamic.rounding"): {
        name: way
        for ways in arithmetic.WRONG_ROUNDINGS.values()
        for name, way in ways.items()
        if "16-bits" not in name and "32-bits" not in name  # no quotient is so large
    },
    ("DYN-7", f"refuse value {IMAGE}"): {
        "refuses-nan": lambda case: np.isnan(case.inputs[IMAGE]).any(),
        "refuses-infinities": lambda case: np.isinf(case.inputs[IMAGE]).any(),
    },
    ("DYN-5", "permitted dynamic.rounding"): arithmetic.PERMITTED_ROUNDINGS,
}


MUTANTS = load(
    "dynamic_quantize",
    {"dynamic_quantize_linear": {"dynamic": Dynamic()}},
    TABLE,
)
