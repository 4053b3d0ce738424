"""Joins tensors of bytes along an axis; on a Hopper GPU by a kernel, where they are large."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from dmlax._core import compat, dispatch
from dmlax._core.arguments import Aval, aval_of
from dmlax._cuda import capability
from dmlax._cuda.capability import CHUNK

_LEAST_BYTES = 2**20  # which XLA joins as fast as a kernel begins


def concatenate(tensors: list[Any], axis: int) -> Array:
    """Joins tensors of 8 bits."""
    if capability.why_not("cuda") or len({x.dtype for x in tensors}) > 1:
        return jnp.concatenate(tensors, axis=axis)
    plan = ConcatenationPlan(tuple(map(aval_of, tensors)), axis % tensors[0].ndim)
    found: Array = dispatch.call(CONCATENATION, plan, tuple(tensors), "auto")
    return found


@dataclass(frozen=True)
class ConcatenationPlan:
    """All that is static."""

    inputs: tuple[Aval, ...]
    axis: int

    @property
    def input(self) -> Aval:
        """The dtype and the shape of the first tensor."""
        return self.inputs[0]

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the output."""
        dtype, shape = self.input
        size = sum(each.shape[self.axis] for each in self.inputs)
        return Aval(dtype, (*shape[: self.axis], size, *shape[self.axis + 1 :]))

    def columns(self, each: Aval) -> int:
        """Bytes of a tensor that lie side by side in the output."""
        return math.prod(each.shape[self.axis :])

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.inputs))} along axis {self.axis}"


def _why_not(plan: ConcatenationPlan, platform: str) -> str | None:
    """The sentence that says why the kernel does not take the plan, or None."""
    if why := capability.why_not(platform):
        return why
    if not all(each.is_static for each in plan.inputs):
        return f"it needs static shapes, and this is {plan}"
    others = {each.shape[: plan.axis] + each.shape[plan.axis + 1 :] for each in plan.inputs}
    if len(others) > 1:
        return f"sizes differ: {plan}"
    if plan.output.size < _LEAST_BYTES:
        return f"its output has fewer than {_LEAST_BYTES:,} bytes"
    if any(plan.columns(each) % CHUNK for each in plan.inputs):
        return f"bytes that lie side by side are no multiple of {CHUNK}"
    return capability.why_not_so_many(plan.output)


def _kernel(plan: ConcatenationPlan, tensors: tuple[Array, ...]) -> Array:
    from dmlax._cuda import concatenate as kernel

    places = (x.astype(jnp.uint8) for x in tensors)
    matrices = (
        x.reshape(-1, plan.columns(each)) for x, each in zip(places, plan.inputs, strict=True)
    )
    found = kernel.concatenate(*(x for x in matrices if x.shape[1]))
    return found.reshape(plan.output.shape).astype(plan.output.dtype)


def _xla(plan: ConcatenationPlan, tensors: tuple[Array, ...]) -> Array:
    return jnp.concatenate(tensors, axis=plan.axis)


def _partition(plan: ConcatenationPlan, tensors: tuple[Array, ...]) -> tuple[Any, ...]:
    """The output is split over a mesh as the first tensor is, but not along the axis."""
    axes = list(compat.partition(tensors[0]))
    axes[plan.axis] = None
    return tuple(axes)


CONCATENATION = dispatch.Operator(
    "concatenate_bytes",
    (
        dispatch.kernel("mosaic_gpu", _kernel, _why_not, "cuda"),
        dispatch.Lowering("xla", _xla),
    ),
    partition=_partition,
)
