"""Planted bugs of QUANTIZED_LINEAR_CONVOLUTION."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.convolution import (
    Requantize,
    Sums,
    add_bias,
    each_channel,
    without,
    wrapped,
)
from ...suite.bugs.descs import DescRules
from ...suite.bugs.permitted import PADDINGS, RESCALES, ROUNDINGS, TOTALS
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import VALUES, Bug, bug, in_reading
from ...suite.bugs.refusals import Rules, has_rank
from ...suite.bugs.steps import Array, Call, Outputs
from .._shared import convolution_bugs as shared
from .._shared import planted_bugs
from .._shared.convolution_bugs import FILTER, FILTER_POINT, IMAGE, IMAGE_POINT, OUTPUT
from .._shared.rescale_bugs import WRONG_RESCALES, with_scales
from .._shared.rounding import RANGES
from .._shared.rounding_bugs import of_rounding

OPERATOR = "quantized_linear_convolution"
IMAGE_SCALE, FILTER_SCALE, OUTPUT_SCALE = (
    f"{name}ScaleTensor" for name in ("Input", "Filter", "Output")
)
BIAS, OUTPUT_POINT = "BiasTensor", "OutputZeroPointTensor"
RULES = Rules(
    OPERATOR,
    {"data_type": "QLC-10", "dimension_count": "QLC-8 QLC-14", "option": "QLC-8 QLC-9"}
    | {"sizes": "QLC-4 QLC-7 QLC-8 QLC-9", "value": "QLC-13", "missing_tensor": "QLC-11"},
    {
        "data_type": f"{IMAGE}:float32,int16,complex64 {FILTER}:int32 {IMAGE_POINT}:int8"
        f" {FILTER_POINT}:uint8 {IMAGE_SCALE} {FILTER_SCALE} {OUTPUT_SCALE}"
        f" {BIAS}:float32,int8 {OUTPUT_POINT}:int8,int32 {OUTPUT}",
        "dimension_count": f"{IMAGE}:2,5 {FILTER}:3,5",
        "option": f"{shared.WINDOWS} GroupCount",
        "sizes": f"{FILTER} GroupCount {IMAGE_POINT} {FILTER_POINT} {IMAGE_SCALE} {FILTER_SCALE}"
        f" {OUTPUT_SCALE} {OUTPUT_POINT} {BIAS}",
        "value": f"{IMAGE_SCALE} {FILTER_SCALE} {OUTPUT_SCALE}",
    },
)
DESCS = DescRules(
    OPERATOR,
    {"qconv-group-count": shared.NO_GROUPS},
    shared.HALVES,
    {"DataType": (*shared.ALIKE_TYPES, (OUTPUT, OUTPUT_POINT))}
    | {"DimensionCount": ((IMAGE, FILTER, BIAS, OUTPUT),)},
)
CLAUSES = {
    "sum": "QLC-1 QLC-2",
    "padding": "QLC-3",
    "window": "QLC-8",
    "group": "QLC-9",
    "type": "QLC-2 QLC-10",
    "filter-point": "QLC-2 QLC-7",
    "zero-points": "QLC-7",
    "channels": "QLC-9",
    "overflow": "QLC-12",
    "round": "QLC-5",
    "clamp": "QLC-6",
    "exact": "QLC-1",
}
ROLES = {
    **shared.roles(CLAUSES),
    BIAS: ("QLC-4", "addend elements"),
    IMAGE_SCALE: ("QLC-1 QLC-13", "scale subnormal"),
    FILTER_SCALE: ("QLC-1 QLC-13 QLC-7", "scale subnormal elements"),
    OUTPUT_SCALE: ("QLC-1 QLC-13", "scale subnormal"),
    OUTPUT_POINT: ("QLC-5 QLC-6", "zero-point"),
    f"{IMAGE_SCALE} {FILTER_SCALE} {OUTPUT_SCALE}": ("QLC-1 QLC-13", "scale"),
}

PARTS = {"sums": Sums(), "requantize": Requantize()}
RESULT = "QLC-1"
PERMITTED = (
    ("QLC-2", "sums", "total", TOTALS),
    ("QLC-2", "sums", "pad", PADDINGS),
    ("QLC-1", "requantize", "rescale", RESCALES),
    ("QLC-5", "requantize", "rounding", ROUNDINGS),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, ROLES)
    points = {IMAGE_POINT: IMAGE, FILTER_POINT: FILTER, OUTPUT_POINT: OUTPUT}
    yield from zero_points(OPERATOR, "QLC-11", points)
    yield from outputs(OPERATOR, {OUTPUT: ("QLC-10", "QLC-1 QLC-8")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from shared.of_both(OPERATOR, CLAUSES)
    yield from of_rounding(OPERATOR, "requantize", CLAUSES)
    yield from planted_bugs.plant(OPERATOR, STEPS, OUTPUTS, ANSWERS)
    mean: planted_bugs.Ways = {
        "filter-scale-mean": lambda scale, call: np.full_like(scale, scale.mean(dtype=np.float64))
    }
    yield from in_reading(OPERATOR, "QLC-7", FILTER_SCALE, mean)
    yield bug(OPERATOR, "dequantizes-first", "QLC-1", VALUES, finish=_dequantized_first)


# -- bias and filter scale ---------------------------------------------------------------------


def _each_channel(parameter: Array, like: Array) -> Array:
    """Return a parameter along axis 1."""
    return parameter.reshape((1, -1) + (1,) * (like.ndim - 2))


def _on_first_pixel(sums: Array, bias: Array) -> Array:
    is_first = np.arange(sums[0, 0].size).reshape(sums.shape[2:]) == 0
    return np.where(is_first, add_bias(sums, bias), sums)


def _along_last_axis(sums: Array, bias: Array) -> Array:
    fits = sums.shape[-1] == bias.size
    return wrapped(sums + bias.reshape(-1).astype(np.int64)) if fits else add_bias(sums, bias)


def _unbounded(sums: Array, bias: Array, dtype: Any = np.int64) -> Array:
    return sums.astype(dtype) + _each_channel(bias.astype(dtype), sums)


def _limited(sums: Array) -> Array:
    return np.clip(sums, -(2**31), 2**31 - 1).astype(np.int64)


STEPS: planted_bugs.Steps = {
    ("QLC-4", "requantize", "bias"): {
        "bias-on-first-channel": lambda sums, bias: np.concatenate(
            [add_bias(sums, bias)[:, :1], sums[:, 1:]], 1
        ),
        "bias-on-first-pixel": _on_first_pixel,
        "bias-on-first-image": lambda sums, bias: np.concatenate(
            [add_bias(sums[:1], bias), sums[1:]]
        ),
        "bias-along-last-axis": _along_last_axis,
        "bias-in-float32": lambda sums, bias: _limited(
            _unbounded(sums, bias, np.float32).astype(np.float64)
        ),
    },
    ("QLC-12", "requantize", "bias"): {
        "bias-saturates": lambda sums, bias: _limited(_unbounded(sums, bias)),
        "bias-never-wraps": _unbounded,
    },
    ("QLC-1", "requantize", "rescale"): {
        "input-scale-for-filter": with_scales(lambda x, w, y: (x, x, y)),
        "input-and-output-scale-swapped": with_scales(lambda x, w, y: (y, w, x)),
        **WRONG_RESCALES,
    },
}


def _dequantized_first(outputs: Outputs, case: Case) -> Outputs:
    """Dequantize everything to FLOAT32, convolve there, and quantize the result."""
    if case.desc is not None:
        return outputs
    given = case.inputs
    sx, sy = (given[name].reshape(-1)[0] for name in (IMAGE_SCALE, OUTPUT_SCALE))
    w = given[FILTER]
    sw = each_channel(given[FILTER_SCALE], len(w)).reshape((-1,) + (1,) * (w.ndim - 1))
    sums = Sums(
        centre=lambda array, zero: without(array, zero).astype(np.float32) * sx,
        centre_filters=lambda array, zero: without(array, zero).astype(np.float32) * sw,
        total=lambda products: np.add.accumulate(products, 1, np.float32)[:, -1],
        wrap=lambda total: total,
    )
    total = sums(Call(case.attributes, given, case.outputs))
    if BIAS in given:
        bias = given[BIAS].reshape(-1).astype(np.float32) * sx * sw.reshape(-1)
        total = total + _each_channel(bias, total)
    zero = given.get(OUTPUT_POINT, np.zeros(1)).reshape(-1)[0]
    dtype = case.outputs[OUTPUT].dtype
    quotient = np.nan_to_num(np.rint(total / sy).astype(np.float64)) + float(zero)
    return {OUTPUT: np.clip(quotient, *RANGES[dtype]).astype(dtype)}


OUTPUTS: planted_bugs.Outputs = {
    ("QLC-1 QLC-8 QLC-10", OUTPUT): {
        **shared.LAYOUTS,
        "output-has-type-of-input": lambda y, case: y.astype(case.inputs[IMAGE].dtype),
        "output-has-type-of-filter": lambda y, case: y.astype(case.inputs[FILTER].dtype),
        "output-without-batch": lambda y, case: y[0] if len(y) == 1 else y,
    },
}


# -- refusals ----------------------------------------------------------------------------------


def _is_bad(at: int) -> Callable[[Case], bool]:
    def test(case: Case) -> bool:
        scale = case.inputs[FILTER_SCALE].reshape(-1)[at]
        return not np.isfinite(scale) or scale == 0

    return test


def _is_uneven(case: Case) -> bool:
    lengths = shared.is_long(FILTER_POINT)(case), shared.is_long(FILTER_SCALE)(case)
    return FILTER_POINT in case.inputs and lengths[0] != lengths[1]


ANSWERS: planted_bugs.Answers = {
    ("QLC-7", "accept", "sizes", FILTER_SCALE): {
        "accepts-filter-scale-by-input": shared.is_by_input(FILTER_SCALE),
        "accepts-filter-scale-square": lambda case: (
            sum(size > 1 for size in case.inputs[FILTER_SCALE].shape) > 1
        ),
    },
    ("QLC-7", "refuse", "sizes", FILTER_SCALE): {
        "refuses-filter-scales": shared.is_long(FILTER_SCALE),
        "refuses-mixed-granularity": _is_uneven,
        "refuses-parameters-of-rank-1": has_rank(FILTER_SCALE, 1),
    },
    ("QLC-4", "accept", "sizes", BIAS): {
        "accepts-one-bias": lambda case: case.inputs[BIAS].size == 1,
        "accepts-bias-multiple": lambda case: (
            case.inputs[BIAS].size % len(case.inputs[FILTER]) == 0
        ),
    },
    ("QLC-13", "accept", "value", FILTER_SCALE): {
        "checks-first-filter-scale-only": _is_bad(-1),
        "checks-last-filter-scale-only": _is_bad(0),
    },
}
