"""Types of a product's parameters and of a sum in its epilogue; this module imports no Pallas."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from dmlax._core.requantize import Arithmetic


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


@dataclass(frozen=True)
class ProductTypes:
    """All that is static of a product's parameters."""

    left: np.dtype
    right: np.dtype  # before it was re-based to int8
    output: np.dtype
    arithmetic: Arithmetic | None  # None if the output is int32 sums
    bias_limit: int | None = None  # a bias is clamped to it; None if sums with a bias wrap
    sum: SumTypes | None = None  # None without an addend

    @property
    def requantized(self) -> np.dtype:
        """The dtype that accumulators are requantized to: a sum takes unsigned bytes."""
        return self.output if self.sum is None else np.dtype(np.uint8)

    @property
    def written(self) -> np.dtype:
        """The dtype that the epilogue stores."""
        return self.output if self.sum is None else self.sum.sum


class UniformProduct(NamedTuple):
    """A product whose parameters are single values."""

    types: ProductTypes
    sums_rows: bool  # True if right has a zero point: rows of left are summed
    summed: int  # products of one output
