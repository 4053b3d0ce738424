"""Planted bugs of MAX_POOLING."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ...suite.bugs.descs import DescRules
from ...suite.bugs.pooling import Largest
from ...suite.bugs.readings import cast, outputs, readings
from ...suite.bugs.record import Bug, in_reading
from ...suite.bugs.refusals import Rules
from ...suite.bugs.steps import Array, Call
from .._shared import pooling_bugs as shared
from .._shared.convolution import Windows
from .._shared.convolution_bugs import LAYOUTS
from .._shared.planted_bugs import Steps, plant
from .._shared.pooling_bugs import IMAGE, OUTPUT, RANK_3, WINDOWS

__all__ = ["DESCS", "OPERATOR", "PARTS", "PERMITTED", "RESULT", "RULES", "derived", "written"]

OPERATOR, INDICES = "max_pooling", "OutputIndicesTensor"
RULES = Rules(
    OPERATOR,
    {"data_type": "MAX-4", "dimension_count": "MAX-5", "option": "MAX-3", "sizes": "MAX-3 MAX-6"},
    {
        "data_type": f"{IMAGE}:float32,int16,complex64",
        "dimension_count": f"{IMAGE}:2,6",
        "option": WINDOWS,
        "sizes": f"{IMAGE} WindowSize",
    },
    only="int8 uint8",
)
DESCS = DescRules(
    OPERATOR,
    {
        "maxpool-same-dimension-count": shared.ALIKE_RANKS,
        "data-type:outputs": "the output has the data type of the input",
    },
    "sizes-count:outputs sizes-positive:outputs element-limit:outputs",
    {"DataType": ((IMAGE, OUTPUT),), "DimensionCount": ((IMAGE, OUTPUT, INDICES),)},
)
PARTS = {"pool": Largest()}
RESULT = "MAX-1"


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    windows = {name: ("MAX-3", role) for name, role in shared.WINDOW_ROLES.items()}
    yield from readings(OPERATOR, {IMAGE: ("MAX-1 MAX-3", "axes"), **windows})
    signs = {"uint8-as-int8": cast("uint8", "int8"), "int8-as-uint8": cast("int8", "uint8")}
    yield from in_reading(OPERATOR, "MAX-4", IMAGE, signs)
    yield from outputs(OPERATOR, {OUTPUT: ("MAX-4", "MAX-1 MAX-3")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from shared.of_windows(OPERATOR, "MAX-3", "pool")
    names = {"8": "MAX-5", "9": "MAX-6"}
    answers = {(names[number], *rest): ways for (number, *rest), ways in RANK_3.items()}
    yield from plant(OPERATOR, STEPS, {("MAX-1 MAX-3", OUTPUT): LAYOUTS}, answers)  # type: ignore[arg-type]


def _pad(value: Callable[[np.dtype[np.generic]], int], x: Array, windows: Windows) -> Array:
    """Surround the image by a number; floats are left to the vectors of integers."""
    around = [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]
    return np.pad(x, around, constant_values=value(x.dtype))


def _repeat_edge(x: Array, windows: Windows) -> Array:
    return np.pad(x, [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)], "edge")


def _limit(dtype: np.dtype[np.generic], end: str, step: int) -> int:
    return 0 if dtype.kind == "f" else int(getattr(np.iinfo(dtype.name), end)) + step


def _last_largest(under: Array) -> Array:
    return np.asarray(under.shape[2] - 1 - under[:, :, ::-1].argmax(2))


def _in_image(places: Array, call: Call) -> Array:
    return places % int(np.prod(call.inputs[IMAGE].shape[1:]))


def _in_channel(places: Array, call: Call) -> Array:
    return places % int(np.prod(call.inputs[IMAGE].shape[2:]))


def _column_major(places: Array, call: Call) -> Array:
    shape = call.inputs[IMAGE].shape
    return np.ravel_multi_index(np.unravel_index(places, shape), shape, order="F")


STEPS: Steps = {
    ("MAX-2", "pool", "pad"): {
        "padding-is-0": partial(_pad, lambda dtype: 0),
        "padding-is-1": partial(_pad, lambda dtype: 1),
        "padding-is-highest": partial(_pad, lambda dtype: _limit(dtype, "max", 0)),
        "padding-is-one-above-lowest": partial(_pad, lambda dtype: _limit(dtype, "min", 1)),
        "padding-repeats-the-edge": _repeat_edge,
    },
    ("MAX-1", "pool", "choose"): {
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
    ("MAX-7", "pool", "choose"): {"index-of-the-last": _last_largest},
    ("MAX-7", "pool", "place"): {
        "index-in-the-image": _in_image,
        "index-in-the-channel": _in_channel,
        "index-from-1": lambda places, call: places + 1,
        "index-column-major": _column_major,
    },
}
PERMITTED = ()
