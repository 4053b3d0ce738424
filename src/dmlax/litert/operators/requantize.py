"""LiteRT's requantizations of int32 sums, by the kernels whose bits are wanted."""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import fixed_point, ieee, requantize
from dmlax._core.fixed_point import Multiplier
from dmlax.errors import UnsupportedError
from dmlax.litert.operators.table import Call, Info


def clamp(x: Array, call: Call, activation: str = "", is_delegated: bool = False) -> Array:
    """Adds the output's zero point, and clamps to the limits of an activation."""
    info = call.output
    low, high = call.limits(info, activation, is_delegated)
    zero = info.zero_point  # a sum beyond int32 is beyond the limits, too
    return (jnp.clip(x, low - zero, high - zero) + zero).astype(info.dtype)


def scale_float32(x: Array, factor: np.ndarray | np.float32) -> Array:
    """rint(float32(x) * factor), ties to even, clamped to 24 bits."""
    value = ieee.multiply(x.astype(jnp.float32), jnp.asarray(factor, jnp.float32))
    return lax.round(
        jnp.clip(value, -(2.0**24), 2.0**24), lax.RoundingMethod.TO_NEAREST_EVEN
    ).astype(jnp.int32)


def scale_exactly(
    x: Array, factors: tuple[Array | np.float32 | np.ndarray, ...], info: Info
) -> Array:
    """`x * a * b / c` rounded once, ties to even, plus the output's zero point, clamped."""
    if info.dtype.itemsize > 1:
        raise UnsupportedError('arithmetic="exact" has outputs of 8 bits only; use "reference"')
    a, b, c = (jnp.asarray(each, jnp.float32) for each in factors)
    zero = jnp.asarray(info.zero_point, info.dtype)
    y: Array = requantize.requantizer(a, b, c, zero, info.dtype, "exact")(x)
    return y


def rescale(
    x: Array, call: Call, source: Info, *, activation: str = "", is_narrow: bool = False
) -> Array:
    """Integers less their zero point in the output's scale, rounded as a multiplier's product.

    If narrow, the quotient of scales is one of float32.
    """
    if call.resolver == "exact":
        exact = scale_exactly(x, (source.scale, np.float32(1), call.output.scale), call.output)
        return jnp.clip(exact, *call.limits(activation=activation))
    ratio = source.scale / call.output.scale if is_narrow else source.real / call.output.real
    return clamp(fixed_point.scale_half_away(x, Multiplier.of(float(ratio))), call, activation)


def in_vectors(x: Array, by: Multiplier, places: Array, size: int, count: int) -> Array:
    """Rounds as LiteRT's kernels without XNNPACK: whole vectors half up, the rest half away.

    Args:
      x: int32.
      by: the multiplier.
      places: the place of each element among `count`, which broadcasts to x.
      size: the elements of a vector.
      count: the elements in a row.
    """
    is_whole = places < count - count % size
    up, away = fixed_point.scale_half_up(x, by), fixed_point.scale_half_away(x, by)
    return jnp.where(is_whole, up, away)


def has_eight_bits(output: Info, *ratios: float | np.float32) -> bool:
    """True for an output and ratios of scales that XNNPACK takes for `eight_bits`."""
    fits = all(2.0**-8 <= abs(float(ratio)) <= 2.0**7 for ratio in ratios)
    return output.dtype.itemsize == 1 and fits


def eight_bits(x: Array, ratio: float | np.float32) -> Array:
    """XNNPACK's product with a multiple of 1/256, rounded half up."""
    factor = int(np.rint(np.float32(256) * np.float32(ratio)))
    return (x * factor + 128) >> 8


def less_zero(x: Array, info: Info) -> Array:
    """The int32 difference of integers and their zero point."""
    return x.astype(jnp.int32) - info.zero_point


def product_of_scales(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The product of scales in float64."""
    product: np.ndarray = first.astype(np.float64) * second.astype(np.float64)
    return product


def of_products(
    call: Call, sums: Array, infos: tuple[Info, Info], in_eights: bool = False
) -> Array:
    """Sums of products in the output's scale, by a multiplier for each channel or column."""
    first, second = infos
    if call.resolver == "exact":
        exact = scale_exactly(sums, (first.scale, second.scales, call.output.scale), call.output)
        return jnp.clip(exact, *call.limits())
    factors = product_of_scales(first.scales, second.scales) / call.output.real
    by = Multiplier.of(factors)
    if in_eights and call.output.dtype == np.uint8:
        return clamp(fixed_point.scale_half_up(sums, by), call)
    if in_eights:
        count = sums.shape[-1]
        return clamp(in_vectors(sums, by, jnp.arange(count), 8, count), call)
    return clamp(fixed_point.scale_half_away(sums, by), call)
