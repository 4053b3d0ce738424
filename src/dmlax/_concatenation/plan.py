"""Plans a concatenation of bytes from shapes and dtypes alone."""

import math
from dataclasses import dataclass

from jax import Array

from dmlax._core import compat
from dmlax._core.arguments import Aval

Tensors = tuple[Array, ...]  # the operands, of 8 bits


@dataclass(frozen=True)
class ConcatenationPlan:
    """Everything static that a lowering reads."""

    inputs: tuple[Aval, ...]
    axis: int

    @property
    def input(self) -> Aval:
        """The dtype and shape of the first tensor."""
        return self.inputs[0]

    @property
    def output(self) -> Aval:
        """The dtype and shape of the output."""
        dtype, shape = self.input
        size = sum(input.shape[self.axis] for input in self.inputs)
        return Aval(dtype, (*shape[: self.axis], size, *shape[self.axis + 1 :]))

    def columns(self, input: Aval) -> int:
        """Bytes of a tensor that lie side by side in the output."""
        return math.prod(input.shape[self.axis :])

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.inputs))} along axis {self.axis}"


def output_partition(plan: ConcatenationPlan, tensors: Tensors) -> compat.Partition:
    """The output is split over a mesh as the first tensor is, but not along the axis."""
    axes = list(compat.partition(tensors[0]))
    axes[plan.axis] = None
    return tuple(axes)
