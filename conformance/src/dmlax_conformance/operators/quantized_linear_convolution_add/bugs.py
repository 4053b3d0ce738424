"""Planted bugs of a quantized convolution with an addend."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.binary import Binary, Quotient, difference, exact_sum
from ...suite.bugs.convolution import Requantize
from ...suite.bugs.permitted import ROUNDINGS
from ...suite.bugs.readings import zero_points
from ...suite.bugs.record import VALUES, Bug, bug, in_part, in_reading
from ...suite.bugs.rounding import Rounding
from ...suite.bugs.steps import Array, Call, Outputs
from .._shared import quantized_convolution_bugs as shared
from .._shared.binary_bugs import CENTRES
from .._shared.binary_bugs import ZERO_POINT_FIRST as ADDS_FIRST
from .._shared.convolution_bugs import OUTPUT
from .._shared.planted_bugs import Answers, Steps, plant
from .._shared.quantized_convolution_bugs import OUTPUT_POINT
from .._shared.rounding import RANGES, clamp
from .._shared.rounding_bugs import of_rounding
from .._shared.sum_bugs import FORMULAS, WAYS, ZERO_POINT_FIRST, in_integers
from .rules import TERMS

OPERATOR, RESULT, ADD = "quantized_linear_convolution_add", "QCA-16", "add"
ADDEND, ADDEND_SCALE, ADDEND_POINT = (f"Addend{name}Tensor" for name in ("", "Scale", "ZeroPoint"))
SUM_SCALE, SUM_POINT = "SumScaleTensor", "SumZeroPointTensor"
ROOM = shared.Room(OPERATOR, "QCA")
RULES = ROOM.rules(
    {"data_type": "19", "dimension_count": "20", "sizes": "20 21", "value": "22"}
    | {"missing_tensor": "23"},
    {
        "data_type": f"{OUTPUT_POINT}:int32 {ADDEND}:int16,float32 {ADDEND_SCALE} {SUM_SCALE}"
        f" {ADDEND_POINT}:int8,int32 {SUM_POINT}:int8,int32 {OUTPUT}",
        "dimension_count": f"{ADDEND}:3,5",
        "sizes": f"{ADDEND} {ADDEND_SCALE} {ADDEND_POINT} {SUM_SCALE} {SUM_POINT}",
        "value": f"{ADDEND_SCALE} {SUM_SCALE}",
    },
)
ROLES = {
    **shared.ROLES,
    ADDEND: ("16 20", "axes elements signed"),
    ADDEND_SCALE: ("16 22", "scale subnormal"),
    SUM_SCALE: ("16 22", "scale subnormal"),
    ADDEND_POINT: ("16", "zero-point"),
    SUM_POINT: ("16 17", "zero-point"),
}


def terms(convolved: Array, call: Call) -> Mapping[str, Array]:
    """Name the operands of the sum as those of an addition; a result of wrong sizes has its own."""
    addend = np.resize(call.inputs[ADDEND], convolved.shape)
    known = {**call.inputs, "ConvolvedTensor": convolved, ADDEND: addend}
    return {own: known[name] for name, own in TERMS.items() if name in known}


Take = Callable[[Array, Call], Mapping[str, Array]]  # the operands of the sum


@dataclass(frozen=True)
class Sum:
    """The steps of the sum, in order."""

    terms: Take = terms
    centre: Callable[[int, int, str], int] = difference
    quotient: Quotient = exact_sum
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, outputs: Outputs, call: Call) -> Outputs:
        """Return the quantized sum."""
        add = Binary(self.quotient, centre=self.centre, rounding=self.rounding)
        return add(call._replace(inputs=self.terms(outputs[OUTPUT], call)))


def convolved_dtype(call: Call) -> str:
    """Return the data type of the convolution's result."""
    name = OUTPUT_POINT if OUTPUT_POINT in call.inputs else "InputTensor"
    return call.inputs[name].dtype.name


REQUANTIZE = Requantize(dtype=convolved_dtype)
PARTS = {**shared.PARTS, "requantize": REQUANTIZE, ADD: Sum()}
PERMITTED = (
    *ROOM.permitted(),
    ("QCA-17", ADD, "rounding", {f"sum-{name}": way for name, way in ROUNDINGS.items()}),
    ("QCA-16", ADD, "quotient", {"integer-sum": in_integers}),
    ("QCA-24", ADD, "terms", {"addend-first": lambda convolved, call: _turned(convolved, call)}),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from ROOM.derived(ROLES, {})
    yield from zero_points(OPERATOR, "QCA-23", {ADDEND_POINT: ADDEND, SUM_POINT: OUTPUT})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from ROOM.written()
    clauses = {"round": "QCA-17", "clamp": "QCA-18", "exact": "QCA-16"}
    yield from of_rounding(OPERATOR, ADD, clauses, "sum-")
    yield from plant(OPERATOR, STEPS, {}, ANSWERS)
    yield from in_reading(OPERATOR, "QCA-5 QCA-6 QCA-16", OUTPUT_POINT, POINTS)
    for name, way in ZERO_POINT_FIRST.items():
        part = Sum(quotient=way, rounding=ADDS_FIRST)
        yield bug(OPERATOR, f"sum-{name}", "QCA-16 QCA-17", VALUES, add=part)
    for name, requantize in CONVOLVED.items():
        yield bug(OPERATOR, name, "QCA-16", VALUES, requantize=requantize)
    yield from in_part(OPERATOR, "QCA-15", "requantize", "dtype", DTYPES)
    yield bug(OPERATOR, "absent-output-zero-point-is-middle", "QCA-11", VALUES, read=_supplied)


# -- the convolution's result ------------------------------------------------------------------


def _objects(found: Any, dtype: str) -> Array:
    return np.array(found, object)


def _unrounded(quotient: Any, zero: int) -> Any:
    return quotient + zero


def _unlimited(value: int, dtype: str) -> int:
    return value


def _instead(**steps: Any) -> Requantize:
    """Give the sum a result that need not be one of 8 bits."""
    return replace(REQUANTIZE, store=_objects, rounding=Rounding(**steps))


CONVOLVED = {  # which the sum has to take rounded and clamped
    "rounds-once": _instead(place=_unrounded, clamp=_unlimited),
    "result-is-not-rounded": _instead(place=_unrounded),
    "result-is-not-clamped": _instead(clamp=_unlimited),
    "result-is-clamped-to-16-bits": _instead(
        clamp=lambda value, dtype: min(max(value, -(2**15)), 2**15 - 1)
    ),
}
DTYPES: Mapping[str, Callable[[Call], str]] = {
    "result-has-type-of-output": lambda call: call.outputs[OUTPUT].dtype,
    "result-has-type-of-input": lambda call: call.inputs["InputTensor"].dtype.name,
    "result-has-type-of-addend": lambda call: call.inputs[ADDEND].dtype.name,
    "result-is-int8": lambda call: "int8",
    "result-is-uint8": lambda call: "uint8",
}
POINTS: Mapping[str, Callable[[Any, Call], Any]] = {
    "output-zero-point-ignored": lambda own, call: np.zeros_like(own),
    "output-zero-point-negated": lambda own, call: np.clip(
        -own.astype(np.int64), *RANGES[own.dtype.name]
    ).astype(own.dtype),
}


def _supplied(call: Call) -> Call:
    """Take 128 for a zero point that UINT8 lacks."""
    if OUTPUT_POINT in call.inputs or convolved_dtype(call) == "int8":
        return call
    return call._replace(inputs={**call.inputs, OUTPUT_POINT: np.array([128], np.uint8)})


# -- the operands of the sum -------------------------------------------------------------------


def _with(**changed: str) -> Take:
    """Take operands for others, as an addition names them; an absent one is left out."""

    def take(convolved: Array, call: Call) -> Mapping[str, Array]:
        own = terms(convolved, call)
        kept = {name: array for name, array in own.items() if name not in changed}
        return kept | {name: own[other] for name, other in changed.items() if other in own}

    return take


def _turned(convolved: Array, call: Call) -> Mapping[str, Array]:
    """Add the result to the addend."""
    turned = {"A": "B", "B": "A"}
    own = terms(convolved, call)
    return {turned.get(name[0], name[0]) + name[1:]: array for name, array in own.items()}


def _if_first(take: Take, is_first: bool = True) -> Take:
    """Take wrong operands only of calls whose AddendFirst is so."""
    return lambda convolved, call: (take if call.attributes["AddendFirst"] == is_first else terms)(
        convolved, call
    )


def _without(name: str) -> Take:
    return lambda convolved, call: {
        own: array for own, array in terms(convolved, call).items() if own != name
    }


def _first_for_all(name: str, axis: int, convolved: Array, call: Call) -> Mapping[str, Array]:
    """Take the first index of an axis for all of them, if it has any."""
    own = terms(convolved, call)
    first = own[name].take(range(min(1, own[name].shape[axis])), axis)
    return {**own, name: np.broadcast_to(first, own[name].shape)}


VALUES_SWAPPED = _with(ATensor="BTensor", BTensor="ATensor")
SCALES_SWAPPED = _with(AScaleTensor="BScaleTensor", BScaleTensor="AScaleTensor")
POINTS_SWAPPED = _with(AZeroPointTensor="BZeroPointTensor", BZeroPointTensor="AZeroPointTensor")


def _only_in_range_of_result(convolved: Array, call: Call) -> Mapping[str, Array]:
    own = terms(convolved, call)
    low, high = RANGES[convolved.dtype.name]
    return {**own, "BTensor": np.clip(own["BTensor"].astype(np.int64), low, high)}


STEPS: Steps = {
    ("QCA-16", ADD, "terms"): {
        "swaps-result-and-addend": VALUES_SWAPPED,
        "swaps-scales-of-sum": SCALES_SWAPPED,
        "swaps-zero-points-of-sum": POINTS_SWAPPED,
        "addend-scale-for-result": _with(AScaleTensor="BScaleTensor"),
        "output-scale-for-addend": _with(BScaleTensor="AScaleTensor"),
        "output-scale-for-sum": _with(OutputScaleTensor="AScaleTensor"),
        "addend-scale-for-sum": _with(OutputScaleTensor="BScaleTensor"),
        "sum-scale-for-result": _with(AScaleTensor="OutputScaleTensor"),
        "sum-scale-for-addend": _with(BScaleTensor="OutputScaleTensor"),
        "output-zero-point-for-sum": _with(OutputZeroPointTensor="AZeroPointTensor"),
        "addend-zero-point-for-sum": _with(OutputZeroPointTensor="BZeroPointTensor"),
        "sum-zero-point-for-result": _with(AZeroPointTensor="OutputZeroPointTensor"),
        "sum-zero-point-for-addend": _with(BZeroPointTensor="OutputZeroPointTensor"),
        "output-zero-point-for-addend": _with(BZeroPointTensor="AZeroPointTensor"),
        "addend-zero-point-for-result": _with(AZeroPointTensor="BZeroPointTensor"),
        "output-zero-point-not-in-sum": _without("AZeroPointTensor"),
        "addend-twice": _with(
            ATensor="BTensor", AScaleTensor="BScaleTensor", AZeroPointTensor="BZeroPointTensor"
        ),
        "result-twice": _with(
            BTensor="ATensor", BScaleTensor="AScaleTensor", BZeroPointTensor="AZeroPointTensor"
        ),
        "addend-in-range-of-result": _only_in_range_of_result,
        "addend-of-first-channel": partial(_first_for_all, "BTensor", 1),
        "addend-of-first-row": partial(_first_for_all, "BTensor", 2),
        "addend-of-first-column": partial(_first_for_all, "BTensor", -1),
        "result-of-first-image": partial(_first_for_all, "ATensor", 0),
        "result-of-first-channel": partial(_first_for_all, "ATensor", 1),
    },
    ("QCA-24", ADD, "terms"): {
        f"{name}-{'if' if is_first else 'unless'}-addend-first": _if_first(way, is_first)
        for name, way in {
            "swaps-result-and-addend": VALUES_SWAPPED,
            "swaps-scales-of-sum": SCALES_SWAPPED,
            "swaps-zero-points-of-sum": POINTS_SWAPPED,
        }.items()
        for is_first in (True, False)
    },
    ("QCA-16", ADD, "quotient"): {f"sum-{name}": way for name, way in {**FORMULAS, **WAYS}.items()},
    ("QCA-16", ADD, "centre"): {f"sum-{name}": way for name, way in CENTRES.items()},
    ("QCA-18", ADD, "rounding"): {
        "sum-clamps-to-uint8-first": Rounding(
            lambda quotient, zero: clamp(round(quotient) + zero, "uint8")
        ),
        "sum-clamps-to-int8-first": Rounding(
            lambda quotient, zero: clamp(round(quotient) + zero, "int8")
        ),
    },
}


# -- refusals ----------------------------------------------------------------------------------


def _addend_repeats(case: Case) -> bool:
    """Return whether the addend has sizes of 1 where the output has others."""
    pairs = zip(case.inputs[ADDEND].shape, case.outputs[OUTPUT].sizes, strict=True)
    return all(size in (1, wanted) for size, wanted in pairs)


ANSWERS: Answers = {
    ("QCA-20", "accept", "sizes", ADDEND): {
        "accepts-addend-that-repeats": _addend_repeats,
        "accepts-addend-of-as-many-elements": lambda case: (
            case.inputs[ADDEND].size == int(np.prod(case.outputs[OUTPUT].sizes))
        ),
        "accepts-larger-addend": lambda case: (
            case.inputs[ADDEND].size > int(np.prod(case.outputs[OUTPUT].sizes))
        ),
    },
    ("QCA-19", "refuse", "data_type", ADDEND): {
        "refuses-addend-of-another-type": lambda case: (
            case.inputs[ADDEND].dtype != case.inputs["InputTensor"].dtype
        ),
    },
    ("QCA-19", "refuse", "data_type", OUTPUT): {
        "refuses-output-of-another-type": lambda case: (
            case.inputs[ADDEND].dtype.name != case.outputs[OUTPUT].dtype
        ),
    },
    ("QCA-24", "refuse", "option", "AddendFirst"): {
        "refuses-addend-first": lambda case: case.attributes["AddendFirst"],
    },
}
