"""Planted bugs of QUANTIZED_LOOKUP."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...suite.bugs.readings import outputs, readings
from ...suite.bugs.record import Bug
from ...suite.bugs.refusals import Rules
from ...suite.bugs.steps import Array, Call, Outputs
from .._shared.planted_bugs import Steps, plant

OPERATOR, OUTPUT = "quantized_lookup", "OutputTensor"
RULES = Rules(
    OPERATOR,
    {"data_type": "LUT-2", "dimension_count": "LUT-3 LUT-5", "sizes": "LUT-3"},
    {
        "data_type": "InputTensor:int16,int32,float32 TableTensor:int16,float32",
        "dimension_count": "TableTensor:0,2",
        "sizes": "TableTensor",
    },
)
ROLES = {
    "InputTensor": ("LUT-1 LUT-4 LUT-5", "axes elements signed"),
    "TableTensor": ("LUT-1", "elements"),
}


def from_the_lowest(x: Array) -> Array:
    """Return the place of each element's entry."""
    return x.astype(np.int64) - np.iinfo(x.dtype).min


def entries(table: Array, places: Array) -> Array:
    """Return the entries at these places."""
    return np.asarray(table[places])


@dataclass(frozen=True)
class Lookup:
    """The steps, in order."""

    place: Callable[[Array], Array] = from_the_lowest
    read: Callable[[Array, Array], Array] = entries

    def __call__(self, call: Call) -> Outputs:
        """Return an entry for each element."""
        x, table = call.inputs["InputTensor"], call.inputs["TableTensor"]
        return {OUTPUT: self.read(table, self.place(x))}


PARTS, RESULT = {"lookup": Lookup()}, "LUT-1"
PERMITTED = (
    ("LUT-1", "lookup", "read", {"one-by-one": lambda table, places: np.take(table, places)}),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, ROLES)
    yield from outputs(OPERATOR, {OUTPUT: ("LUT-4", "LUT-4")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from plant(OPERATOR, STEPS, {}, {})


def _only(dtype: str, change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Change the places of one data type."""
    return lambda x: change(from_the_lowest(x)) if x.dtype == dtype else from_the_lowest(x)


def _between(table: Array, places: Array) -> Array:
    """Read between two entries, as a table of samples is read."""
    above = np.minimum(places + 1, 255)
    between: Array = ((table[places].astype(np.int64) + table[above]) // 2).astype(table.dtype)
    return between


STEPS: Steps = {
    ("LUT-1", "lookup", "place"): {
        "int8-as-bytes": _only("int8", lambda places: (places + 128) % 256),
        "int8-reversed": _only("int8", lambda places: 255 - places),
        "uint8-as-int8": _only("uint8", lambda places: (places + 128) % 256),
        "uint8-reversed": _only("uint8", lambda places: 255 - places),
        "one-too-far": lambda x: np.minimum(from_the_lowest(x) + 1, 255),
        "one-too-near": lambda x: np.maximum(from_the_lowest(x) - 1, 0),
        "seven-bits": lambda x: from_the_lowest(x) % 128,
        "even-entries": lambda x: from_the_lowest(x) // 2 * 2,
        "never-the-last": lambda x: np.minimum(from_the_lowest(x), 254),
        "never-the-first": lambda x: np.maximum(from_the_lowest(x), 1),
        "sixteen-entries": lambda x: from_the_lowest(x) % 16,
        "magnitudes": _only("int8", lambda places: abs(places - 128) + 127),
    },
    ("LUT-1", "lookup", "read"): {
        "between-entries": _between,
        "nothing": lambda table, places: places.astype(table.dtype),
        "entries-without-sign": lambda table, places: np.abs(table[places]),
        "entries-of-seven-bits": lambda table, places: table[places] & 127,
        "sorted-table": lambda table, places: np.sort(table)[places],
    },
}
