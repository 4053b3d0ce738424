"""Resizes images, channels last: bilinear, and to the nearest pixel."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import fixed_point, ieee
from dmlax.errors import UnsupportedError
from dmlax.litert.operators.table import Call, Known, expect_rank, operator
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.values import expect_memory


def _sizes(x: Array, sizes: np.ndarray) -> list[tuple[int, int]]:
    """The size before and after, of the height and the width."""
    expect_rank(x, 4)
    wanted = [int(size) for size in sizes.ravel()]
    if len(wanted) != 2 or min(wanted) < 1 or 0 in x.shape[1:3]:
        raise ModelError(f"its size is {wanted} for an input {list(x.shape)}")
    expect_memory(np.int64, 8, sum(wanted))  # the indices and weights of both axes
    return list(zip(x.shape[1:3], wanted, strict=True))


def _scale(call: Call, size: int, wanted: int) -> np.float32:
    """The input's pixels for one of the output."""
    if call.align_corners and wanted > 1:
        return np.float32(size - 1) / np.float32(wanted - 1)
    return np.float32(size) / np.float32(wanted)


@operator("RESIZE_BILINEAR")
def resize_bilinear(call: Call, x: Array, sizes: Known) -> Array:
    """Interpolates between the four pixels around each position."""
    if call.is_quantized and call.info(0).dtype.itemsize > 1:
        raise UnsupportedError("its input is int16, expected floats, int8 or uint8")
    is_float = not call.is_quantized or (call.resolver == "reference" and x.dtype == jnp.uint8)
    if not is_float and call.resolver == "reference":
        return _by_integers(call, x, _sizes(x, sizes))
    lower, upper, weights = [], [], []
    for size, wanted in _sizes(x, sizes):
        place = np.arange(wanted, dtype=np.float32)
        scale = _scale(call, size, wanted)
        if call.half_pixel_centers:
            place = (place + np.float32(0.5)) * scale - np.float32(0.5)
        else:
            place = place * scale
        if not (is_float and call.is_quantized):  # which weigh a pixel twice outside of the image
            place = np.clip(place, 0, None if is_float else size - 1)
        below = np.clip(np.floor(place).astype(np.int32), 0, size - 1)
        lower.append(below)
        upper.append(np.clip(np.ceil(place).astype(np.int32), 0, size - 1))
        weights.append((place - below).astype(np.float32))
    rows = [jnp.take(x, places, 1) for places in (lower[0], upper[0])]
    corners = [[jnp.take(row, places, 2) for places in (lower[1], upper[1])] for row in rows]
    down, right = weights[0][:, None, None], weights[1][:, None]
    if is_float and call.is_quantized:
        total = jnp.float32(0)
        for column, horizontal in enumerate((np.float32(1) - right, right)):
            for row, vertical in enumerate((np.float32(1) - down, down)):
                part = corners[row][column].astype(jnp.float32)
                total = ieee.add(total, ieee.multiply(ieee.multiply(part, vertical), horizontal))
        return jnp.floor(total + 0.5).astype(x.dtype)
    if is_float:
        top, bottom = (left + (after - left) * right for left, after in corners)
        return top + (bottom - top) * down
    wide = [[part.astype(jnp.int32) for part in pair] for pair in corners]
    across, along = (np.rint(weight * 2048).astype(np.int32) for weight in (right, down))
    top, bottom = ((left << 11) + (after - left) * across for left, after in wide)
    total = (top << 11) + (bottom - top) * along
    return ((total + (1 << 21)) >> 22).astype(x.dtype)


def _by_integers(call: Call, x: Array, sizes: list[tuple[int, int]]) -> Array:
    """Interpolates with weights of 10 bits."""
    lower, upper, weights = [], [], []
    for size, wanted in sizes:
        is_aligned = call.align_corners and wanted > 1
        up, down = (size - 1, wanted - 1) if is_aligned else (size, wanted)
        scale = (1024 * up + down // 2) // down
        place = np.arange(wanted, dtype=np.int64) * scale
        if call.half_pixel_centers:
            place = place + scale // 2 - 512
        first = np.clip(place >> 10, 0, size - 1)
        lower.append(first)
        upper.append(np.minimum(np.maximum((place + 1023) >> 10, 0), size - 1))
        weights.append((place - (first << 10)).astype(np.int32))
    wide = x.astype(jnp.int32)
    total = jnp.int32(0)
    down, right = weights[0][:, None, None], weights[1][:, None]
    for rows, vertical in ((lower[0], 1024 - down), (upper[0], down)):
        part = jnp.take(wide, rows, 1)
        for columns, horizontal in ((lower[1], 1024 - right), (upper[1], right)):
            total = total + jnp.take(part, columns, 2) * vertical * horizontal
    return fixed_point.divide_half_away(total, 20).astype(x.dtype)


@operator("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(call: Call, x: Array, sizes: Known) -> Array:
    """Takes the nearest pixel."""
    for axis, (size, wanted) in enumerate(_sizes(x, sizes), 1):
        place = np.arange(wanted, dtype=np.float32)
        offset = np.float32(0.5 if call.half_pixel_centers else 0)
        place = (place + offset) * _scale(call, size, wanted)
        if call.align_corners:
            place = np.floor(place + np.float32(0.5))
        x = jnp.take(x, np.clip(np.floor(place).astype(np.int32), 0, size - 1), axis)
    return x
