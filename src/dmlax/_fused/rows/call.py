"""Calls of the float operators of rows."""

import functools
from collections.abc import Callable
from dataclasses import replace

from jax import Array
from jax.typing import ArrayLike

from dmlax._core import dispatch, splitting
from dmlax._core.axis_names import of_rows
from dmlax._fused.rows import xla
from dmlax._fused.rows.cpu import lowering as native_cpu
from dmlax._fused.rows.plan import Rows, RowsPlan, local_plan, plan, plan_average


def _operator(name: str) -> dispatch.Operator[RowsPlan, Rows, Array]:
    return dispatch.Operator(
        name,
        plan,
        (
            dispatch.kernel("native_cpu", native_cpu.run, native_cpu.why_not, "cpu"),
            dispatch.Lowering("xla", xla.run),
        ),
        tangent=dispatch.tangent_of(xla.run),
        partition=lambda plan, operands: splitting.partition(operands.input),
        splitting=dispatch.Splitting(of_rows, local_plan),
    )


def _definition(plan: RowsPlan) -> Callable[[Rows], Array]:
    return functools.partial(xla.run, plan)


def _definition_of_softmax(plan: RowsPlan) -> Callable[[Rows], Array] | None:
    """A softmax of float32 differs in subnormal shares alone."""
    return _definition(plan) if plan.input.dtype.itemsize == 8 else None


NORMALIZE = replace(_operator("normalize_rows"), definition=_definition)
SOFTMAX = replace(_operator("softmax_rows"), definition=_definition_of_softmax)
AVERAGE = replace(
    NORMALIZE, name="average_bytes", plan=plan_average, partition=None, splitting=None
)


def normalize(
    x: ArrayLike,
    scale: ArrayLike,
    bias: ArrayLike | None,
    epsilon: float,
    *,
    is_centred: bool = True,
) -> Array:
    """Normalizes the last axis of a float tensor.

    Args:
      x: of rank 1 or more.
      scale: a factor for every column, of the dtype of `x`.
      bias: an addend for every column, or None.
      epsilon: added to the variance.
      is_centred: False to divide by the root mean square, without a mean.
    """
    plan, operands = NORMALIZE.plan(x, scale, bias, epsilon=epsilon, is_centred=is_centred)
    return NORMALIZE.call(plan, operands)


def softmax(x: ArrayLike) -> Array:
    """The softmax of the last axis of a float tensor."""
    return SOFTMAX.call(*SOFTMAX.plan(x))
