"""A control: answers every case with zeros of the data types and sizes that it asks for."""

import numpy as np

from ..oracle import layout
from .base import Array, Case


class Zeros:
    """Answers with zeros, whatever the question."""

    name = "zeros"
    variants: tuple[str, ...] = ("eager",)
    capabilities = frozenset({"descriptors", "strides"})

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Return zeros; a strided output is the buffer that its desc describes."""
        desc = case.desc or {}
        return {
            name: np.zeros(layout.array_sizes(desc[name]) if desc else asked.sizes, asked.dtype)
            for name, asked in case.outputs.items()
        }
