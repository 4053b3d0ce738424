"""Observers: the ranges and histograms of tensors, as pytrees that jit and scan."""

import functools
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax._core import ieee
from dmlax._core.arguments import Rules

LEAST_EXPONENT = -126  # a bin's width is at least 2**-126, a normal float
_CANDIDATES = 128  # ranges among which `mse` chooses
_STATIC = {"static": True}  # fields that are no leaves of the pytree


class Target(NamedTuple):
    """A quantized dtype's limits, and if the zero point stays in their middle."""

    low: int
    high: int
    symmetric: bool

    @property
    def middle(self) -> int:
        """The zero point of symmetric quantization."""
        return (self.low + self.high + 1) // 2

    def parameters(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The scale and the zero point, as floats, that map a range to the dtype's."""
        if self.symmetric:
            reach = jnp.maximum(jnp.abs(low), jnp.abs(high))
            steps = jnp.full_like(reach, self.high - self.middle)
            scale = _positive(ieee.divide(reach, steps))
            return scale, jnp.full_like(scale, self.middle)
        low, high = jnp.minimum(low, 0), jnp.maximum(high, 0)
        steps = jnp.full_like(low, self.high - self.low)
        scale = _positive(ieee.subtract(ieee.divide(high, steps), ieee.divide(low, steps)))
        zero_point = jnp.rint(self.low - ieee.divide(low, scale))
        return scale, jnp.clip(zero_point, self.low, self.high)


def _positive(scale: Array) -> Array:
    """The scale of a range that is only 0 is 1."""
    return jnp.where(scale == 0, 1, scale)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class Range:
    """The least and the greatest value, of a tensor or of each channel.

    Attributes:
      low: float32 (channels,), or (1,) without an axis; infinity before the first tensor.
      high: as `low`; minus infinity before the first tensor.
      axis: the axis of channels, or None.
      momentum: the weight of earlier tensors in a moving average; None keeps the extremes.
    """

    low: Array
    high: Array
    axis: int | None = field(metadata=_STATIC)
    momentum: float | None = field(default=None, metadata=_STATIC)

    def observe(self, x: ArrayLike, /) -> Self:
        """Returns the observer after another tensor."""
        observed: Self = _observe(self, Rules("observe").to_array("x", x))
        return observed

    def _after(self, rows: Array) -> Self:
        """The observer after float32 values (channels, values)."""
        least, greatest = rows.min(1, initial=np.inf), rows.max(1, initial=-np.inf)
        low, high, share, is_first = self.low, self.high, self.momentum, self.low > self.high
        if share is None:
            low, high = jnp.minimum(low, least), jnp.maximum(high, greatest)
        else:
            low, high = (
                jnp.where(is_first, new, share * old + (1 - share) * new)
                for old, new in ((low, least), (high, greatest))
            )
        return replace(self, low=low, high=high)

    def merged(self) -> Self:
        """The observer of all channels as one."""
        low, high = self.low.min(keepdims=True), self.high.max(keepdims=True)
        return replace(self, low=low, high=high, axis=None)

    def limits(self, target: Target) -> tuple[Array, Array]:
        """The range to quantize."""
        return self.low, self.high


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class Histogram(Range):
    """A histogram about zero, whose bins become twice as wide when a value lies outside.

    Two bins become one, so the counts are those that the wider bins would have had from the start.

    Attributes:
      counts: int32 (channels, bins), or (1, bins) without an axis: at most 2**31 - 1 values.
      exponent: int32 (channels,): the width of a bin is `2.0 ** exponent`.
      kept: the percentage of values that the range keeps; None for the least square error.
    """

    counts: Array
    exponent: Array
    kept: float | None = field(metadata=_STATIC)

    def _after(self, rows: Array) -> Self:
        counts, exponent = jax.vmap(_count)(self.counts, self.exponent, rows)
        return replace(super()._after(rows), counts=counts, exponent=exponent)

    def merged(self) -> Self:
        """The observer of all channels as one."""
        exponent = self.exponent.max(keepdims=True)
        counts = jax.vmap(_widen)(self.counts, exponent - self.exponent).sum(0, keepdims=True)
        return replace(super().merged(), counts=counts, exponent=exponent)

    def limits(self, target: Target) -> tuple[Array, Array]:
        """The range to quantize."""
        if self.kept is None:
            find = functools.partial(_least_error, target)
        else:
            find = functools.partial(_percentile, 100 - self.kept)
        low, high = jax.vmap(find)(self.counts, self.exponent, self.low, self.high)
        return low, high


def _rows(x: Array, axis: int | None, channels: int) -> Array:
    """The values of each channel in float32, (channels, values)."""
    if axis is None:
        return x.astype(jnp.float32).reshape(1, -1)
    fits = -x.ndim <= axis < x.ndim and x.shape[axis] == channels
    wanted = f"has shape {x.shape}, expected {channels} channels on axis {axis}"
    Rules("observe").expect(fits, "sizes", "x", wanted)
    return jnp.moveaxis(x.astype(jnp.float32), axis, 0).reshape(channels, -1)


@jax.jit
def _observe(observer: Range, x: Array) -> Range:
    return observer._after(_rows(x, observer.axis, len(observer.low)))


def _widen(counts: Array, doublings: Array) -> Array:
    """The counts of bins that are 2**doublings as wide."""
    bins = len(counts)
    index = jnp.arange(bins, dtype=jnp.int32) - bins // 2
    wider = (index >> jnp.clip(doublings, 0, 31)) + bins // 2
    return jnp.zeros_like(counts).at[wider].add(counts)


def _count(counts: Array, exponent: Array, values: Array) -> tuple[Array, Array]:
    """Counts values in bins as wide as they need."""
    half = len(counts) // 2
    is_finite = jnp.isfinite(values)
    values = jnp.where(is_finite, values, 0)
    _, above = jnp.frexp(jnp.abs(values).max(initial=0))  # every value is below 2**above
    needed = above - (half.bit_length() - 1)
    needed = jnp.where(jnp.any(values != 0), needed, LEAST_EXPONENT)
    wider = jnp.maximum(exponent, needed)
    place = jnp.floor(jnp.ldexp(values, -wider)).astype(jnp.int32) + half
    counts = _widen(counts, wider - exponent)
    return counts.at[jnp.clip(place, 0, 2 * half - 1)].add(is_finite.astype(jnp.int32)), wider


def _percentile(
    cut: float, counts: Array, exponent: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """The range without `cut` percent of the values, half of them at each end."""
    upto = jnp.cumsum(counts)
    tail = jnp.floor(upto[-1].astype(jnp.float32) * np.float32(cut / 200)).astype(jnp.int32)
    bins = jnp.stack([jnp.argmax(upto > tail), 1 + jnp.argmax(upto >= upto[-1] - tail)])
    edges = (bins - len(counts) // 2).astype(jnp.float32)
    least, greatest = jnp.clip(jnp.ldexp(edges, exponent), low, high)
    return least, greatest


def _least_error(
    target: Target, counts: Array, exponent: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """The share of the range whose quantization has the least square error."""
    centers = jnp.arange(len(counts), dtype=jnp.float32) + (0.5 - len(counts) // 2)
    # In units of bins, whose squares are finite.
    ends = jnp.ldexp(jnp.stack([low, high]), -exponent)
    centers = jnp.clip(centers, *ends)

    def error(share: Array) -> Array:
        scale, zero_point = target.parameters(*(share * ends))
        levels = jnp.clip(jnp.rint(centers / scale) + zero_point, target.low, target.high)
        difference = (levels - zero_point) * scale - centers
        return jnp.sum(counts.astype(jnp.float32) * jnp.square(difference))

    shares = 1 - jnp.arange(_CANDIDATES, dtype=jnp.float32) / _CANDIDATES
    best = shares[jnp.argmin(jax.lax.map(error, shares))]
    return best * low, best * high
