"""Mutants of the three pools: their steps, and one table of wrong ways; spatial axes come last."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.oracle import exact as floats
from dmlax_conformance.oracle.convolution import Windows
from dmlax_conformance.oracle.exact import NAN, Real, exactly
from dmlax_conformance.oracle.pooling import PARAMETERS, POINTS, SCALES, whole, windows_of

from . import arithmetic
from .arithmetic import Rounding, clipped, modulo, without
from .convolution import (
    LAYOUTS,
    PADDINGS,
    along_channels,
    of_windows,
    one_short,
    pad_otherwise,
    sizes_up,
    surrounded,
    taps,
    with_room,
)
from .engine.mutant import Table, When
from .engine.readings import AXES, cast
from .engine.refusals import has_length, has_rank, is_long, is_square
from .engine.steps import Array, Call, Outputs, Sizes, fractions, of_float, to_float
from .family import for_each, load

IMAGE, OUTPUT, INDICES = "InputTensor", "OutputTensor", "OutputIndicesTensor"
Options = Mapping[str, Any]
Values = Sequence[int]
Mean = Callable[[Values, int, Fraction, Fraction], Real]  # differences, n, both scales
Find = Callable[[Windows, Sizes, Sizes], Sizes]  # the output's sizes from the image's and window's
Take = Callable[[Array, Sizes, Options], Array]  # from a padded image, and sizes without padding

# -- steps -------------------------------------------------------------------------------------


def under_windows(
    x: Array, image: Sizes, options: Options, sizes: Find = Windows.output_sizes, taps: Any = taps
) -> Array:
    """Return (N, C, tap, ...): what lies under all windows of an image that is padded already."""
    windows, size = windows_of(options), tuple(options["WindowSize"])
    spatial = sizes(windows, image, size)
    if min(spatial) < 1:
        empty = (prod(size), *(max(length, 0) for length in spatial))
        return np.zeros((*x.shape[:2], *empty), x.dtype)
    return np.asarray(taps(x, size, spatial, windows))


def spread(parameter: Array, like: Array, axis: int) -> Array:
    """Repeat a parameter along an axis, or along the channels if it does not fit."""
    fits = parameter.size == like.shape[axis]
    return np.broadcast_to(
        along_channels(parameter, like, axis % like.ndim if fits else 1), like.shape
    )


def count_elements(inside: Array, include_padding: bool) -> Array:
    """Return n for all windows, from what lies inside the image: (N, C, tap, ...)."""
    return np.full_like(inside[:, :, 0], inside.shape[2]) if include_padding else inside.sum(2)


def read_image(call: Call) -> Options:
    """Return the attributes of the call; without any, those of one window, the image."""
    return call.attributes if "WindowSize" in call.attributes else whole(call.inputs[IMAGE].shape)


@dataclass(frozen=True)
class Gather:
    """The steps that find the elements of all windows less the zero point, and n, in order."""

    window: Callable[[Call], Options] = read_image
    centre: Callable[[Array, Array], Array] = without
    pad: Callable[[Array, Windows, Array], Array] = lambda x, windows, zero: surrounded(x, windows)
    taps: Take = under_windows
    count: Callable[[Array, bool], Array] = count_elements
    axis: int = 1  # of the zero points

    def __call__(self, call: Call) -> tuple[Array, Array]:
        """Return the elements of all windows as {N, C, ..., tap}, and n."""
        x, options = call.inputs[IMAGE], self.window(call)
        windows = windows_of(options)
        zero = spread(call.inputs.get(POINTS[0], np.zeros(1, np.int8)), x, self.axis)
        padded = self.pad(self.centre(x, zero), windows, zero.astype(np.int64))
        inside = surrounded(np.ones(x.shape, np.int64), windows)
        under, inside = (self.taps(array, x.shape[2:], options) for array in (padded, inside))
        return np.moveaxis(under, 2, -1), self.count(inside, options["IncludePadding"])


def exact_mean(values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
    """Return sum * sx / (sy * n) in real arithmetic, 0 for an empty window."""
    return exactly(sum(values) * sx / (sy * count) if count else Fraction(0))


@dataclass(frozen=True)
class Average:
    """The steps from the elements of a window to the quantized output, in order."""

    mean: Mean = exact_mean
    rounding: Rounding = field(default_factory=Rounding)
    axis: int = 1  # of the parameters

    def __call__(self, windows: tuple[Array, Array], call: Call) -> Outputs:
        """Return the quantized output; equal windows are worked out once."""
        (elements, counts), dtype = windows, call.outputs[OUTPUT].dtype

        @cache
        def quantized(row: tuple[int, ...], count: int, sx: Any, sy: Any, zero: Any) -> int:
            return self.rounding(self.mean(row, count, sx, sy), int(zero), dtype)

        zero = call.inputs.get(POINTS[1], np.zeros(1, np.int8))
        tensors = (*(call.inputs[name] for name in SCALES), zero)
        exact = (np.array(fractions(tensor), object) for tensor in tensors)
        parameters = [spread(values, counts, self.axis).reshape(-1) for values in exact]
        rows = map(tuple, elements.reshape(counts.size, elements.shape[-1]).tolist())
        means = list(map(quantized, rows, counts.reshape(-1).tolist(), *parameters))
        return {OUTPUT: np.array(means, dtype).reshape(counts.shape)}


def pad_by(value: Callable[[Any], int], of_floats: float = 0) -> Callable[[Array, Windows], Array]:
    """Surround integers by a number, given their limits."""
    return lambda x, windows: surrounded(
        x, windows, constant_values=of_floats if x.dtype.kind == "f" else value(np.iinfo(x.dtype))
    )


pad_lowest = pad_by(lambda limits: limits.min, -np.inf)


@dataclass(frozen=True)
class Largest:
    """The steps of the maximum and its place, in order."""

    pad: Callable[[Array, Windows], Array] = pad_lowest
    taps: Take = under_windows
    choose: Callable[[Array], Array] = lambda under: under.argmax(2)
    place: Callable[[Array, Sizes], Array] = lambda places, image: places

    def __call__(self, call: Call) -> Outputs:
        """Return the largest elements, and their places if they are asked for."""
        x, windows = call.inputs[IMAGE], windows_of(call.attributes)
        places = surrounded(np.arange(x.size).reshape(x.shape), windows)
        padded = self.pad(x, windows), places
        taken = [self.taps(array, x.shape[2:], call.attributes) for array in padded]
        chosen = self.choose(taken[0])[:, :, None]
        values, where = (np.take_along_axis(array, chosen, 2)[:, :, 0] for array in taken)
        answer = {OUTPUT: values}
        if INDICES in call.outputs:
            answer[INDICES] = self.place(where, x.shape).astype(call.outputs[INDICES].dtype)
        return answer


# -- wrong ways --------------------------------------------------------------------------------


def _undilated(windows: Windows, image: Sizes, size: Sizes) -> Sizes:
    return replace(windows, dilations=(1,) * len(size)).output_sizes(image, size)


def _dilation(windows: Windows, size: Sizes) -> list[int]:
    return [(k - 1) * (d - 1) for k, d in zip(size, windows.dilations, strict=True)]


def _from_the_end(padded: Array, size: Sizes, spatial: Sizes, windows: Windows) -> Array:
    axes = tuple(range(2, padded.ndim))
    flipped = taps(np.flip(padded, axes), size, spatial, windows)
    return np.flip(flipped, tuple(axis + 1 for axis in axes))


def _in_floats(dtype: str, change: Callable[..., Any]) -> Mean:
    """Round every step of a formula to a float type; the mean of an empty window is 0."""

    def mean(values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
        numbers = (to_float(Fraction(number), dtype) for number in (sum(values), count, sx, sy))
        return of_float(change(*numbers)) if count else exactly(Fraction(0))

    return mean


def _in_turn(dtype: str) -> Mean:
    """Dequantize all elements, add one after the other, and divide by n and the output scale."""

    def mean(values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
        if not count:
            return exactly(Fraction(0))
        terms = (np.array(values) * float(sx)).astype(dtype)
        average = np.add.accumulate(terms)[-1] / to_float(Fraction(count), dtype)
        return of_float((average.astype(np.float64) / float(sy)).astype(dtype))

    return mean


def _float32_divisor(values: Values, count: int, sx: Fraction, sy: Fraction) -> Real:
    """Return sum * sx / float32(sy * n), 0 if the divisor is infinite."""
    divisor = floats.nearest(exactly(sy * count), "float32")
    is_zero = not count or divisor.kind == "inf"
    return exactly(Fraction(0) if is_zero else sum(values) * sx / divisor.value)


def _with_total(change: Callable[[Values], int]) -> Mean:
    """Return the mean with another sum."""
    return lambda values, count, sx, sy: exact_mean([change(values)], count, sx, sy)


def _in_integers(
    change: Callable[[Fraction], int], values: Values, count: int, sx: Fraction, sy: Fraction
) -> Real:
    """Make the mean an integer before it is scaled."""
    mean = change(Fraction(sum(values), max(count, 1)))
    return exact_mean([mean], min(count, 1), sx, sy)


def _near_1(call: Call) -> Call:
    """Leave out a rescale within 0.1 % of 1."""
    sx, sy = np.broadcast_arrays(*(call.inputs[name].reshape(-1) for name in SCALES))
    scale = np.where(np.abs(sx / sy - 1) < 1e-3, sy, sx)
    return call._replace(inputs={**call.inputs, SCALES[0]: scale})


def _without_last(call: Call) -> Options:
    """Leave out the last row or column of the image, unless it is the only one."""
    options = dict(read_image(call))
    options["WindowSize"] = [max(size - 1, 1) for size in options["WindowSize"]]
    return {**options, "Strides": [size + 1 for size in options["WindowSize"]]}


def _same_at_the_border(inside: Array, include: bool) -> Array:
    counts = count_elements(inside, include)
    return np.full_like(counts, counts.max(initial=0))


PARAMETER = "AVG-4 GAP-4"
OF_PARAMETERS: Mapping[str, Mapping[str, Callable[[str], When]]] = {
    "accept sizes": {
        "accepts-{}-by-width": lambda name: has_length(name, IMAGE, -1),
        "accepts-{}-square": is_square,
    },
    "refuse sizes": {
        "refuses-{}-of-channels": is_long,
        "refuses-{}-of-rank-1": lambda name: has_rank(name, 1),
    },
}
WITH_ROOM = partial(with_room, room=_dilation)
TAPS: Mapping[str, Take] = {
    "ceil-mode": partial(under_windows, sizes=sizes_up, taps=with_room),
    "size-forgets-dilation": partial(under_windows, sizes=_undilated, taps=WITH_ROOM),
    "sizes-one-short": partial(under_windows, sizes=one_short),
    "windows-from-the-end": partial(under_windows, taps=_from_the_end),
}
TABLE: Table = {  # by topic and place
    ("MAX-3", "pool.taps"): TAPS,
    ("AVG-10 AVG-11", "gather.taps"): TAPS,
    ("MAX-3 AVG-10 AVG-11", "whole"): {
        name: {"read": partial(pad_otherwise, change)} for name, change in PADDINGS.items()
    },
    **of_windows(
        "MAX-3 AVG-10 AVG-11",
        "WindowSize",
        "window",
        "padding-of-a-window",
        lambda case: tuple(case.attributes["WindowSize"]),
    ),
    ("MAX-1 MAX-3 AVG-1 AVG-5 AVG-8", f"output {OUTPUT}"): LAYOUTS,
    ("AVG-1 AVG-5 AVG-8 GAP-1 GAP-5 GAP-8", f"output {OUTPUT}"): {
        "output-has-type-of-input": lambda y, case: y.astype(case.inputs[IMAGE].dtype)
    },
    ("MAX-5 AVG-8", f"refuse dimension_count {IMAGE}"): {"refuses-rank-3": has_rank(IMAGE, 3)},
    ("MAX-6 AVG-9 GAP-9", f"refuse sizes {IMAGE}"): {
        "refuses-no-image": lambda case: not len(case.inputs[IMAGE])
    },
    ("MAX-6 AVG-9 GAP-9", f"accept sizes {IMAGE}"): {
        "accepts-height-0": lambda case: case.inputs[IMAGE].shape[2] == 0,
        "accepts-width-0": lambda case: case.inputs[IMAGE].shape[-1] == 0,
    },
    **for_each(dict.fromkeys(PARAMETERS, PARAMETER), OF_PARAMETERS),
    (PARAMETER, "gather.axis"): {
        "zero-points-along-last-axis": -1,
        "zero-points-along-first-axis": 0,
        "zero-points-along-third-axis": 2,
    },
    (PARAMETER, "average.axis"): {"scales-along-first-axis": 0},
    ("AVG-4", "average.axis"): {"scales-along-last-axis": -1, "scales-along-third-axis": 2},
    ("AVG-1 AVG-5 GAP-1 GAP-5", "gather.centre"): {
        name: arithmetic.WRONG_DIFFERENCES[name]
        for name in ("difference-wraps", "difference-saturates")
    },
    ("AVG-1 GAP-1", "average.mean"): {
        **{
            f"float{bits}-{name}": _in_floats(f"float{bits}", change)
            for bits in (32, 64)
            for name, change in {
                "multiplier": lambda total, n, sx, sy: total * (sx / (sy * n)),
                "reciprocal": lambda total, n, sx, sy: total * sx * (1 / (sy * n)),
            }.items()
        },
        "float32-formula": _in_floats("float32", lambda total, n, sx, sy: total * sx / n / sy),
        "float32-divisor": _float32_divisor,
        **{f"float{bits}-in-turn": _in_turn(f"float{bits}") for bits in (16, 32)},
        "output-scale-multiplied": lambda values, n, sx, sy: exact_mean(values, n, sx, 1 / sy),
        "scales-swapped": lambda values, n, sx, sy: exact_mean(values, n, sy, sx),
        "sum-is-not-divided": lambda values, n, sx, sy: exact_mean(values, min(n, 1), sx, sy),
        "mean-rounded-first": partial(_in_integers, round),
        "mean-truncated-first": partial(_in_integers, int),
        "sums-wrap-at-16-bits": _with_total(lambda values: modulo(16, sum(values))),
        "sums-wrap-at-24-bits": _with_total(lambda values: modulo(24, sum(values))),
        "sums-saturate-at-16-bits": _with_total(lambda x: clipped(np.array(sum(x))).item()),
        "sums-in-float32": _with_total(
            lambda values: int(np.add.accumulate(np.array([*values, 0], np.float32))[-1])
        ),
        "only-255-elements": _with_total(lambda values: sum(values[:255])),
        "only-256-elements": _with_total(lambda values: sum(values[:256])),
        "first-element-lost": _with_total(lambda values: sum(values[len(values) > 1 :])),
    },
    ("AVG-12", "average.mean"): {
        "no-elements-is-nan": lambda values, count, sx, sy: (
            exact_mean(values, count, sx, sy) if count else NAN
        ),
    },
    ("AVG-11", "gather.count"): {
        "padding-counts": lambda inside, include: count_elements(inside, True),
        "padding-never-counts": lambda inside, include: count_elements(inside, False),
        "include-padding-inverted": lambda inside, include: count_elements(inside, not include),
        "n-the-same-at-the-border": _same_at_the_border,
        "n-one-more": lambda inside, include: count_elements(inside, include) + 1,
    },
    ("AVG-11", "gather.pad"): {
        "padding-is-raw-zero": lambda x, windows, zero: (
            surrounded(x + zero, windows) - surrounded(zero, windows, mode="edge")
        ),
        "padding-repeats-the-edge": lambda x, windows, zero: surrounded(x, windows, mode="edge"),
        "padding-is-one": lambda x, windows, zero: surrounded(x - 1, windows) + 1,
    },
    ("AVG-1 GAP-1", "whole"): {"gap-near-1-left-out": {"read": _near_1}},
    ("GAP-1", "gather.window"): {"last-row-lost": _without_last},
    ("MAX-2", "pool.pad"): {
        "padding-is-0": surrounded,
        "padding-is-1": lambda x, windows: surrounded(x, windows, 1),
        "padding-is-highest": pad_by(lambda limits: limits.max),
        "padding-is-one-above-lowest": pad_by(lambda limits: limits.min + 1),
        "padding-repeats-the-edge": lambda x, windows: surrounded(x, windows, mode="edge"),
    },
    ("MAX-1", "pool.choose"): {
        "smallest": lambda under: under.argmin(2),
        "largest-magnitude": lambda under: np.abs(under.astype(np.float64)).argmax(2),
        "first-element": lambda under: np.zeros_like(under[:, :, 0], np.int64),
        "last-element-lost": lambda under: under[:, :, : max(under.shape[2] - 1, 1)].argmax(2),
        "first-element-lost": lambda under: (
            under[:, :, 1:].argmax(2) + 1 if under.shape[2] > 1 else under.argmax(2)
        ),
        "only-256-elements": lambda under: under[:, :, :256].argmax(2),
        "only-4-elements": lambda under: under[:, :, :4].argmax(2),
    },
    ("MAX-7", "pool.choose"): {
        "index-of-the-last": lambda under: under.shape[2] - 1 - under[:, :, ::-1].argmax(2),
    },
    ("MAX-7", "pool.place"): {
        "index-in-the-image": lambda places, image: places % prod(image[1:]),
        "index-in-the-channel": lambda places, image: places % prod(image[2:]),
        "index-from-1": lambda places, image: places + 1,
        "index-column-major": lambda places, image: np.ravel_multi_index(
            np.unravel_index(places, image), image, order="F"
        ),
    },
    ("GAP-1 GAP-5", f"read {IMAGE}"): {  # whose elements may be in any order
        f"input-{name}": way
        for name, way in AXES.items()
        if name not in ("flipped", "flipped-on-last-axis", "transposed")
    },
    ("MAX-4", f"read {IMAGE}"): {
        "uint8-as-int8": cast("uint8", "int8"),
        "int8-as-uint8": cast("int8", "uint8"),
    },
    **arithmetic.roundings("average", "AVG-2 GAP-2", "AVG-3 GAP-3", "AVG-1 AVG-2 GAP-1 GAP-2"),
    ("AVG-2 GAP-2", "permitted average.rounding"): arithmetic.PERMITTED_ROUNDINGS,
    ("AVG-1 GAP-1", "permitted average.mean"): {"float64-in-turn": _in_turn("float64")},
}

# -- the operators -----------------------------------------------------------------------------

AVERAGES = {"gather": Gather(), "average": Average()}
MUTANTS = load(
    "pooling",
    {
        "max_pooling": {"pool": Largest()},
        "quantized_linear_average_pooling": AVERAGES,
        "quantized_linear_global_average_pooling": AVERAGES,
    },
    TABLE,
)
