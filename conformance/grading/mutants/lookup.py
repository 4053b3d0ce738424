"""Mutants of the lookup of quantized values in a table."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .engine.mutant import Table
from .engine.steps import Array, Call, Outputs
from .family import load

INPUT, TABLE, OUTPUT = "InputTensor", "TableTensor", "OutputTensor"


@dataclass(frozen=True)
class Lookup:
    """The steps: the places from the lowest value, 0 to 255, and the entries there."""

    place: Callable[[Array, str], Array] = lambda places, dtype: places
    read: Callable[[Array, Array], Array] = lambda table, places: table[places]

    def __call__(self, call: Call) -> Outputs:
        """Return an entry for every element."""
        x, table = call.inputs[INPUT], call.inputs[TABLE]
        places = self.place(x.astype(int) - np.iinfo(x.dtype).min, x.dtype.name)
        return {OUTPUT: np.asarray(self.read(table.astype(int), places), table.dtype)}


WRONG: Table = {
    ("LUT-1", "lookup.place"): {
        "int8-reversed": lambda places, dtype: 255 - places if dtype == "int8" else places,
        "uint8-reversed": lambda places, dtype: 255 - places if dtype == "uint8" else places,
        "one-too-far": lambda places, dtype: np.minimum(places + 1, 255),
        "one-too-near": lambda places, dtype: np.maximum(places - 1, 0),
        "seven-bits": lambda places, dtype: places % 128,
        "even-entries": lambda places, dtype: places // 2 * 2,
        "never-the-last": lambda places, dtype: np.minimum(places, 254),
        "never-the-first": lambda places, dtype: np.maximum(places, 1),
        "sixteen-entries": lambda places, dtype: places % 16,
        "magnitudes": lambda places, dtype: abs(places - 128) + 127 if dtype == "int8" else places,
    },
    ("LUT-1", "lookup.read"): {
        "between-entries": lambda table, at: (table[at] + table[np.minimum(at + 1, 255)]) // 2,
        "nothing": lambda table, at: at,
        "entries-without-sign": lambda table, at: np.abs(table[at]),
        "entries-of-seven-bits": lambda table, at: table[at] & 127,
        "sorted-table": lambda table, at: np.sort(table)[at],
    },
    ("LUT-1", "permitted lookup.read"): {"one-by-one": np.take},
}


MUTANTS = load(
    "lookup",
    {"quantized_lookup": {"lookup": Lookup()}},
    WRONG,
)
