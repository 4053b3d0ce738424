"""Types of a sum in an epilogue; this module imports no Pallas."""

from typing import Any, NamedTuple

import numpy as np
from jax import Array


class Addend(NamedTuple):
    """The operands of a sum with what a kernel computes; absent ones are None."""

    addend: Any
    addend_scale: Array
    addend_zero_point: Array | None
    sum_scale: Array
    sum_zero_point: Array | None


class SumTypes(NamedTuple):
    """All that is static of a sum of outputs of one byte and an addend."""

    addend: np.dtype
    sum: np.dtype
    addend_first: bool

    def in_order(self, output: np.dtype) -> tuple[np.dtype, np.dtype, np.dtype]:
        """The dtypes of the first term, of the second, and of the sum."""
        terms = (self.addend, output) if self.addend_first else (output, self.addend)
        return *terms, self.sum
