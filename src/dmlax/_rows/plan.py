"""Plans the float operators of rows from shapes and dtypes alone."""

from dataclasses import dataclass
from typing import NamedTuple

from jax import Array

from dmlax._core.arguments import ABSENT, Aval


class Rows(NamedTuple):
    """The operands: rows, and for a normalization the factors and any addends of columns."""

    input: Array
    scale: Array = ABSENT  # of a normalization
    bias: Array | None = None


@dataclass(frozen=True)
class RowsPlan:
    """All that is static of a normalization or a softmax of the last axis.

    Attributes:
      epsilon: added to the variance.
      is_centred: False for a division by root mean squares, which subtracts no mean.
    """

    input: Aval
    epsilon: float = 0.0
    is_centred: bool = True

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the result."""
        return self.input

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{self.input} along the last axis"
