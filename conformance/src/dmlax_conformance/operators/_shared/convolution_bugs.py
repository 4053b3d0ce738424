"""Planted bugs that both convolutions can have: sums, windows, channels."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.convolution import Sums, first_of_group, pad_zeros, taps, without
from ...suite.bugs.record import VALUES, Bug, bug
from ...suite.bugs.steps import Array, Call, Sizes
from .convolution import Windows
from .planted_bugs import Answers, Steps, Ways, plant

IMAGE, FILTER, OUTPUT = "InputTensor", "FilterTensor", "OutputTensor"
IMAGE_POINT, FILTER_POINT = "InputZeroPointTensor", "FilterZeroPointTensor"
HALVES = (
    "data-type:inputs dimension-count:outputs sizes-count:outputs"
    " sizes-positive:outputs element-limit:outputs"
)
ALIKE_TYPES = (IMAGE, IMAGE_POINT), (FILTER, FILTER_POINT)
NO_GROUPS = "the channels of the input are not a multiple of 0"
WINDOWS = "Strides Dilations StartPadding EndPadding"


def roles(clauses: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return clauses and roles of the fields that both convolutions have."""
    return {
        IMAGE: (clauses["sum"], "axes"),
        FILTER: (clauses["sum"], "axes"),
        f"{IMAGE} {IMAGE_POINT}": (clauses["type"], "signed"),
        f"{FILTER} {FILTER_POINT}": (clauses["type"], "signed"),
        IMAGE_POINT: (clauses["sum"], "zero-point"),
        FILTER_POINT: (clauses["filter-point"], "zero-point elements"),
        **dict.fromkeys(("Strides", "Dilations"), (clauses["window"], "step")),
        **dict.fromkeys(("StartPadding", "EndPadding"), (clauses["window"], "padding")),
    }


def of_both(operator: str, clauses: Mapping[str, str]) -> Iterator[Bug]:
    """Yield the bugs of sums and refusals, their topics exchanged for the operator's clauses."""
    for name, change in PADDINGS.items():
        yield bug(operator, name, clauses["window"], VALUES, read=partial(pad_otherwise, change))
    rounded_up = Sums(sizes=sizes_up, taps=with_room)
    yield bug(operator, "rounds-sizes-up", clauses["window"], VALUES, sums=rounded_up)
    for (topic, part, step), ways in STEPS.items():
        yield from plant(operator, {(clauses[topic], part, step): ways}, {}, {})
    for (topic, answer, code, field), calls in ANSWERS.items():
        yield from plant(operator, {}, {}, {(clauses[topic], answer, code, field): calls})


# -- windows and padding -----------------------------------------------------------------------


def pad_otherwise(change: Callable[[Any, Any], tuple[Any, Any]], call: Call) -> Call:
    """Exchange start and end padding for others."""
    fields = ("StartPadding", "EndPadding")
    padding = map(list, change(*(np.array(call.attributes[field]) for field in fields)))
    return call._replace(attributes={**call.attributes, **dict(zip(fields, padding, strict=True))})


PADDINGS: Ways = {
    "padding-sides-swapped": lambda start, end: (end, start),
    "padding-axes-swapped": lambda start, end: (start[::-1], end[::-1]),
    "start-padding-on-both-sides": lambda start, end: (start, start),
    "end-padding-on-both-sides": lambda start, end: (end, end),
    "padding-shared-out": lambda start, end: ((start + end) // 2, (start + end + 1) // 2),
    "no-padding": lambda start, end: (0 * start, 0 * end),
}
LONGEST = 16  # strides beyond this are left alone, for they would need that much more memory


def _left_over(windows: Windows) -> list[int]:
    return [step - 1 if step <= LONGEST else 0 for step in windows.strides]


def sizes_up(windows: Windows, image: Sizes, kernel: Sizes) -> Sizes:
    """Count a last window that only fits in part."""
    ends = zip(windows.end, _left_over(windows), strict=True)
    return replace(windows, end=tuple(a + b for a, b in ends)).output_sizes(image, kernel)


def with_room(padded: Array, kernel: Sizes, spatial: Sizes, windows: Windows) -> Array:
    """Return what lies under a kernel that may begin where only a part of it fits."""
    more = [(0, 0), (0, 0), *((0, room) for room in _left_over(windows))]
    return taps(np.pad(padded, more), kernel, spatial, windows)


def _pad(value: Callable[[int], int], centred: Array, windows: Windows, zero: int) -> Array:
    """Surround the centred image by other numbers than zeros, which depend on the zero point."""
    return np.pad(centred, _around(windows), constant_values=value(zero))


def _pad_by(mode: Any, centred: Array, windows: Windows, zero: int) -> Array:
    """Surround the centred image by its own elements."""
    return np.pad(centred, _around(windows), mode)


def _around(windows: Windows) -> list[tuple[int, int]]:
    return [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]


# -- zero points, groups and sums --------------------------------------------------------------


CENTRED: Ways = {
    "difference-wraps": lambda a, z: without(a, z).astype(a.dtype).astype(np.int64),
    "difference-wraps-signed": lambda a, z: without(a, z).astype(np.int8).astype(np.int64),
    "difference-saturates": lambda a, z: np.clip(without(a, z), -128, 127),
}


def _by_input(filters: Array, zero_point: Array) -> Array:
    """Put the filter zero points along the input channels where they fit."""
    is_square = filters.shape[0] == filters.shape[1]
    return without(filters, np.swapaxes(zero_point, 0, 1) if is_square else zero_point)


def _first(limit: Callable[[int], int]) -> Callable[[Array], Array]:
    """Add the first products only, unless there would be none."""
    return lambda products: products[:, : limit(products.shape[1]) or products.shape[1]].sum(1)


def _in_floats(dtype: str, products: Array) -> Array:
    """Add one product after the other in a float type."""
    sums = np.zeros_like(products.sum(1), dtype)
    for index in range(products.shape[1]):
        sums = (sums + products[:, index].astype(dtype)).astype(dtype)
    return np.nan_to_num(sums.astype(np.float64)).astype(np.int64)


def _wrapped(bits: int) -> Callable[[Array], Array]:
    half = 2 ** (bits - 1)
    return lambda products: (products.sum(1) + half) % (2 * half) - half


def clipped(array: Array, bits: int = 16) -> Array:
    """Saturate at so many bits."""
    return np.clip(array, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _pairs(products: Array) -> Array:
    """Add pairs with saturation at 16 bits, as some vector instructions do."""
    even = np.pad(products, [(0, 0), (0, products.shape[1] % 2), *[(0, 0)] * (products.ndim - 2)])
    return np.asarray(clipped(even[:, ::2] + even[:, 1::2]).sum(1))


STEPS: Steps = {  # by topic
    ("padding", "sums", "pad"): {
        "padding-is-raw-zero": partial(_pad, lambda zero: -zero),
        "padding-is-zero-point-again": partial(_pad, lambda zero: zero),
        "padding-is-one": partial(_pad, lambda zero: 1),
        "padding-is-lowest": partial(_pad, lambda zero: -128),
        "padding-repeats-the-edge": partial(_pad_by, "edge"),
        "padding-wraps-around": partial(_pad_by, "wrap"),
        "padding-off-by-one": lambda centred, windows, zero: np.roll(
            pad_zeros(centred, windows, zero), int(windows.start[-1] > 0), -1
        ),
    },
    ("window", "sums", "sizes"): {
        "sizes-one-short": lambda windows, image, kernel: tuple(
            max(size - 1, 1) for size in windows.output_sizes(image, kernel)
        ),
    },
    ("sum", "sums", "centre"): {f"input-{name}": way for name, way in CENTRED.items()},
    ("filter-point", "sums", "centre_filters"): {
        **{f"filter-{name}": way for name, way in CENTRED.items()},
        "filter-zero-point-by-input": _by_input,
    },
    ("group", "sums", "reads"): {
        "groups-reversed": lambda k, n, width, groups: first_of_group(n - 1 - k, n, width, groups),
        "groups-rotated": lambda k, n, width, groups: first_of_group(
            (k + n // groups) % n, n, width, groups
        ),
        "groups-ignored": lambda k, n, width, groups: list(range(width)),
        "groups-in-turn": lambda k, n, width, groups: list(
            range(k % groups * width, k % groups * width + width)
        ),
        "groups-interleaved": lambda k, n, width, groups: list(
            range(k // (n // groups), width * groups, groups)
        ),
    },
    ("sum", "sums", "total"): {
        "last-product-lost": _first(lambda count: count // 2 * 2),
        "products-beyond-4s-lost": _first(lambda count: count // 4 * 4),
        "products-beyond-8s-lost": _first(lambda count: count // 8 * 8),
        "products-beyond-16s-lost": _first(lambda count: count // 16 * 16),
        "only-256-products": _first(lambda count: min(count, 256)),
        "only-512-products": _first(lambda count: min(count, 512)),
        "only-4096-products": _first(lambda count: min(count, 4096)),
        "sums-in-float32": partial(_in_floats, "float32"),
        "sums-in-float16": partial(_in_floats, "float16"),
        "sums-in-16-bits": _wrapped(16),
        "sums-in-24-bits": _wrapped(24),
        "sums-saturate-at-16-bits": lambda products: clipped(products.sum(1)),
        "pairs-saturate-at-16-bits": _pairs,
        "products-wrap-at-16-bits": lambda products: products.astype(np.int16).sum(1, np.int64),
        "products-saturate-at-16-bits": lambda products: clipped(products).sum(1),
    },
    ("overflow", "sums", "wrap"): {"sums-saturate": lambda sums: clipped(sums, 32)},
}
LAYOUTS: Ways = {
    "output-is-channels-last": lambda y, case: np.moveaxis(y, 1, -1).reshape(y.shape),
    "output-axes-swapped": lambda y, case: np.swapaxes(y, 0, 1).reshape(y.shape),
}


# -- refusals ----------------------------------------------------------------------------------


def is_by_input(name: str) -> Callable[[Case], bool]:
    """Return whether a parameter has one value for each input channel."""
    return lambda case: case.inputs[name].size == case.inputs[IMAGE].shape[1]


def is_long(name: str) -> Callable[[Case], bool]:
    """Return whether a parameter has several values."""
    return lambda case: name in case.inputs and case.inputs[name].size > 1


def _spare_channels(case: Case) -> int:
    """Return how many channels of the input the filter leaves out."""
    groups = case.attributes["GroupCount"]
    return int(case.inputs[IMAGE].shape[1] - case.inputs[FILTER].shape[1] * groups)


def _room(case: Case, is_dilated: bool = True) -> list[int]:
    """Return by how much the padded input exceeds the kernel on each axis, if channels agree."""
    if _spare_channels(case):
        return [0]
    windows = Windows.of(case.attributes)
    dilations = windows.dilations if is_dilated else (1,) * len(windows.dilations)
    image, kernel = case.inputs[IMAGE].shape[2:], case.inputs[FILTER].shape[2:]
    rows = zip(image, kernel, dilations, windows.start, windows.end, strict=True)
    return [n + start + end - (k - 1) * d - 1 for n, k, d, start, end in rows]


ANSWERS: Answers = {  # by topic
    ("channels", "accept", "sizes", FILTER): {
        "accepts-more-channels": lambda case: _spare_channels(case) < 0,
        "accepts-fewer-channels": lambda case: _spare_channels(case) > 0,
    },
    ("window", "accept", "sizes", FILTER): {
        "accepts-high-kernel": lambda case: _room(case)[0] < 0,
        "accepts-wide-kernel": lambda case: _room(case)[-1] < 0,
        "accepts-dilated-kernel": lambda case: min(_room(case)) < 0 <= min(_room(case, False)),
    },
    ("window", "refuse", "sizes", FILTER): {
        "refuses-one-sided-padding": lambda case: (
            case.attributes["StartPadding"] != case.attributes["EndPadding"]
        ),
        "refuses-large-padding": lambda case: any(
            np.greater_equal(case.attributes["StartPadding"], case.inputs[FILTER].shape[2:])
        ),
        "refuses-kernel-beyond-input": lambda case: any(
            np.greater(case.inputs[FILTER].shape[2:], case.inputs[IMAGE].shape[2:])
        ),
    },
    ("group", "refuse", "sizes", "GroupCount"): {
        "refuses-multiplier": lambda case: (
            1 < case.attributes["GroupCount"] < case.inputs[FILTER].shape[0]
        ),
    },
    ("type", "refuse", "data_type", FILTER): {
        "refuses-mixed-types": lambda case: case.inputs[IMAGE].dtype != case.inputs[FILTER].dtype,
    },
    ("zero-points", "accept", "sizes", FILTER_POINT): {
        "accepts-filter-zero-point-by-input": is_by_input(FILTER_POINT),
    },
    ("zero-points", "refuse", "sizes", FILTER_POINT): {
        "refuses-filter-zero-points": is_long(FILTER_POINT),
    },
}
