"""Float rows in plain XLA, with the bits of the kernels."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import float_bits, ieee, sums
from dmlax._core.arguments import expand_rank
from dmlax._fused.rows.plan import AveragePlan, Rows, RowsPlan

_LOWEST = np.float32(-87.336540)  # the lowest argument whose exponential is not 0
_ROUNDING = np.float32(12582912)  # its last bit is worth 1
_COEFFICIENTS = np.asarray(
    [
        *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3),
        *(4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
    ],
    np.float32,
)


def run(plan: RowsPlan, operands: Rows) -> Array:
    """Normalizes rows, without a scale computes their softmax, or averages pixels."""
    if isinstance(plan, AveragePlan):
        return average(operands)
    return (softmax if operands.scale is None else normalize)(plan, operands)


def normalize(plan: RowsPlan, operands: Rows) -> Array:
    """Divides by the deviation, or by the root of the mean square."""
    x, scale, bias = operands
    axes = [x.ndim - 1]
    if plan.is_centred:
        x = ieee.subtract(x, _apart(sums.mean(x, axes, sums.IN_ROWS)))
    squares = sums.mean(ieee.multiply(x, x), axes, sums.IN_ROWS)
    deviation = ieee.sqrt(ieee.add(squares, x.dtype.type(plan.epsilon)))
    inverse = _apart(ieee.divide(jnp.ones_like(deviation), deviation))
    scaled = ieee.multiply(ieee.multiply(x, inverse), expand_rank(scale, x.ndim))
    return scaled if bias is None else ieee.add(scaled, expand_rank(bias, x.ndim))


def _apart(x: Array) -> Array:
    """Returns `x`, a number for each row; for a fusion of rows GPUs compile seconds longer."""
    apart: Array = lax.optimization_barrier(x)
    return apart


def average(operands: Rows) -> Array:
    """Averages floats, or the entries of bytes, over pixels, the axis before the last."""
    if operands.scale is None:
        of_floats: Array = sums.mean(operands.input, [operands.input.ndim - 2], sums.IN_ONE_PACKET)[
            ..., 0, :
        ]
        return of_floats
    places = float_bits.bitcast(operands.input, jnp.uint8).astype(jnp.int32)
    terms = jnp.take(operands.scale, places, mode="clip")
    averages: Array = sums.mean(terms, [terms.ndim - 2], sums.IN_ONE_PACKET)[..., 0, :]
    return averages


def softmax(plan: RowsPlan, operands: Rows) -> Array:
    """Divides exponentials by their sum."""
    x = operands.input
    powers = exponentials(x, -1)
    total = sums.total(powers, [x.ndim - 1], sums.IN_ROWS)
    shares = ieee.multiply(powers, _apart(ieee.divide(jnp.ones_like(total), total)))
    return sums.narrow(shares, x.dtype)


def exponentials(x: Array, axis: int) -> Array:
    """The exponentials of the distances to the largest element of an axis, float32 or float64."""
    x = sums.wide(x)
    largest = lax.stop_gradient(x.max(axis, keepdims=True, initial=-jnp.inf))
    distance = ieee.subtract(x, largest)
    return _exponential(distance) if x.dtype == jnp.float32 else jnp.exp(distance)


@jax.custom_jvp
def _exponential(x: Array) -> Array:
    """exp(x) for x up to 0, by the kernel's polynomial (`cpu/rows_kernels.cc`)."""
    limited = jnp.where(x < _LOWEST, _LOWEST, x)
    shifted = ieee.add(ieee.multiply(limited, np.float32(1.44269504)), _ROUNDING)
    times = ieee.subtract(shifted, _ROUNDING)
    rest = ieee.subtract(limited, ieee.multiply(times, np.float32(0.693359375)))
    rest = ieee.add(rest, ieee.multiply(times, np.float32(2.12194440e-4)))
    value = jnp.full_like(x, _COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        value = ieee.add(ieee.multiply(value, rest), coefficient)
    value = ieee.multiply(ieee.multiply(value, rest), rest)
    value = ieee.add(ieee.add(value, rest), np.float32(1))
    power = (float_bits.bitcast(shifted, jnp.int32) << 23) + np.int32(127 << 23)
    scaled = ieee.multiply(value, float_bits.bitcast(power, jnp.float32))
    return jnp.where(x < _LOWEST, jnp.zeros_like(x), scaled)


@_exponential.defjvp
def _exponential_tangent(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    power = _exponential(*primals)
    return power, power * tangents[0]
