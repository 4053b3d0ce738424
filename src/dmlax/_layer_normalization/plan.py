"""Plans a layer normalization from 8 bits to 8 bits."""

from dataclasses import dataclass
from typing import NamedTuple

from jax import Array

from dmlax._core.arguments import Aval
from dmlax._core.requantize import Arithmetic


class LayerNormalization(NamedTuple):
    """The operands: 8-bit rows, a factor for every column, and an addend or None."""

    input: Array
    scale: Array
    bias: Array | None


@dataclass(frozen=True)
class LayerNormalizationPlan:
    """Everything static that a lowering reads: of a normalization of the last axis."""

    input: Aval
    scale: Aval
    bias: Aval | None
    output: Aval
    x_scale: float
    x_zero_point: int
    y_scale: float
    y_zero_point: int
    epsilon: float
    arithmetic: Arithmetic

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{self.input} to {self.output.dtype.name} along the last axis, {self.arithmetic}"
