"""Equivalence classes and structures of lookups, and of dynamic quantization."""

from functools import partial
from typing import Any

import numpy as np

from dmlax_conformance.format.tensors import DTYPES
from dmlax_conformance.oracle.dynamic_quantize import quotients

from . import elements
from .elements import at_ranks, of_types
from .matrix import Array, CoverageMatrix


class LookupView(elements.OutputView):
    """The place in the table of each element, from 0."""

    @property
    def places(self) -> Array:
        """The places."""
        x = self.vector.inputs["InputTensor"]
        return np.array(x.words, np.int64) - DTYPES[x.dtype].low


PLACES: dict[str, Any] = {
    "the first entry": lambda view: view.places == 0,
    "the last entry": lambda view: view.places == 255,
    "the last of the first half": lambda view: view.places == 127,
    "the first of the second half": lambda view: view.places == 128,
    "in the first half": lambda view: view.places < 128,
    "in the second half": lambda view: view.places >= 128,
    "an odd place": lambda view: view.places % 2 == 1,
    "beyond 16 places": lambda view: view.places >= 16,
    "the highest value": lambda view: view.expected == DTYPES[view.output].high,
    "the lowest value": lambda view: view.expected == DTYPES[view.output].low,
    "a negative value": lambda view: view.expected < 0,
    "beyond 7 bits": lambda view: view.expected > 127,
}
OF_TABLES = {
    **elements.ELEMENTS,
    **at_ranks(range(9)),
    **at_ranks(range(2, 9), "rank {}, every axis varies", elements.varies),
    **of_types("{} input", "InputTensor"),
    **elements.OUTPUT_TYPES,
}
BEYOND = ("far ", "above 32", "below 32", "saturates ")  # a quotient is at most 255
WITHIN = {name: test for name, test in elements.OF_BYTES.items() if not name.startswith(BEYOND)}
OF_FLOATS = {
    **elements.ELEMENTS,
    **at_ranks(range(1, 9)),
    **of_types("{} input", "InputTensor", dtypes=elements.FLOATS),
    **elements.OUTPUT_TYPES,
}
MATRICES = {
    "quantized_lookup": CoverageMatrix(LookupView, PLACES, OF_TABLES),
    "dynamic_quantize_linear": CoverageMatrix(
        partial(elements.QuotientView, quotients=quotients), WITHIN | elements.NEAR_TIE, OF_FLOATS
    ),
}
