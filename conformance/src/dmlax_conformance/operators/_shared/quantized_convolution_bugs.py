"""Planted bugs that operators with a quantized convolution can have."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.convolution import Requantize, Sums, add_bias, wrapped
from ...suite.bugs.permitted import PADDINGS, RESCALES, ROUNDINGS, TOTALS
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug, in_reading
from ...suite.bugs.refusals import Rules, has_rank
from ...suite.bugs.steps import Array
from . import convolution_bugs as shared
from . import planted_bugs
from .convolution_bugs import FILTER, FILTER_POINT, IMAGE, IMAGE_POINT, OUTPUT
from .rescale_bugs import WRONG_RESCALES, with_scales
from .rounding_bugs import of_rounding

IMAGE_SCALE, FILTER_SCALE, OUTPUT_SCALE = (
    f"{name}ScaleTensor" for name in ("Input", "Filter", "Output")
)
BIAS, OUTPUT_POINT = "BiasTensor", "OutputZeroPointTensor"
PARTS = {"sums": Sums(), "requantize": Requantize()}
TOPICS = {
    "sum": "1 2",
    "padding": "3",
    "window": "8",
    "group": "9",
    "type": "2 10",
    "filter-point": "2 7",
    "zero-points": "7",
    "channels": "9",
    "overflow": "12",
    "round": "5",
    "clamp": "6",
    "exact": "1",
}
CODES = {
    "data_type": "10",
    "dimension_count": "8 14",
    "option": "8 9",
    "sizes": "4 7 8 9",
    "value": "13",
    "missing_tensor": "11",
}
FIELDS = {
    "data_type": f"{IMAGE}:float32,int16,complex64 {FILTER}:int32 {IMAGE_POINT}:int8"
    f" {FILTER_POINT}:uint8 {IMAGE_SCALE} {FILTER_SCALE} {OUTPUT_SCALE} {BIAS}:float32,int8",
    "dimension_count": f"{IMAGE}:2,5 {FILTER}:3,5",
    "option": f"{shared.WINDOWS} GroupCount",
    "sizes": f"{FILTER} GroupCount {IMAGE_POINT} {FILTER_POINT} {IMAGE_SCALE} {FILTER_SCALE}"
    f" {OUTPUT_SCALE} {OUTPUT_POINT} {BIAS}",
    "value": f"{IMAGE_SCALE} {FILTER_SCALE} {OUTPUT_SCALE}",
}
ROLES = {
    BIAS: ("4", "addend elements"),
    IMAGE_SCALE: ("1 13", "scale subnormal"),
    FILTER_SCALE: ("1 13 7", "scale subnormal elements"),
    OUTPUT_SCALE: ("1 13", "scale subnormal"),
    f"{IMAGE_SCALE} {FILTER_SCALE} {OUTPUT_SCALE}": ("1 13", "scale"),
}


class Room:
    """The bugs' parts that follow from the operator's name and its clauses' prefix."""

    def __init__(self, operator: str, prefix: str) -> None:
        """Name the clauses."""
        self.operator, self.prefix = operator, prefix
        self.topics = {topic: self.clauses(numbers) for topic, numbers in TOPICS.items()}

    def clauses(self, numbers: str) -> str:
        """Return clauses by number."""
        return " ".join(f"{self.prefix}-{number}" for number in numbers.split())

    def rules(self, codes: Mapping[str, str], fields: Mapping[str, str]) -> Rules:
        """Return the rules, with further clauses and fields of each code."""
        numbers = {code: f"{own} {codes.get(code, '')}" for code, own in CODES.items()}
        wanted = {code: f"{own} {fields.get(code, '')}" for code, own in FIELDS.items()}
        return Rules(self.operator, {k: self.clauses(own) for k, own in numbers.items()}, wanted)

    def permitted(self) -> tuple[tuple[str, str, str, Mapping[str, Any]], ...]:
        """Return other steps that are right as well."""
        return (
            (self.clauses("2"), "sums", "total", TOTALS),
            (self.clauses("2"), "sums", "pad", PADDINGS),
            (self.clauses("1"), "requantize", "rescale", RESCALES),
            (self.clauses("5"), "requantize", "rounding", ROUNDINGS),
        )

    def derived(
        self, roles: Mapping[str, tuple[str, str]], points: Mapping[str, str]
    ) -> Iterator[Bug]:
        """Yield the bugs that follow from the operator's fields, of which there may be more."""
        own = {name: (self.clauses(numbers), words) for name, (numbers, words) in roles.items()}
        yield from readings(self.operator, {**shared.roles(self.topics), **own})
        points = {IMAGE_POINT: IMAGE, FILTER_POINT: FILTER, **points}
        yield from zero_points(self.operator, self.clauses("11"), points)
        yield from outputs(self.operator, {OUTPUT: (self.clauses("10"), self.clauses("1 8"))})

    def written(self) -> Iterator[Bug]:
        """Yield the others."""
        yield from shared.of_both(self.operator, self.topics)
        yield from of_rounding(self.operator, "requantize", self.topics)
        steps = {(self.clauses(key[0]), *key[1:]): ways for key, ways in STEPS.items()}
        results = {(self.clauses(key[0]), key[1]): ways for key, ways in OUTPUTS.items()}
        answers = {(self.clauses(key[0]), *key[1:]): ways for key, ways in ANSWERS.items()}
        yield from planted_bugs.plant(self.operator, steps, results, answers)
        mean: planted_bugs.Ways = {
            "filter-scale-mean": lambda scale, call: np.full_like(
                scale, scale.mean(dtype=np.float64)
            )
        }
        yield from in_reading(self.operator, self.clauses("7"), FILTER_SCALE, mean)


# -- bias and filter scale ---------------------------------------------------------------------


def along_channels(parameter: Array, like: Array) -> Array:
    """Return a parameter along axis 1."""
    return parameter.reshape((1, -1) + (1,) * (like.ndim - 2))


def _on_first_pixel(sums: Array, bias: Array) -> Array:
    is_first = np.arange(sums[0, 0].size).reshape(sums.shape[2:]) == 0
    return np.where(is_first, add_bias(sums, bias), sums)


def _along_last_axis(sums: Array, bias: Array) -> Array:
    fits = sums.shape[-1] == bias.size
    return wrapped(sums + bias.reshape(-1).astype(np.int64)) if fits else add_bias(sums, bias)


def _unbounded(sums: Array, bias: Array, dtype: Any = np.int64) -> Array:
    return sums.astype(dtype) + along_channels(bias.astype(dtype), sums)


def _limited(sums: Array) -> Array:
    return np.clip(sums, -(2**31), 2**31 - 1).astype(np.int64)


STEPS: planted_bugs.Steps = {
    ("4", "requantize", "bias"): {
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
    ("12", "requantize", "bias"): {
        "bias-saturates": lambda sums, bias: _limited(_unbounded(sums, bias)),
        "bias-never-wraps": _unbounded,
    },
    ("1", "requantize", "rescale"): {
        "input-scale-for-filter": with_scales(lambda x, w, y: (x, x, y)),
        "input-and-output-scale-swapped": with_scales(lambda x, w, y: (y, w, x)),
        **WRONG_RESCALES,
    },
}


OUTPUTS: planted_bugs.Outputs = {
    ("1 8 10", OUTPUT): {
        **shared.LAYOUTS,
        "output-has-type-of-input": lambda y, case: y.astype(case.inputs[IMAGE].dtype),
        "output-has-type-of-filter": lambda y, case: y.astype(case.inputs[FILTER].dtype),
        "output-without-batch": lambda y, case: y[0] if len(y) == 1 else y,
    },
}


# -- refusals ----------------------------------------------------------------------------------


def _is_bad(at: int, case: Case) -> bool:
    scale = case.inputs[FILTER_SCALE].reshape(-1)[at]
    return not np.isfinite(scale) or scale == 0


def _is_uneven(case: Case) -> bool:
    lengths = shared.is_long(FILTER_POINT)(case), shared.is_long(FILTER_SCALE)(case)
    return FILTER_POINT in case.inputs and lengths[0] != lengths[1]


ANSWERS: planted_bugs.Answers = {
    ("7", "accept", "sizes", FILTER_SCALE): {
        "accepts-filter-scale-by-input": shared.is_by_input(FILTER_SCALE),
        "accepts-filter-scale-square": lambda case: (
            sum(size > 1 for size in case.inputs[FILTER_SCALE].shape) > 1
        ),
    },
    ("7", "refuse", "sizes", FILTER_SCALE): {
        "refuses-filter-scales": shared.is_long(FILTER_SCALE),
        "refuses-mixed-granularity": _is_uneven,
        "refuses-parameters-of-rank-1": has_rank(FILTER_SCALE, 1),
    },
    ("4", "accept", "sizes", BIAS): {
        "accepts-one-bias": lambda case: case.inputs[BIAS].size == 1,
        "accepts-bias-multiple": lambda case: (
            case.inputs[BIAS].size % len(case.inputs[FILTER]) == 0
        ),
    },
    ("13", "accept", "value", FILTER_SCALE): {
        "checks-first-filter-scale-only": partial(_is_bad, -1),
        "checks-last-filter-scale-only": partial(_is_bad, 0),
    },
}
