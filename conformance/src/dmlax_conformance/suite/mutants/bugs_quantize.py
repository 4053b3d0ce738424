"""Planted bugs of ELEMENT_WISE_QUANTIZE_LINEAR before the last step."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...operators._shared.floats import Real
from ...operators._shared.rounding import RANGES
from ..adapter import Case
from .element_wise import divided, repeated
from .record import HONEST, Mutant, mutant, with_steps
from .rounding import Rounding
from .steps import Array, Outputs, Sizes, of_float, to_float

OPERATOR = "element_wise_quantize_linear"
Divide = Callable[[Real, Fraction, str], Real]
Spread = Callable[[Array, Sizes], Array]


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module."""
    yield from _quotients()
    yield from _specials()
    for name, (about, spread) in SPREADS.items():
        yield _bug(name, "QNT-5", about, spread=spread)
    yield from _rest()


def _bug(name: str, clause: str, about: str, **steps: Any) -> Mutant:
    return mutant(OPERATOR, name, clause, about, with_steps("quantize", **steps))


# -- the quotient ------------------------------------------------------------------------------


def _in(dtype: str | None, formula: Callable[[Any, Any], Any], only: str = "") -> Divide:
    """Divide in NumPy's floats; without a dtype, in that of the input (FLOAT32 for INT32)."""

    def divide(x: Real, scale: Fraction, source: str) -> Real:
        if x.kind != "finite" or (only and source != only):
            return divided(x, scale, source)
        own = dtype or ("float32" if source == "int32" else source)
        return of_float(formula(to_float(x.value, own), to_float(scale, own)))

    return divide


def _exactly(change: Callable[[Real, Fraction], tuple[Real, Fraction]]) -> Divide:
    return lambda x, scale, source: divided(*change(x, scale), source)


def _flushed(x: Real, scale: Fraction) -> tuple[Real, Fraction]:
    tiny = x.kind == "finite" and x.magnitude < Fraction(2) ** -126
    return (Real(False) if tiny else x), scale


def _normal(x: Real, scale: Fraction) -> tuple[Real, Fraction]:
    return x, max(scale, Fraction(2) ** -126) if scale > 0 else scale


def _quotients() -> Iterator[Mutant]:
    ways: dict[str, tuple[str, str, Divide]] = {
        "float-division": (
            "QNT-1",
            "the quotient is rounded to the type of the input",
            _in(None, lambda x, s: x / s),
        ),
        "float32-division": (
            "QNT-1",
            "FLOAT32 quotients are rounded to FLOAT32",
            _in("float32", lambda x, s: x / s, "float32"),
        ),
        "float16-division": (
            "QNT-1",
            "FLOAT16 quotients are rounded to FLOAT16",
            _in("float16", lambda x, s: x / s, "float16"),
        ),
        "float32-reciprocal": (
            "QNT-1",
            "FLOAT32 inputs are multiplied by a rounded reciprocal",
            _in("float32", lambda x, s: x * (np.float32(1) / s), "float32"),
        ),
        "float16-reciprocal": (
            "QNT-1",
            "FLOAT16 inputs are multiplied by a rounded reciprocal",
            _in("float16", lambda x, s: x * (np.float16(1) / s), "float16"),
        ),
        "float16-reciprocal-in-float32": (
            "QNT-1",
            "FLOAT16 inputs are multiplied by a reciprocal, in FLOAT32",
            _in("float32", lambda x, s: x * (np.float32(1) / s), "float16"),
        ),
        "int32-as-float32": (
            "QNT-1 QNT-4",
            "INT32 inputs become FLOAT32 before they are divided",
            _in("float32", lambda x, s: x / s, "int32"),
        ),
        "int32-as-float16": (
            "QNT-1 QNT-4",
            "INT32 inputs become FLOAT16 before they are divided",
            _in("float16", lambda x, s: x / s, "int32"),
        ),
        "float32-as-float16": (
            "QNT-1 QNT-4",
            "FLOAT32 inputs and scales become FLOAT16",
            _in("float16", lambda x, s: x / s, "float32"),
        ),
        "multiplies": ("QNT-1", "the scale is a factor", _in("float64", lambda x, s: x * s)),
        "scale-ignored": (
            "QNT-1",
            "the scale is ignored",
            _exactly(lambda x, s: (x, Fraction(1) if s > 0 else Fraction(-1))),
        ),
        "scale-without-sign": (
            "QNT-6",
            "the sign of the scale is lost",
            _exactly(lambda x, s: (x, abs(s))),
        ),
        "input-without-sign": (
            "QNT-1",
            "the sign of the input is lost",
            _exactly(lambda x, s: (replace(x, negative=False), s)),
        ),
        "flushes-input": ("QNT-1", "a subnormal input is taken as zero", _exactly(_flushed)),
        "flushes-scale": (
            "QNT-6",
            "a subnormal scale is taken as the smallest normal one",
            _exactly(_normal),
        ),
        "epsilon": (
            "QNT-6",
            "a small number is added to the scale against division by zero",
            _exactly(lambda x, s: (x, s + Fraction(1, 10**7))),
        ),
    }
    for name, (clause, about, divide) in ways.items():
        yield _bug(name, clause, about, divide=divide)


# -- infinities and NaN ------------------------------------------------------------------------


def _specials() -> Iterator[Mutant]:
    def always(end: int) -> Callable[[Real, int, str], int]:
        return lambda quotient, zero_point, dtype: RANGES[dtype][end]

    def of_zero(quotient: Real, zero_point: int, dtype: str) -> int:
        return zero_point

    def nan_is(value: Callable[[int, str], int]) -> Callable[[Real, int, str], int]:
        def special(quotient: Real, zero_point: int, dtype: str) -> int:
            low, high = RANGES[dtype]
            if quotient.kind == "nan":
                return value(zero_point, dtype)
            return low if quotient.negative else high

        return special

    ways: dict[str, tuple[str, Callable[[Real, int, str], int]]] = {
        "infinity-is-lowest": ("every infinity gives the lowest value", always(0)),
        "infinity-is-highest": ("every infinity gives the highest value", always(1)),
        "infinity-is-zero-point": ("an infinity gives the zero point", of_zero),
        "nan-is-one-above-zero-point": (
            "NaN gives none of the values that are allowed",
            nan_is(lambda zero_point, dtype: zero_point + 1),
        ),
        "nan-is-0": (
            "NaN gives 0 in INT8, although the zero point is 9",
            nan_is(lambda zero_point, dtype: 0),
        ),
    }
    for name, (about, special) in ways.items():
        yield _bug(name, "QNT-7", about, rounding=Rounding(special=special))
    about = "the sign of an infinity is not turned by a negative scale"
    yield _bug("infinity-keeps-sign", "QNT-7", about, divide=_keeps_sign)


def _keeps_sign(x: Real, scale: Fraction, dtype: str) -> Real:
    return x if x.kind != "finite" else divided(x, scale, dtype)


# -- parameters with fewer elements ------------------------------------------------------------


def _first_only(parameter: Array, sizes: Sizes) -> Array:
    return np.broadcast_to(parameter.reshape(-1)[:1], sizes)


def _cycled(parameter: Array, sizes: Sizes) -> Array:
    """Repeat all elements from the start, wherever the sizes of 1 are."""
    return np.resize(parameter, sizes)


def _stretched(parameter: Array, sizes: Sizes) -> Array:
    """Repeat each element in place, wherever the sizes of 1 are."""
    count = int(np.prod(sizes))
    return np.repeat(parameter.reshape(-1), max(count // parameter.size, 1)).reshape(sizes)


def _left_aligned(parameter: Array, sizes: Sizes) -> Array:
    """Align the sizes on the left where they fit there."""
    padded: Array = parameter.reshape(parameter.shape + (1,) * (len(sizes) - parameter.ndim))
    pairs: Iterator[tuple[int, int]] = zip(padded.shape, sizes, strict=True)
    fits = all(own in (1, whole) for own, whole in pairs)
    return repeated(padded if fits else parameter, sizes)


def _on_axis_1(parameter: Array, sizes: Sizes) -> Array:
    """Take a parameter with as many elements as axis 1 to be for that axis."""
    if len(sizes) > 1 and parameter.size == sizes[1] > 1:
        parameter = parameter.reshape((1, -1) + (1,) * (len(sizes) - 2))
    return repeated(parameter, sizes)


def _backwards(parameter: Array, sizes: Sizes) -> Array:
    return np.ascontiguousarray(repeated(parameter, sizes)).reshape(-1)[::-1].reshape(sizes)


def _transposed(parameter: Array, sizes: Sizes) -> Array:
    whole = repeated(parameter, sizes)
    return np.ascontiguousarray(whole.T).reshape(sizes)


SPREADS: dict[str, tuple[str, Spread]] = {
    "parameters-first-only": ("only the first scale and zero point are used", _first_only),
    "parameters-cycled": ("scales and zero points are used in turn", _cycled),
    "parameters-stretched": ("each scale and zero point is used for a run", _stretched),
    "parameters-on-axis-1": (
        "a parameter that could be for axis 1 is taken to be for it",
        _on_axis_1,
    ),
    "parameters-backwards": ("scales and zero points are applied in reverse", _backwards),
    "parameters-transposed": ("scales and zero points are in column-major order", _transposed),
}


# -- the rest ----------------------------------------------------------------------------------


def _middle(x: Array, dtype: str) -> Array:
    return np.array(128 if np.dtype(dtype) == np.uint8 else 0, dtype)


def _rest() -> Iterator[Mutant]:
    about = "an absent zero point of UINT8 is taken to be 128"
    yield _bug("absent-zero-point-is-128", "QNT-8", about, absent=_middle)
    finishes: dict[str, tuple[str, Callable[[Array, Case], Array]]] = {
        "output-is-uint8": (
            "the output is UINT8 whatever was asked for",
            lambda y, case: y.astype(np.uint8),
        ),
        "output-is-int8": (
            "the output is INT8 whatever was asked for",
            lambda y, case: y.astype(np.int8),
        ),
        "output-is-int32": ("the output is INT32", lambda y, case: y.astype(np.int32)),
        "output-is-a-float": (
            "the output keeps the data type of the input",
            lambda y, case: y.astype(case.inputs["InputTensor"].dtype),
        ),
        "output-is-flat": ("the output has one dimension", lambda y, case: y.reshape(-1)),
    }
    for name, (about, change) in finishes.items():
        clause = "QNT-5" if name.endswith("flat") else "QNT-4"
        yield mutant(OPERATOR, name, clause, about, replace(HONEST, finish=_finished(change)))


def _finished(change: Callable[[Array, Case], Array]) -> Callable[[Outputs, Case], Outputs]:
    return lambda outputs, case: {"OutputTensor": change(outputs["OutputTensor"], case)}
