"""Plans a concatenation of bytes from shapes and dtypes alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import splitting
from dmlax._core.arguments import Aval, aval_of, avals_of
from dmlax._core.axis_names import WHOLE, AxisNames, numbered
from dmlax._core.plans import BasePlan

Tensors = tuple[Array, ...]  # the operands, of 8 bits


@dataclass(frozen=True)
class ConcatenationPlan(BasePlan):
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

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.inputs))} along axis {self.axis}"


def output_partition(plan: ConcatenationPlan, tensors: Tensors) -> splitting.Partition:
    """The output is split over a mesh as the first tensor is, but not along the axis."""
    axes = list(splitting.partition(tensors[0]))
    axes[plan.axis] = None
    return tuple(axes)


def plan(tensors: Sequence[Array | np.ndarray], axis: int) -> tuple[ConcatenationPlan, Tensors]:
    """Plans a call, and returns its operands."""
    of_call = ConcatenationPlan(tuple(map(aval_of, tensors)), axis % tensors[0].ndim)
    return of_call, tuple(map(jnp.asarray, tensors))


def axis_names(plan: ConcatenationPlan, tensors: Tensors) -> AxisNames:
    """Every axis but the one along which tensors are joined may be split."""
    axes = numbered(len(plan.input.shape)).split()
    axes[plan.axis] = WHOLE
    names = " ".join(axes)
    return AxisNames((names,) * len(tensors), names)


def local_plan(plan: ConcatenationPlan, tensors: Tensors) -> tuple[ConcatenationPlan, Tensors]:
    """Plans for a part of every tensor."""
    return replace(plan, inputs=tuple(avals_of(tensors))), tensors
