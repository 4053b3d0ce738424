"""Controls: implementations that a sound suite must fail."""

import numpy as np

from ..errors import Unsupported
from ..format import layout
from .adapter import Array, Case


class Control:
    """An implementation that takes every kind of case."""

    variants: tuple[str, ...] = ("eager",)
    capabilities = frozenset({"descriptors", "strides", "requantization"})


class Empty(Control):
    """Declines every case, so a run of it has no applicable case."""

    name = "empty"
    capabilities = frozenset[str]()

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Decline."""
        raise Unsupported("this implementation is empty")


class Nothing(Control):
    """Answers without outputs, so every case must fail."""

    name = "nothing"

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Return no outputs."""
        return {}


class Zeros(Control):
    """Answers with zeros of the data types and sizes that a case asks for."""

    name = "zeros"

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Return zeros; a strided output is the buffer that its desc describes."""
        desc = case.desc or {}
        return {
            name: np.zeros(layout.array_sizes(desc[name]) if desc else asked.sizes, asked.dtype)
            for name, asked in case.outputs.items()
        }


class Raising(Control):
    """Raises what is neither a refusal nor "unsupported", so every case is an error."""

    name = "raising"

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Crash."""
        raise RuntimeError("this implementation always crashes")
