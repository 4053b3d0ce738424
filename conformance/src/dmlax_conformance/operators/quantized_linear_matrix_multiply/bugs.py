"""Planted bugs of QUANTIZED_LINEAR_MATRIX_MULTIPLY."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.descs import DescRules
from ...suite.bugs.matmul import Products, Requantize, add_bias
from ...suite.bugs.permitted import RESCALES, ROUNDINGS, TOTALS
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug, in_reading
from ...suite.bugs.refusals import Rules
from ...suite.bugs.steps import Array
from .._shared import matmul_bugs as shared
from .._shared import planted_bugs
from .._shared.convolution_bugs import clipped, is_long
from .._shared.matmul_bugs import (
    A_POINT,
    A_SCALE,
    B_POINT,
    B_SCALE,
    BIAS,
    OUTPUT,
    OUTPUT_POINT,
    OUTPUT_SCALE,
    A,
    B,
)
from .._shared.matmul_descs import HALVES
from .._shared.rescale_bugs import WRONG_RESCALES, with_scales
from .._shared.rounding_bugs import of_rounding

OPERATOR = "quantized_linear_matrix_multiply"
SCALES = (A_SCALE, B_SCALE, OUTPUT_SCALE)
RULES = Rules(
    OPERATOR,
    {"data_type": "QMM-8", "dimension_count": "QMM-4", "sizes": "QMM-3 QMM-7 QMM-9"}
    | {"value": "QMM-12", "missing_tensor": "QMM-10"},
    {
        "data_type": f"{A}:float32,int16,complex64 {B}:int32,float16 {A_POINT} {B_POINT}"
        f" {A_SCALE} {B_SCALE} {OUTPUT_SCALE} {BIAS}:float32,int8"
        f" {OUTPUT_POINT}:uint8,int32 {OUTPUT}",
        "dimension_count": f"{A}:0 {B}:0",
        "sizes": f"{B} {A_POINT} {B_POINT} {A_SCALE} {B_SCALE} {OUTPUT_SCALE} {OUTPUT_POINT}"
        f" {BIAS}",
        "value": f"{A_SCALE} {B_SCALE}:minus-zero {OUTPUT_SCALE}",
    },
)
DESCS = DescRules(
    OPERATOR,
    shared.IMPLIED,
    HALVES,
    {
        "DataType": ((A, A_POINT), (B, B_POINT), (OUTPUT, OUTPUT_POINT)),
        "DimensionCount": ((A, B, OUTPUT), (*SCALES, A_POINT, B_POINT, OUTPUT_POINT)),
    },
)
CLAUSES = {
    "sum": "QMM-1 QMM-2",
    "shape": "QMM-3",
    "rank": "QMM-4",
    "type": "QMM-2 QMM-8",
    "points": "QMM-2 QMM-7",
    "overflow": "QMM-11",
    "round": "QMM-5",
    "clamp": "QMM-6",
    "exact": "QMM-1",
}
ROLES = {
    **shared.roles(CLAUSES),
    BIAS: ("QMM-9", "addend elements"),
    A_SCALE: ("QMM-1 QMM-12 QMM-7", "scale subnormal elements"),
    B_SCALE: ("QMM-1 QMM-12 QMM-7", "scale subnormal elements"),
    OUTPUT_SCALE: ("QMM-1 QMM-12 QMM-7", "scale subnormal elements"),
    OUTPUT_POINT: ("QMM-5 QMM-6 QMM-7", "zero-point elements"),
    f"{A_SCALE} {B_SCALE} {OUTPUT_SCALE}": ("QMM-1 QMM-12", "scale"),
}

PARTS = {"sums": Products(), "requantize": Requantize()}
RESULT = "QMM-1"
PERMITTED = (
    ("QMM-2", "sums", "total", TOTALS),
    ("QMM-1", "requantize", "rescale", RESCALES),
    ("QMM-5", "requantize", "rounding", ROUNDINGS),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, ROLES)
    points = {A_POINT: A, B_POINT: B, OUTPUT_POINT: OUTPUT}
    yield from zero_points(OPERATOR, "QMM-10", points)
    yield from outputs(OPERATOR, {OUTPUT: ("QMM-8", "QMM-1 QMM-3")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from shared.of_every(OPERATOR, CLAUSES)
    yield from of_rounding(OPERATOR, "requantize", CLAUSES)
    yield from planted_bugs.plant(OPERATOR, STEPS, {}, ANSWERS)
    for name in (*SCALES, OUTPUT_POINT):
        label = "-".join(part.lower() for part in LABELS[name].split())
        yield from in_reading(OPERATOR, "QMM-7", name, shared.exchanged(label))


LABELS = {
    A_SCALE: "a scale",
    B_SCALE: "b scale",
    OUTPUT_SCALE: "output scale",
    OUTPUT_POINT: "output zero point",
}


def _limited(sums: Array) -> Array:
    return clipped(sums, 32).astype(np.int64)


def _in_float32(sums: Array, bias: Array) -> Array:
    return np.asarray(sums.astype(np.float32) + bias.astype(np.float32)).astype(np.int64)


def _on_first(axis: int, sums: Array, bias: Array) -> Array:
    """Add the bias to what comes first along an axis."""
    whole = add_bias(sums, bias)
    if sums.ndim <= axis:
        return whole
    is_first = np.arange(sums.shape[axis]) == 0
    return np.where(is_first.reshape(-1, *[1] * (sums.ndim - axis - 1)), whole, sums)


def _turned(sums: Array, bias: Array) -> Array:
    """Take the bias of columns for one of rows, where both fit."""
    is_square = sums.ndim > 1 and sums.shape[-1] == sums.shape[-2]
    return add_bias(sums, bias[:, None] if is_square and bias.ndim == 1 else bias)


def _is_square(case: Case) -> bool:
    return bool(case.inputs[BIAS].size == case.inputs[A].shape[-2])


def _has_bad(name: str, at: int, case: Case) -> bool:
    scale = case.inputs[name].reshape(-1)[at]
    return bool(not np.isfinite(scale) or scale == 0)


STEPS: planted_bugs.Steps = {
    ("QMM-9", "requantize", "bias"): {
        "bias-wraps": lambda sums, bias: add_bias(sums, bias).astype(np.int32).astype(np.int64),
        "bias-saturates": lambda sums, bias: _limited(add_bias(sums, bias)),
        "bias-in-float32": _in_float32,
        "bias-on-first-matrix": partial(_on_first, 0),
        "bias-on-first-row": partial(_on_first, 1),
        "bias-along-rows": _turned,
    },
    ("QMM-1", "requantize", "rescale"): {
        "a-scale-for-b": with_scales(lambda a, b, y: (a, a, y)),
        "b-scale-for-a": with_scales(lambda a, b, y: (b, b, y)),
        "a-and-output-scale-swapped": with_scales(lambda a, b, y: (y, b, a)),
        **WRONG_RESCALES,
    },
}


def _refusals(name: str) -> dict[tuple[str, str, str, str], Any]:
    """Return the wrong answers to a parameter that may have one value for each row or column."""
    label = "-".join(LABELS[name].split())
    return {
        ("QMM-7", "refuse", "sizes", name): {f"refuses-{label}s": is_long(name)},
        ("QMM-7", "accept", "sizes", name): {
            f"accepts-flat-{label}s": lambda case: case.inputs[name].ndim == 1,
        },
    }


ANSWERS: planted_bugs.Answers = {
    **{key: ways for name in LABELS for key, ways in _refusals(name).items()},
    ("QMM-9", "accept", "sizes", BIAS): {
        "accepts-bias-of-rows": _is_square,
        "accepts-bias-of-higher-rank": lambda case: case.inputs[BIAS].ndim > 2,
    },
    ("QMM-9", "refuse", "sizes", BIAS): {
        "refuses-bias-of-output-sizes": lambda case: (
            BIAS in case.inputs and case.inputs[BIAS].shape == tuple(case.outputs[OUTPUT].sizes)
        ),
        "refuses-bias-of-rank-0": lambda case: BIAS in case.inputs and not case.inputs[BIAS].ndim,
    },
    ("QMM-12", "accept", "value", B_SCALE): {
        "checks-first-b-scale-only": partial(_has_bad, B_SCALE, -1),
        "checks-last-b-scale-only": partial(_has_bad, B_SCALE, 0),
    },
}
