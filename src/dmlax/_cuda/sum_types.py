"""Types of a sum in an epilogue; this module imports no Pallas."""

from typing import NamedTuple

import numpy as np


class SumTypes(NamedTuple):
    """All that is static of a sum of outputs of one byte and an addend."""

    addend: np.dtype
    sum: np.dtype
    addend_first: bool

    def in_order(self, output: np.dtype) -> tuple[np.dtype, np.dtype, np.dtype]:
        """The dtypes of the first term, of the second, and of the sum."""
        terms = (self.addend, output) if self.addend_first else (output, self.addend)
        return *terms, self.sum
