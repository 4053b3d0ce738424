"""Plans a softmax of 8 bits from shapes, dtypes and constant scales."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jax import Array

from dmlax._core.arguments import Aval


class Softmax(NamedTuple):
    """The operands."""

    input: Array  # int8 or uint8
    terms: np.ndarray  # float32: exp of the distance to the largest element, 255 first


@dataclass(frozen=True)
class SoftmaxPlan:
    """Everything static that a lowering reads."""

    input: Aval
    zero_point: int
    multiplier: float  # of the exponentials: the whole number 1 / y_scale, a float32

    @property
    def output(self) -> Aval:
        """The output's dtype and shape."""
        return self.input

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{self.input} along the last axis"
