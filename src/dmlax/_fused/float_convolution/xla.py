"""Float convolutions and products in plain XLA, which orders the sums."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import choice, float_bits, ieee, rational
from dmlax._core.windows import tap_slices
from dmlax._fused.float_convolution.plan import Epilogue, FloatPlan, Operands, unpack

_MOST_TAPS = 64  # a CPU sums shifted images for a depthwise filter of so many taps


def run(plan: FloatPlan, operands: Operands, by_taps: bool = True) -> Array:
    """Convolves or multiplies; then the epilogue.

    Args:
      plan: of the call.
      operands: of the call.
      by_taps: False for a convolution of XLA alone, which has derivatives.
    """
    x, filter, factor, bias, residual = operands
    if plan.is_packed:
        filter = unpack(plan.filter, filter)
    elif plan.is_transposed:
        filter = filter.T
    y = _convolve(plan, x, filter, by_taps)
    if factor is not None:
        y = ieee.multiply(y, _by_channel(plan, factor))
    if bias is not None:
        y = y + _by_channel(plan, bias)
    return activate(plan.epilogue, y if residual is None else y + residual)


def _by_channel(plan: FloatPlan, values: Array) -> Array:
    """Values for every output channel, for a result in the plan's layout."""
    rank = len(plan.sizes)
    axis = rank - 1 if plan.geometry.output_last else 1
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def _convolve(plan: FloatPlan, x: Array, filter: Array, by_taps: bool) -> Array:
    """The sums."""
    if x.ndim == 2:
        return lax.dot_general(x, filter, (((1,), (1,)), ((), ())), precision="highest")
    strides, padding, dilations, input_last, output_last = plan.geometry
    spatial = "DHW"[-len(strides) :]
    layouts = [f"N{spatial}C" if last else f"NC{spatial}" for last in (input_last, output_last)]

    def convolve(operands: tuple[Array, Array]) -> Array:
        return lax.conv_general_dilated(
            *operands,
            strides,
            padding,
            rhs_dilation=dilations,
            dimension_numbers=(layouts[0], f"OI{spatial}", layouts[1]),
            feature_group_count=plan.filter.groups,
            precision=lax.Precision.HIGHEST,
        )

    if not (by_taps and plan.filter.is_depthwise) or plan.filter.taps > _MOST_TAPS:
        return convolve((x, filter))

    def add_taps(operands: tuple[Array, Array]) -> Array:
        return _add_taps(plan, *operands)

    output = jax.ShapeDtypeStruct(plan.output.shape, plan.output.dtype)
    result: Array = choice.by_platform((x, filter), output, convolve, {"cpu": add_taps})
    return result


def _add_taps(plan: FloatPlan, image: Array, filter: Array) -> Array:
    """A depthwise convolution as a sum of shifted images, one loop for XLA on a CPU."""
    strides, padding, dilations, input_last, output_last = plan.geometry
    places = slice(1, -1) if input_last else slice(2, None)
    pads = [(0, 0, 0)] * image.ndim
    pads[places] = [(start, end, 0) for start, end in padding]
    padded = lax.pad(image, np.zeros((), image.dtype), pads)
    total = None
    for tap in itertools.product(*map(range, plan.filter.sizes[2:])):
        axes: Sequence[slice] = tap_slices(tap, plan.sizes[2:], strides, dilations)
        shifted = padded[:, *axes] if input_last else padded[..., *axes]
        factor = filter[(slice(None), 0, *tap)]
        factor = factor if input_last else factor.reshape(-1, *(1,) * len(axes))
        total = shifted * factor if total is None else total + shifted * factor
    assert total is not None
    if input_last == output_last:
        return total
    return jnp.moveaxis(total, 1, -1) if output_last else jnp.moveaxis(total, -1, 1)


def activate(epilogue: Epilogue, y: Array) -> Array:
    """The function that ends an epilogue."""
    name, low, high, fuses = epilogue
    if name == "clip":
        return jnp.minimum(jnp.maximum(y, np.float32(low)), np.float32(high))
    if name == "shifted_swish":
        limited = jnp.clip(ieee.add(y, np.float32(low)), 0, np.float32(high))
        quotient: Array = ieee.divide(ieee.multiply(y, limited), jnp.full(y.shape, high, y.dtype))
        return quotient
    if name in ("sigmoid", "silu"):
        share = ieee.guard(rational.logistic(y))
        return ieee.multiply(y, share) if name == "silu" else share
    if name in ("hard_sigmoid", "hard_swish"):
        slope, offset = np.float32(low), np.float32(high)
        if fuses:
            line = float_bits.fma(y, jnp.full(y.shape, slope), jnp.full(y.shape, offset))
        else:
            line = ieee.add(ieee.multiply(y, slope), offset)
        share = jnp.clip(line, 0, 1)
        return ieee.multiply(y, share) if name == "hard_swish" else share
    return y
