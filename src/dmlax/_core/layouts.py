"""Layouts of images: the axes of N, C and the spatial ones, in any order."""

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array


def has_channels_last(axes: Sequence[int]) -> bool:
    """True if the channels are the last axis."""
    return axes[1] == len(axes) - 1


def order_of(rank: int, last: bool) -> tuple[int, ...]:
    """The transposition from N, C, spatial to channels last or first."""
    return (0, *range(2, rank), 1) if last else tuple(range(rank))


def to_order(x: Array, axes: Sequence[int], last: bool) -> Array:
    """Transposes an array of a layout to channels last or first."""
    return jnp.transpose(x, [axes[i] for i in order_of(x.ndim, last)])


def from_order(y: Array, axes: Sequence[int], last: bool) -> Array:
    """Transposes channels last or first to a layout."""
    order = order_of(y.ndim, last)
    return jnp.transpose(y, [order.index(axes.index(axis)) for axis in range(y.ndim)])
