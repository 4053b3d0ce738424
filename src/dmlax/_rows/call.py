"""Calls of the float operators of rows."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._core import compat, dispatch
from dmlax._core.arguments import aval_of
from dmlax._rows import xla
from dmlax._rows.cpu import lowering as native_cpu
from dmlax._rows.plan import Rows, RowsPlan


def _operator(name: str, native: Any, general: Callable[[RowsPlan, Rows], Array]) -> Any:
    def tangent(plan: RowsPlan, operands: Rows, tangents: Rows) -> Array:
        of_plan = functools.partial(general, plan)
        _, tangent = jax.jvp(of_plan, (operands,), (tangents,))
        changed: Array = tangent
        return changed

    return dispatch.Operator(
        name,
        (
            dispatch.kernel("native_cpu", native, native_cpu.why_not, "cpu"),
            dispatch.Lowering("xla", general),
        ),
        tangent=tangent,
        partition=lambda plan, operands: compat.partition(operands.input),
    )


NORMALIZE = _operator("normalize_rows", native_cpu.normalize, xla.normalize)
SOFTMAX = _operator("softmax_rows", native_cpu.softmax, xla.softmax)


def normalize(x: Any, scale: Any, bias: Any, epsilon: float, *, is_centred: bool = True) -> Array:
    """Normalizes the last axis of a float tensor.

    Args:
      x: of rank 1 or more.
      scale: a factor for each column, of the dtype of `x`.
      bias: an addend for each column, or None.
      epsilon: added to the variance.
      is_centred: False to divide by the root mean square, without a mean.
    """
    operands = Rows(*(None if each is None else jnp.asarray(each) for each in (x, scale, bias)))
    plan = RowsPlan(aval_of(operands.input), epsilon, is_centred)
    found: Array = dispatch.call(NORMALIZE, plan, operands, "auto")
    return found


def softmax(x: Any) -> Array:
    """The softmax of the last axis of a float tensor."""
    operands = Rows(jnp.asarray(x))
    found: Array = dispatch.call(SOFTMAX, RowsPlan(aval_of(operands.input)), operands, "auto")
    return found
