"""Planted bugs of MATRIX_MULTIPLY_INTEGER_TO_FLOAT."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from math import floor
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.descs import DescRules
from ...suite.bugs.matmul import Products, ToFloat, scale_and_add
from ...suite.bugs.permitted import TOTALS
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug, in_reading
from ...suite.bugs.refusals import Rules
from ...suite.bugs.steps import Array, Sizes, of_float, to_float
from .._shared import floats, planted_bugs
from .._shared import matmul_bugs as shared
from .._shared.convolution_bugs import is_long
from .._shared.floats import FORMATS, NAN, Real
from .._shared.matmul_bugs import A_POINT, A_SCALE, B_POINT, B_SCALE, BIAS, OUTPUT, A, B
from .._shared.matmul_descs import HALVES

OPERATOR = "matrix_multiply_integer_to_float"
RULES = Rules(
    OPERATOR,
    {"data_type": "MMF-6", "dimension_count": "MMF-4", "sizes": "MMF-3 MMF-5 MMF-7"}
    | {"value": "MMF-11", "missing_tensor": "MMF-9"},
    {
        "data_type": f"{A}:float32,int16,complex64 {B}:int32,float16 {A_POINT} {B_POINT}"
        f" {A_SCALE}:float16 {B_SCALE}:int32 {BIAS}:float16,int32 {OUTPUT}",
        "dimension_count": f"{A}:0 {B}:0",
        "sizes": f"{B} {A_POINT} {B_POINT} {A_SCALE} {B_SCALE} {BIAS}",
        "value": f"{A_SCALE} {B_SCALE}:minus-zero",
    },
    only_in_descs=f"int16 int32 uint16 uint32 {A_SCALE} {B_SCALE}",
)
DESCS = DescRules(
    OPERATOR,
    shared.IMPLIED,
    HALVES.removeprefix("data-type:inputs "),  # an output's type is that of the scales
    {
        "DataType": ((A, A_POINT, B, B_POINT), (A_SCALE, B_SCALE, BIAS, OUTPUT)),
        "DimensionCount": ((A, B, BIAS, OUTPUT), (A_SCALE, B_SCALE, A_POINT, B_POINT)),
    },
)
CLAUSES = {
    "sum": "MMF-1 MMF-2",
    "shape": "MMF-3",
    "rank": "MMF-4",
    "type": "MMF-2 MMF-6",
    "points": "MMF-2 MMF-5",
    "overflow": "MMF-10",
}
ROLES = {
    **shared.roles(CLAUSES),
    BIAS: ("MMF-7", "elements"),
    A_SCALE: ("MMF-1 MMF-11 MMF-5", "scale elements"),
    B_SCALE: ("MMF-1 MMF-11 MMF-5", "scale elements"),
    f"{A_SCALE} {B_SCALE}": ("MMF-1 MMF-11", "scale"),
}

PARTS = {"sums": Products(), "float": ToFloat()}
RESULT = "MMF-1"


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, ROLES)
    yield from zero_points(OPERATOR, "MMF-9", {A_POINT: A, B_POINT: B})
    yield from outputs(OPERATOR, {OUTPUT: ("MMF-6", "MMF-1 MMF-3")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from shared.of_every(OPERATOR, CLAUSES)
    yield from planted_bugs.plant(OPERATOR, STEPS, {}, ANSWERS)
    for name, label in ((A_SCALE, "a-scale"), (B_SCALE, "b-scale")):
        yield from in_reading(OPERATOR, "MMF-5", name, shared.exchanged(label))
        flushed = {f"{label}-flushed": lambda own, call: np.where(_is_subnormal(own), _LEAST, own)}
        yield from in_reading(OPERATOR, "MMF-11", name, flushed)
    yield from in_reading(OPERATOR, "MMF-7", BIAS, ADDENDS)


_LEAST = np.float32(2.0**-126)
ADDENDS: planted_bugs.Ways = {
    "bias-ignored": lambda own, call: np.zeros_like(own),
    "bias-subtracted": lambda own, call: -own,
    "bias-twice": lambda own, call: own + own,
    "bias-without-sign": lambda own, call: np.abs(own),
    "bias-nan-is-0": lambda own, call: np.nan_to_num(own, nan=0.0, posinf=np.inf, neginf=-np.inf),
    "bias-infinity-is-largest": lambda own, call: np.where(
        np.isinf(own), np.copysign(np.finfo(own.dtype).max, own), own
    ),
    "bias-in-float16": lambda own, call: own.astype(np.float16).astype(own.dtype),
    "bias-truncated": lambda own, call: np.where(np.isfinite(own), np.trunc(own), own),
}


def _is_subnormal(scale: Array) -> Array:
    return np.asarray((scale != 0) & (np.abs(scale) < np.finfo(scale.dtype).tiny))


# -- rounding ----------------------------------------------------------------------------------

Scales = tuple[Fraction, Fraction]
Combine = Callable[[int, Scales, Real, str], Real]


def _in(dtype: str, formula: Callable[[Any, Any, Any, Any], Any], only: str = "") -> Combine:
    """Compute in NumPy's floats, each step rounded."""

    def combine(total: int, scales: Scales, bias: Real, asked: str) -> Real:
        if only and asked != only:
            return scale_and_add(total, scales, bias, asked)
        number, one, two = (to_float(Fraction(each), dtype) for each in (total, *scales))
        addend = np.array(floats.encode(bias, dtype), f"uint{dtype[5:]}").view(dtype)[()]
        return of_float(formula(number, one, two, addend))

    return combine


def _exactly_but(
    change: Callable[[int, Scales], tuple[Fraction, Fraction]],
    total: int,
    scales: Scales,
    bias: Real,
    asked: str,
) -> Real:
    """Round a factor first, and be exact from there: the sum, and the product of the scales."""
    number, factor = change(total, scales)
    return scale_and_add(1, (number, factor), bias, asked)


def _nearest(value: Fraction, dtype: str) -> Fraction:
    rounded = floats.nearest(floats.exactly(value), dtype)
    return rounded.value if rounded.kind == "finite" else value


def _fma(total: int, scales: Scales, bias: Real, asked: str) -> Real:
    """Round the sum and the product of the scales to FLOAT32, and then once."""
    number, factor = (
        _nearest(Fraction(total), "float32"),
        _nearest(scales[0] * scales[1], "float32"),
    )
    return floats.nearest(scale_and_add(1, (number, factor), bias, asked), "float32")


def _rounded_before_bias(total: int, scales: Scales, bias: Real, asked: str) -> Real:
    product = floats.nearest(floats.exactly(total * scales[0] * scales[1]), asked)
    if "finite" == product.kind == bias.kind:
        return scale_and_add(1, (product.value, Fraction(1)), bias, asked)
    if bias.kind != "finite":
        is_lost = product.kind == bias.kind == "inf" and product.negative != bias.negative
        return NAN if is_lost else bias
    return product


def _through(dtype: str, only: str, total: int, scales: Scales, bias: Real, asked: str) -> Real:
    """Round to another format first."""
    found = scale_and_add(total, scales, bias, asked)
    return found if only and asked != only else floats.nearest(found, dtype)


def _bias_first(total: int, scales: Scales, bias: Real, asked: str) -> Real:
    """Add the bias to the sum, before the scales."""
    if bias.kind != "finite":
        return bias
    return floats.exactly((total + bias.value) * scales[0] * scales[1])


def _wrapped_bias(total: int, scales: Scales, bias: Real, asked: str) -> Real:
    """Quantize the bias by the scales first, within 32 bits."""
    if bias.kind != "finite":
        return bias
    factor = scales[0] * scales[1]
    whole = total + floats.round_half_even(bias.value / factor)
    return floats.exactly(((whole + 2**31) % 2**32 - 2**31) * factor)


def _with_sign_of_zero(total: int, scales: Scales, bias: Real, asked: str) -> Real:
    """Keep the sign of the bias where the result is zero."""
    found = scale_and_add(total, scales, bias, asked)
    return Real(True) if found.is_zero and bias.negative else found


def _minus_zero(total: int, scales: Scales, bias: Real, asked: str) -> Real:
    """Let a sum of zero have the sign of the scales."""
    found = scale_and_add(total, scales, bias, asked)
    return Real(True) if found.is_zero and scales[0] * scales[1] < 0 else found


def _by_steps(rule: Callable[[Fraction], int], number: Real, dtype: str) -> int:
    """Round the magnitude in units of the last place by another rule."""
    if number.kind != "finite" or number.magnitude == 0:
        return floats.encode(number, dtype)
    unit = floats.scaled(1, floats.last_place(number.magnitude, FORMATS[dtype]))
    steps = rule(number.magnitude / unit)
    return floats.encode(Real(number.negative, steps * unit), dtype)


def _largest(number: Real, dtype: str) -> int:
    """Return the largest number instead of an infinity."""
    word = floats.encode(number, dtype)
    is_over = number.kind == "finite" and floats.decode(word, dtype).kind == "inf"
    return word - 1 if is_over else word


def _flushed(number: Real, dtype: str) -> int:
    """Return zero instead of a subnormal number."""
    form, rounded = FORMATS[dtype], floats.nearest(number, dtype)
    is_small = rounded.kind == "finite" and rounded.magnitude < Fraction(2) ** (1 - form.bias)
    return floats.encode(Real(number.negative), dtype) if is_small else floats.encode(number, dtype)


def _unsigned(number: Real, dtype: str) -> int:
    """Give a number that is rounded to zero no sign."""
    rounded = floats.nearest(number, dtype)
    return 0 if rounded.is_zero else floats.encode(number, dtype)


def _on_rows(bias: Array, sizes: Sizes) -> Array:
    """Take the bias of columns for one of rows, where both fit."""
    is_square = len(sizes) > 1 and sizes[-1] == sizes[-2] and bias.ndim == 1
    return np.broadcast_to(bias[:, None] if is_square else bias, sizes)


def _on_first_row(bias: Array, sizes: Sizes) -> Array:
    whole = np.array(np.broadcast_to(bias, sizes))
    if len(sizes) > 1:
        whole[..., 1:, :] = 0
    return whole


def _cycled(bias: Array, sizes: Sizes) -> Array:
    """Repeat the elements of a bias in row-major order."""
    return np.resize(bias, sizes) if bias.size else np.broadcast_to(bias, sizes)


STEPS: planted_bugs.Steps = {
    ("MMF-1", "float", "combine"): {
        "float32-in-turn": _in("float32", lambda s, a, b, c: s * a * b + c),
        "float32-scales-first": _in("float32", lambda s, a, b, c: s * (a * b) + c),
        "float32-b-first": _in("float32", lambda s, a, b, c: s * b * a + c),
        "float64-formula": _in("float64", lambda s, a, b, c: s * a * b + c),
        "float64-scales-first": _in("float64", lambda s, a, b, c: s * (a * b) + c),
        "float64-for-float16": _in("float64", lambda s, a, b, c: s * a * b + c, "float16"),
        "float16-formula": _in("float16", lambda s, a, b, c: s * a * b + c),
        "float16-formula-for-float16": _in(
            "float16", lambda s, a, b, c: s * (a * b) + c, "float16"
        ),
        "fma": _fma,
        "float32-sum": partial(
            _exactly_but, lambda s, own: (_nearest(Fraction(s), "float32"), own[0] * own[1])
        ),
        "float32-product-of-scales": partial(
            _exactly_but, lambda s, own: (Fraction(s), _nearest(own[0] * own[1], "float32"))
        ),
        "through-float32": partial(_through, "float32", "float16"),
        "through-float64": partial(_through, "float64", ""),
        "through-float16": partial(_through, "float16", ""),
    },
    ("MMF-1 MMF-7", "float", "combine"): {
        "bias-after-rounding": _rounded_before_bias,
        "bias-before-scaling": _bias_first,
        "bias-quantized-first": _wrapped_bias,
    },
    ("MMF-8", "float", "combine"): {
        "zero-has-sign-of-bias": _with_sign_of_zero,
        "zero-has-sign-of-scales": _minus_zero,
    },
    ("MMF-1 MMF-8", "float", "encode"): {
        "rounds-half-away": partial(_by_steps, lambda steps: floor(steps + Fraction(1, 2))),
        "rounds-toward-zero": partial(_by_steps, floor),
        "rounds-away-from-zero": partial(_by_steps, lambda steps: -floor(-steps)),
        "overflow-is-largest": _largest,
        "subnormals-flushed": _flushed,
        "vanishing-has-no-sign": _unsigned,
    },
    ("MMF-7", "float", "spread_bias"): {
        "bias-along-rows": _on_rows,
        "bias-on-first-row": _on_first_row,
        "bias-cycled": _cycled,
    },
}


# -- refusals ----------------------------------------------------------------------------------


def _is_flat(name: str) -> Callable[[Case], bool]:
    return lambda case: case.inputs[name].ndim == 1


ANSWERS: planted_bugs.Answers = {
    ("MMF-5", "accept", "sizes", A_SCALE): {"accepts-flat-a-scales": _is_flat(A_SCALE)},
    ("MMF-5", "accept", "sizes", B_SCALE): {"accepts-flat-b-scales": _is_flat(B_SCALE)},
    ("MMF-5", "refuse", "sizes", A_SCALE): {"refuses-a-scales": is_long(A_SCALE)},
    ("MMF-5", "refuse", "sizes", B_SCALE): {"refuses-b-scales": is_long(B_SCALE)},
    ("MMF-7", "accept", "sizes", BIAS): {
        "accepts-bias-of-rows": lambda case: case.inputs[BIAS].size == case.inputs[A].shape[-2],
        "accepts-bias-of-higher-rank": lambda case: case.inputs[BIAS].ndim > 2,
    },
    ("MMF-7", "refuse", "sizes", BIAS): {
        "refuses-bias-of-output-sizes": lambda case: (
            BIAS in case.inputs and case.inputs[BIAS].shape == tuple(case.outputs[OUTPUT].sizes)
        ),
        "refuses-bias-of-rank-0": lambda case: BIAS in case.inputs and not case.inputs[BIAS].ndim,
    },
}


def _by_integers(total: int, scales: Scales, bias: Real, asked: str) -> Real:
    """Add over a common denominator."""
    if bias.kind != "finite":
        return bias
    sa, sb = scales
    below = sa.denominator * sb.denominator
    above = total * sa.numerator * sb.numerator
    addend = bias.value
    return floats.exactly(
        Fraction(above * addend.denominator + addend.numerator * below, below * addend.denominator)
    )


PERMITTED = (
    ("MMF-2", "sums", "total", TOTALS),
    ("MMF-1", "float", "combine", {"common-denominator": _by_integers}),
)
