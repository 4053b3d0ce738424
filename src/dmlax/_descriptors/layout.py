"""Strided buffers: the places of elements, and copies between a buffer and an array."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_PATIENCE = 1_000_000


class _Axis(NamedTuple):
    """An axis that takes more than one step through the buffer."""

    number: int
    size: int
    stride: int


def is_distinct(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """True if no two indices have the same offset."""
    axes = _axes(sizes, strides)
    if any(axis.stride == 0 for axis in axes):
        return False
    return _is_nested(axes) or not _meet(axes)


def read(buffer: Array, sizes: Sequence[int], strides: Sequence[int]) -> Array:
    """Reads the array of `sizes` whose element i is buffer[sum(i * strides)]."""
    axes = [axis for axis in _axes(sizes, strides) if axis.stride]
    if not _is_nested(axes):
        return buffer[_offsets(sizes, strides)]
    array = _unfold(buffer, axes)
    moving = {axis.number for axis in axes}
    kept = [size if axis in moving else 1 for axis, size in enumerate(sizes)]
    return jnp.broadcast_to(array.transpose(_order(axes)).reshape(kept), sizes)


def write(array: Array, strides: Sequence[int], length: int) -> Array:
    """Writes the buffer of `length` elements that `read` reads `array` from; the rest is zero."""
    axes = _axes(array.shape, strides)
    if not _is_nested(axes):
        empty = jnp.zeros(length, array.dtype)
        places = _offsets(array.shape, strides).reshape(-1)
        return empty.at[places].set(array.reshape(-1), unique_indices=True)
    moving = array.reshape([axis.size for axis in sorted(axes)])
    return _fold(moving.transpose(np.argsort(_order(axes))), axes, length)


# ---------------------------------------------------------------------------------------


def _axes(sizes: Sequence[int], strides: Sequence[int]) -> list[_Axis]:
    """The axes of more than one element, the largest stride first."""
    pairs = enumerate(zip(sizes, strides, strict=True))
    axes = [_Axis(number, size, stride) for number, (size, stride) in pairs if size > 1]
    return sorted(axes, key=lambda axis: -axis.stride)


def _order(axes: Sequence[_Axis]) -> list[int]:
    """The places of the axes, by their number in the array."""
    return sorted(range(len(axes)), key=lambda place: axes[place].number)


def _reaches(axes: Sequence[_Axis]) -> list[int]:
    """For each axis, the elements from the first to the last one of the axes after it."""
    steps = [(axis.size - 1) * axis.stride for axis in axes]
    return [sum(steps[place + 1 :]) + 1 for place in range(len(axes))]


def _is_nested(axes: Sequence[_Axis]) -> bool:
    """True if each step of an axis passes all that the axes after it reach."""
    return all(axis.stride >= reach for axis, reach in zip(axes, _reaches(axes), strict=True))


def _unfold(buffer: Array, axes: Sequence[_Axis]) -> Array:
    """Makes each of `axes` an axis of the array, in their order, by slices and reshapes."""
    lead: tuple[int, ...] = ()
    for axis in axes:
        buffer = _fit(buffer, axis.size * axis.stride)
        lead = (*lead, axis.size)
        buffer = buffer.reshape(*lead, axis.stride)
    return _fit(buffer, 1).reshape(lead)


def _fold(array: Array, axes: Sequence[_Axis], length: int) -> Array:
    """Undoes `_unfold`, with zeros between the elements."""
    buffer = array[..., None]
    for place in reversed(range(len(axes))):
        buffer = _fit(buffer, axes[place].stride)
        buffer = buffer.reshape(*buffer.shape[:-2], axes[place].size * axes[place].stride)
    return _fit(buffer, length)


def _fit(array: Array, width: int) -> Array:
    """Cuts the last axis to `width`, or fills it with zeros."""
    missing = width - array.shape[-1]
    if missing <= 0:
        return array[..., :width]
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


def _offsets(sizes: Sequence[int], strides: Sequence[int]) -> Array:
    """Every element's offset."""
    shape = tuple(sizes)
    steps = (
        lax.broadcasted_iota(jnp.uint32, shape, axis) * np.uint32(stride)
        for axis, stride in enumerate(strides)
    )
    return sum(steps, jnp.zeros(shape, jnp.uint32))


def _meet(axes: Sequence[_Axis]) -> bool:
    """True if some steps, not all 0 and within the sizes, lead back to the start.

    Exact for all but absurd layouts: one that takes more than `_PATIENCE` tries counts as meeting.
    """
    left = [_PATIENCE]
    return any(
        _reachable(steps * axis.stride, axes[place + 1 :], left)
        for place, (axis, reach) in enumerate(zip(axes, _reaches(axes), strict=True))
        for steps in range(1, min(axis.size, (reach - 1) // axis.stride + 1))
    )


def _reachable(distance: int, axes: Sequence[_Axis], left: list[int]) -> bool:
    """True if steps along the axes, in both directions, add up to a distance."""
    left[0] -= 1
    if distance == 0 or left[0] < 0:
        return True
    if not axes or distance % math.gcd(*(axis.stride for axis in axes)):
        return False
    axis, rest = axes[0], axes[1:]
    reach = sum((other.size - 1) * other.stride for other in rest)
    low = max(-((reach - distance) // axis.stride), 1 - axis.size)
    high = min((reach + distance) // axis.stride, axis.size - 1)
    return any(
        _reachable(distance - steps * axis.stride, rest, left) for steps in range(low, high + 1)
    )
