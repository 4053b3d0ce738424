"""Planted bugs that several pools can have: windows, parameters, means."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.convolution import taps
from ...suite.bugs.pooling import Average, Gather
from ...suite.bugs.readings import AXES, outputs, readings, zero_points
from ...suite.bugs.record import VALUES, Bug, bug, correct, in_reading
from ...suite.bugs.refusals import Rules, accept, has_rank, in_refusals, kebab, refuse
from ...suite.bugs.steps import Array, Sizes
from . import floats
from .convolution import Windows
from .convolution_bugs import LAYOUTS, PADDINGS, is_long, pad_otherwise, sizes_up, with_room
from .floats import Real, exactly
from .planted_bugs import Ways, plant
from .pooling_floats import MEANS, Mean, exact_mean, in_turn
from .pooling_rules import ENDS, PARAMETERS, POINTS, SCALES
from .rounding_bugs import of_rounding

IMAGE, OUTPUT = "InputTensor", "OutputTensor"
WINDOWS = "WindowSize Strides Dilations StartPadding EndPadding"
WITHIN = ("flipped", "flipped-on-last-axis", "transposed")  # which the mean of an image ignores
ALIKE_RANKS = "the sizes of the outputs follow from those of the input"
PARTS: Mapping[str, Any] = {"gather": Gather(), "average": Average()}
AVERAGE_FIELDS = {
    "data_type": f"{IMAGE}:float32,int16,complex64"
    f" {POINTS[0]}:int8,int32 {POINTS[1]}:int8,int32 {OUTPUT}"
    f" {SCALES[0]}:float16,int32 {SCALES[1]}:float16,int32",
    "dimension_count": f"{IMAGE}:2,6",
    "sizes": f"{IMAGE} {' '.join(PARAMETERS)}",
    "value": " ".join(f"{name}:minus-zero" for name in SCALES),
}


def average_rules(operator: str, label: str, has_windows: bool) -> Rules:
    """Return the codes and fields of an average."""
    numbers = {"data_type": "5", "dimension_count": "8", "sizes": "4 9", "value": "7"}
    numbers["missing_tensor"] = "6"
    fields = dict(AVERAGE_FIELDS)
    if has_windows:
        numbers |= {"option": "10", "sizes": "4 9 10"}
        fields |= {"option": WINDOWS, "sizes": f"{fields['sizes']} WindowSize"}
    clauses = {code: _named(label, own) for code, own in numbers.items()}
    return Rules(operator, clauses, fields)


def _named(label: str, numbers: str) -> str:
    return " ".join(f"{label}-{number}" for number in numbers.split())


def average_readings(operator: str, label: str, extra: Mapping[str, Any]) -> Iterator[Bug]:
    """Yield the bugs that follow from the fields of an average."""
    roles = {
        f"{IMAGE} {POINTS[0]}": (_named(label, "5"), "signed"),
        POINTS[0]: (_named(label, "1 4"), "zero-point elements"),
        POINTS[1]: (_named(label, "2 3 4"), "zero-point elements"),
        **dict.fromkeys(SCALES, (_named(label, "1 4 7"), "scale subnormal elements")),
        " ".join(PARAMETERS): (_named(label, "4"), "elements"),
    }
    yield from readings(operator, {**roles, **extra})
    ways = {f"input-{name}": way for name, way in AXES.items() if extra or name not in WITHIN}
    yield from in_reading(operator, _named(label, "1 5"), IMAGE, ways)
    pairs = {f"{name}ZeroPointTensor": f"{name}Tensor" for name in ENDS}
    yield from zero_points(operator, _named(label, "6"), pairs)
    yield from outputs(operator, {OUTPUT: (_named(label, "5"), _named(label, "1 8"))})


def of_averages(operator: str, label: str, has_windows: bool) -> Iterator[Bug]:
    """Yield the written bugs of every average; without windows the output is one pixel."""
    clauses = {"round": "2", "clamp": "3", "exact": "1 2"}
    yield from of_rounding(
        operator, "average", {k: _named(label, own) for k, own in clauses.items()}
    )
    steps = {(_named(label, number), *rest): ways for (number, *rest), ways in STEPS.items()}
    swapped = "output-axes-swapped"
    layouts = LAYOUTS if has_windows else {swapped: LAYOUTS[swapped]}
    shapes = {(_named(label, "1 5 8"), OUTPUT): {**layouts, **TYPES}}
    answers = {
        (_named(label, n), *rest): ways for (n, *rest), ways in {**ANSWERS, **RANK_3}.items()
    }
    yield from plant(operator, steps, shapes, answers)  # type: ignore[arg-type]
    for name, axis in {"last": -1, "first": 0, "third": 2}.items():
        moved = replace(PARTS["gather"], axis=axis), replace(PARTS["average"], axis=axis)
        clause, text = _named(label, "4"), f"along-{name}-axis"
        yield bug(operator, f"zero-points-{text}", clause, VALUES, gather=moved[0])
        if has_windows or axis == 0:
            yield bug(operator, f"scales-{text}", clause, VALUES, average=moved[1])


# -- means -------------------------------------------------------------------------------------


def _with(change: Callable[[int, int, Fraction, Fraction], Fraction]) -> Mean:
    return lambda values, count, sx, sy: exactly(change(sum(values), count, sx, sy))


def _ratio(top: Fraction, bottom: Fraction) -> Fraction:
    return top / bottom if bottom else Fraction(0)


def _whole_mean(total: int, count: int, sx: Fraction, sy: Fraction) -> Fraction:
    """Round the mean of the integers before it is scaled."""
    return floats.round_half_even(Fraction(total, count)) * sx / sy if count else Fraction(0)


def _limited(bits: int, wraps: bool) -> Mean:
    half = 2 ** (bits - 1)

    def mean(total: int, count: int, sx: Fraction, sy: Fraction) -> Fraction:
        kept = (total + half) % (2 * half) - half if wraps else min(max(total, -half), half - 1)
        return exact_mean([kept], count, sx, sy).value

    return _with(mean)


def _first(most: int) -> Mean:
    return lambda values, count, sx, sy: exact_mean(values[:most], count, sx, sy)


def _float32_sum(values: Any, count: int, sx: Fraction, sy: Fraction) -> Real:
    total = np.add.accumulate(np.array([*values, 0], np.float32))[-1]
    return exact_mean([int(total)], count, sx, sy)


STEPS: Mapping[tuple[str, str, str], Ways] = {
    ("1", "average", "mean"): {
        **MEANS,
        "float16-in-turn": in_turn("float16"),
        "output-scale-multiplied": _with(lambda s, n, sx, sy: _ratio(s * sx * sy, Fraction(n))),
        "scales-swapped": _with(lambda s, n, sx, sy: _ratio(s * sy, sx * n)),
        "mean-rounded-first": _with(_whole_mean),
        "mean-truncated-first": _with(
            lambda s, n, sx, sy: int(s / n) * sx / sy if n else Fraction(0)
        ),
        "sum-is-not-divided": _with(lambda s, n, sx, sy: s * sx / sy),
        "sums-wrap-at-16-bits": _limited(16, True),
        "sums-saturate-at-16-bits": _limited(16, False),
        "sums-wrap-at-24-bits": _limited(24, True),
        "sums-in-float32": _float32_sum,
        "only-255-elements": _first(255),
        "only-256-elements": _first(256),
        "first-element-lost": lambda values, count, sx, sy: exact_mean(
            values[len(values) > 1 :], count, sx, sy
        ),
    },
    ("1 5", "gather", "centre"): {
        "difference-wraps": lambda x, z: (x.astype(np.int64) - z).astype(x.dtype).astype(np.int64),
        "difference-saturates": lambda x, z: np.clip(x.astype(np.int64) - z, -128, 127),
    },
}
TYPES: Ways = {"output-has-type-of-input": lambda y, case: y.astype(case.inputs[IMAGE].dtype)}


# -- refusals ----------------------------------------------------------------------------------


def _is_by_width(name: str) -> Callable[[Case], bool]:
    return lambda case: case.inputs[name].size == case.inputs[IMAGE].shape[-1]


def _is_square(name: str) -> Callable[[Case], bool]:
    return lambda case: sum(size > 1 for size in case.inputs[name].shape) > 1


def _answers(name: str) -> Mapping[tuple[str, str, str, str], Ways]:
    label = kebab(name)
    return {
        ("4", "accept", "sizes", name): {
            f"accepts-{label}-by-width": _is_by_width(name),
            f"accepts-{label}-square": _is_square(name),
        },
        ("4", "refuse", "sizes", name): {
            f"refuses-{label}-of-channels": is_long(name),
            f"refuses-{label}-of-rank-1": has_rank(name, 1),
        },
    }


ANSWERS = {key: ways for name in PARAMETERS for key, ways in _answers(name).items()}
RANK_3: Mapping[tuple[str, str, str, str], Ways] = {
    ("8", "refuse", "dimension_count", IMAGE): {
        "refuses-rank-3": has_rank(IMAGE, 3),
        "refuses-rank-5": has_rank(IMAGE, 5),
    },
    ("9", "refuse", "sizes", IMAGE): {"refuses-no-image": lambda case: not len(case.inputs[IMAGE])},
    ("9", "accept", "sizes", IMAGE): {
        "accepts-height-0": lambda case: case.inputs[IMAGE].shape[2] == 0,
        "accepts-width-0": lambda case: case.inputs[IMAGE].shape[-1] == 0,
    },
}


# -- windows -----------------------------------------------------------------------------------


def of_windows(operator: str, clause: str, part: str) -> Iterator[Bug]:
    """Yield the bugs of the windows of a pool, which this part finds."""
    whole: Any = correct(operator).parts[part]
    for name, change in PADDINGS.items():
        yield bug(operator, name, clause, VALUES, read=partial(pad_otherwise, change))
    for name, (sizes, under) in SIZES.items():
        made = replace(whole, sizes=sizes, taps=under)
        yield bug(operator, name, clause, VALUES, **{part: made})
    for name, calls in WINDOW_ANSWERS.items():
        accepted = {name: calls}
        yield from in_refusals(operator, clause, accept, "sizes", "WindowSize", accepted)
    for name, calls in WINDOW_REFUSALS.items():
        refused = {name: calls}
        yield from in_refusals(operator, clause, refuse, "sizes", "WindowSize", refused)


def _undilated(windows: Windows, image: Sizes, size: Sizes) -> Sizes:
    return replace(windows, dilations=(1,) * len(size)).output_sizes(image, size)


def _with_dilated_room(padded: Array, size: Sizes, spatial: Sizes, windows: Windows) -> Array:
    rows = zip(size, windows.dilations, strict=True)
    more = [(0, 0), (0, 0), *((0, (k - 1) * (d - 1)) for k, d in rows)]
    return taps(np.pad(padded, more), size, spatial, windows)


def _one_short(windows: Windows, image: Sizes, size: Sizes) -> Sizes:
    return tuple(max(each - 1, 1) for each in windows.output_sizes(image, size))


def _flipped(padded: Array, size: Sizes, spatial: Sizes, windows: Windows) -> Array:
    """Count windows from the end."""
    axes = tuple(range(2, padded.ndim))
    found = taps(np.flip(padded, axes), size, spatial, windows)
    return np.flip(found, tuple(axis + 1 for axis in axes))


def _room(case: Case, is_dilated: bool = True) -> list[int]:
    """Return by how much the padded input exceeds the window on each axis."""
    given = case.attributes
    fields = ("WindowSize", "Dilations", "StartPadding", "EndPadding")
    rows = zip(case.inputs[IMAGE].shape[2:], *(given[field] for field in fields), strict=True)
    return [
        n + start + end - (k - 1) * (d if is_dilated else 1) - 1 for n, k, d, start, end in rows
    ]


SIZES = {
    "ceil-mode": (sizes_up, with_room),
    "size-forgets-dilation": (_undilated, _with_dilated_room),
    "sizes-one-short": (_one_short, taps),
    "windows-from-the-end": (Windows.output_sizes, _flipped),
}
WINDOW_ANSWERS: Mapping[str, Callable[[Case], Any]] = {
    "accepts-high-window": lambda case: _room(case)[0] < 0,
    "accepts-wide-window": lambda case: _room(case)[-1] < 0,
    "accepts-dilated-window": lambda case: min(_room(case)) < 0 <= min(_room(case, False)),
}
WINDOW_REFUSALS: Mapping[str, Callable[[Case], Any]] = {
    "refuses-one-sided-padding": lambda case: (
        case.attributes["StartPadding"] != case.attributes["EndPadding"]
    ),
    "refuses-padding-of-a-window": lambda case: any(
        np.greater_equal(case.attributes["StartPadding"], case.attributes["WindowSize"])
    ),
    "refuses-window-beyond-input": lambda case: any(
        np.greater(case.attributes["WindowSize"], case.inputs[IMAGE].shape[2:])
    ),
}
WINDOW_ROLES = {
    **dict.fromkeys(("WindowSize", "Strides", "Dilations"), "step"),
    **dict.fromkeys(("StartPadding", "EndPadding"), "padding"),
}
