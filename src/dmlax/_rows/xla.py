"""Float rows in plain XLA."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from dmlax._core import float_bits, ieee
from dmlax._core.arguments import expand_rank
from dmlax._rows.plan import AveragePlan, Rows, RowsPlan


def run(plan: RowsPlan, operands: Rows) -> Array:
    """Normalizes rows, without a scale computes their softmax, or averages pixels."""
    if isinstance(plan, AveragePlan):
        return average(operands)
    return (softmax if operands.scale is None else normalize)(plan, operands)


def normalize(plan: RowsPlan, operands: Rows) -> Array:
    """Divides by the deviation, or by the root of the mean square."""
    x, scale, bias = operands
    if plan.is_centred:
        x = ieee.subtract(x, _apart(x.mean(-1, keepdims=True)))
    squares = ieee.multiply(x, x).mean(-1, keepdims=True)
    deviation = ieee.sqrt(ieee.add(squares, x.dtype.type(plan.epsilon)))
    inverse = _apart(ieee.divide(jnp.ones_like(deviation), deviation))
    scaled = ieee.multiply(ieee.multiply(x, inverse), expand_rank(scale, x.ndim))
    return scaled if bias is None else ieee.add(scaled, expand_rank(bias, x.ndim))


def _apart(x: Array) -> Array:
    """Returns `x`, a number for each row; for a fusion of rows GPUs compile seconds longer."""
    apart: Array = lax.optimization_barrier(x)
    return apart


def average(operands: Rows) -> Array:
    """Averages the entries of bytes over pixels, the axis before the last."""
    places = float_bits.bitcast(operands.input, jnp.uint8).astype(jnp.int32)
    terms = jnp.take(operands.scale, places, mode="clip")
    return ieee.average(jnp.moveaxis(terms, -2, -1))


def softmax(plan: RowsPlan, operands: Rows) -> Array:
    """Divides exponentials by their sum."""
    return jax.nn.softmax(operands.input, axis=-1)
