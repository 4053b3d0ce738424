"""Operators that select, place or order elements."""

import math
from collections.abc import Sequence
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import ieee
from dmlax.errors import UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.nonzero import OUTSIDE, Counted, expect_size
from dmlax.onnx.operators.table import Known, Parameter, Tensor, operator
from dmlax.onnx.operators.values import (
    DTYPES,
    device_dtype,
    expect_equal_sizes,
    integers,
    is_known,
    is_size,
    to_device,
)


def _order_key(x: Array, largest: int | bool) -> Array:
    """Numbers whose largest come first; -0 equals 0, as in ONNX Runtime."""
    if x.dtype == bool:
        x = x.astype(np.uint8)
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = jnp.where(x == 0, jnp.zeros_like(x), x)
        return x if largest else -x
    return x if largest else ~x


@operator("TopK", 10, 11, 24, ignores=["sorted"])
@operator("TopK", 1, attributes={"k": int, "largest": None})
def top(x: Tensor, k: Known, *, axis: int = -1, largest: int = 1) -> tuple[Tensor, Tensor]:
    """The first elements in order, and their indices, by which equal elements are ordered."""
    (count,) = integers(k)
    if not -x.ndim <= axis < x.ndim:
        raise ModelError(f"axis is {axis}, expected one of an input of rank {x.ndim}")
    size = x.shape[axis]
    if isinstance(count, int) and isinstance(size, int) and not 0 <= count <= size:
        raise ModelError(f"K is {count}, expected at most {size}, the size of axis {axis}")
    x = to_device(x)
    if isinstance(size, int):
        _, places = lax.top_k(jnp.moveaxis(_order_key(x, largest), axis, -1), count)
    else:
        ascending = jnp.moveaxis(_order_key(x, not largest), axis, -1)
        order = jnp.argsort(ascending, stable=True)
        places = jnp.take(order, jnp.arange(count), axis=-1, mode="clip")
    places = jnp.moveaxis(places, -1, axis)
    return jnp.take_along_axis(x, places, axis=axis), places.astype(device_dtype(np.int64))


@operator("OneHot", 9, 11, 28)
def one_hot(indices: Array, depth: Known, values: Array, *, axis: int = -1) -> Array:
    """One value at the indices along a new axis, and another one elsewhere."""
    (size,) = integers(depth)
    indices = indices.astype(device_dtype(np.int64))
    rank = indices.ndim + 1
    if not -rank <= axis < rank:
        raise ModelError(f"axis is {axis}, expected one of an output of rank {rank}")
    places = jnp.where(indices < 0, indices + size, indices)
    is_hot = jax.nn.one_hot(places, size, axis=axis, dtype=bool)
    off, on = values
    return jnp.where(is_hot, on, off)


@operator("Trilu", 14)
def triangle(x: Array, k: Known | None = None, *, upper: int = 1) -> Array:
    """The upper or the lower triangle of matrices; zeros elsewhere."""
    offset = 0 if k is None else integers(k)[0]
    rows, columns = x.shape[-2:]
    distance = jnp.arange(columns)[None, :] - jnp.arange(rows)[:, None]
    keep = distance >= offset if upper else distance <= offset
    return jnp.where(keep, x, jnp.zeros_like(x))


@operator("EyeLike", 9, 22)
def eye_like(x: Tensor, *, dtype: int = 0, k: int = 0) -> Array:
    """Ones on a diagonal, in the shape of a matrix."""
    if dtype and dtype not in DTYPES:
        raise UnsupportedError(f"its data type {dtype} is not known")
    wanted = device_dtype(DTYPES[dtype] if dtype else x.dtype)
    rows, columns = x.shape
    return jnp.eye(rows, columns, k=k, dtype=wanted)


def _sub_shape(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The part of a tensor that elements of indices can come from: all of an axis."""
    if len(x.shape) != len(indices.shape):
        raise ModelError(f"its indices have rank {len(indices.shape)}, expected {len(x.shape)}")
    along = axis % len(x.shape)
    for i, (size, count) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != along:
            expect_equal_sizes(size, count)
    parts = (slice(None) if i == along else slice(size) for i, size in enumerate(indices.shape))
    return x[tuple(parts)]


@operator("GatherElements", 11, 13)
def gather_elements(x: Tensor, indices: Parameter, *, axis: int = 0) -> Tensor:
    """Takes an element for every index along an axis; one outside gives 0."""
    x = _sub_shape(x, indices, axis)
    return jnp.take_along_axis(
        to_device(x), to_device(indices), axis=axis, mode="fill", fill_value=0
    )


@operator("GatherND", 11, 12, 13)
def gather_nd(x: Tensor, indices: Parameter, *, batch_dims: int = 0) -> Tensor:
    """Takes slices at coordinates; a coordinate outside gives 0."""

    def take(x: Array, places: Array) -> Array:
        coordinates = tuple(jnp.moveaxis(places, -1, 0))
        taken = x.at[coordinates].get(mode="fill", fill_value=0)
        return taken if coordinates else jnp.broadcast_to(taken, (*places.shape[:-1], *x.shape))

    for _ in range(batch_dims):
        take = jax.vmap(take)
    return take(to_device(x), to_device(indices))


_WAYS = {"none": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"}
_Way = Annotated[str, _WAYS]


def _scatter(x: Tensor, places: tuple[Tensor, ...], updates: Tensor, reduction: str) -> Tensor:
    """Writes updates at coordinates; one outside is dropped."""
    write = getattr(to_device(x).at[places], _WAYS[reduction])
    written: Array = write(to_device(updates), mode="drop")
    return written


@operator("ScatterND", 11, 13, 16, 18)
def scatter_nd(
    x: Tensor, indices: Parameter, updates: Tensor, *, reduction: _Way = "none"
) -> Tensor:
    """Writes slices at coordinates; one outside is dropped."""
    places = tuple(jnp.moveaxis(to_device(indices), -1, 0))
    return _scatter(x, places, updates, reduction)


@operator("Scatter", 9, 11)
@operator("ScatterElements", 11, 13, 16, 18)
def scatter_elements(
    x: Tensor, indices: Parameter, updates: Tensor, *, axis: int = 0, reduction: _Way = "none"
) -> Tensor:
    """Writes an update for every index along an axis; one outside is dropped."""
    _sub_shape(x, indices, axis)
    ranges = [jnp.arange(size) for size in indices.shape]
    grid = list(jnp.meshgrid(*ranges, indexing="ij", sparse=True))
    grid[axis] = to_device(indices)
    return _scatter(x, tuple(grid), updates, reduction)


@operator("Compress", 9, 11, 28)
def compress(
    x: Tensor, condition: Parameter, *, axis: int | None = None, nonzero_size: int | None
) -> Tensor | Counted:
    """Takes the slices along an axis where a condition holds; rows after the count are 0."""
    if axis is None:
        x, axis = x.reshape((math.prod(x.shape),)), 0
    length = x.shape[axis]
    if is_size(length):
        condition = condition[:length]
    if is_known(condition):
        return jnp.take(to_device(x), np.flatnonzero(condition).astype(np.int32), axis=axis)
    size = expect_size(nonzero_size)
    if length == 0:
        shape = (*x.shape[:axis], size, *x.shape[axis:][1:])
        return Counted(jnp.zeros(shape, x.dtype), jnp.int32(0))
    (places,) = jnp.nonzero(condition, size=size, fill_value=OUTSIDE)
    rows = jnp.take(to_device(x), places, axis=axis, mode="fill", fill_value=0)
    return Counted(rows, jnp.count_nonzero(condition))


_Choice = tuple[Array, Array, Array, Array]  # step, boxes that are left, rows, counts


def _ends(boxes: Array, is_center: int) -> list[Array]:
    """The lower and the upper end of boxes along both axes."""
    a, b, c, d = (boxes[..., i] for i in range(4))
    if not is_center:  # two opposite ends, in any order
        return [f(*pair) for pair in ((a, c), (b, d)) for f in (jnp.minimum, jnp.maximum)]
    half_width, half_height = (ieee.multiply(size, jnp.full_like(size, 0.5)) for size in (c, d))
    return [
        ieee.subtract(a, half_width),
        ieee.add(a, half_width),
        ieee.subtract(b, half_height),
        ieee.add(b, half_height),
    ]


def _overlaps(ends: Sequence[Array], chosen: Sequence[Array], threshold: Array | float) -> Array:
    """True for boxes whose intersection over union with a chosen box exceeds a threshold."""
    sides, areas = [], []
    for box in (ends, chosen):
        areas.append(ieee.multiply(ieee.subtract(box[1], box[0]), ieee.subtract(box[3], box[2])))
    for low, high in ((0, 1), (2, 3)):
        start = jnp.maximum(ends[low], chosen[low])
        end = jnp.minimum(ends[high], chosen[high])
        sides.append(jnp.maximum(ieee.subtract(end, start), 0))
    shared = ieee.multiply(*sides)
    union = ieee.subtract(ieee.add(areas[0], areas[1]), shared)
    is_proper = (areas[0] > 0) & (areas[1] > 0) & (shared > 0) & (union > 0)
    overlap: Array = ieee.divide(shared, jnp.where(is_proper, union, 1))
    return is_proper & (overlap > threshold)


@operator("NonMaxSuppression", 10, 11)
def suppress_boxes(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Known | None = None,
    iou_threshold: Parameter | None = None,
    score_threshold: Parameter | None = None,
    *,
    center_point_box: int = 0,
    nonzero_size: int | None,
) -> Counted:
    """Rows of batch, class and box: boxes that no higher score of their class overlaps."""
    size = expect_size(nonzero_size)
    if 0 in scores.shape:
        return Counted(jnp.full((size, 3), OUTSIDE, device_dtype(np.int64)), jnp.int32(0))
    per_class = 0 if max_output_boxes_per_class is None else integers(max_output_boxes_per_class)[0]
    limit = np.int32(min(max(per_class, 0), OUTSIDE))
    steps = min(max(limit, 1), size)
    threshold = 0.0 if iou_threshold is None else to_device(iou_threshold).reshape(())
    alive = jnp.ones(scores.shape, bool)
    if score_threshold is not None:
        alive = scores > to_device(score_threshold).reshape(())
    ends = [end[:, None, :] for end in _ends(boxes, center_point_box)]
    numbers = jnp.arange(scores.shape[2], dtype=np.int32)
    spread = [jnp.broadcast_to(end, scores.shape) for end in ends]

    def choose(state: _Choice) -> _Choice:
        step, alive, rows, counts = state
        is_any = alive.any(-1)
        place = jnp.argmax(jnp.where(alive, scores, -jnp.inf), -1).astype(np.int32)
        # Every score that is left can be -inf; the first box that is left is then the best one.
        first = jnp.argmax(alive, -1).astype(np.int32)
        is_left = jnp.take_along_axis(alive, place[..., None], -1)[..., 0]
        place = jnp.where(is_left, place, first)
        chosen = [jnp.take_along_axis(end, place[..., None], -1) for end in spread]
        suppressed = _overlaps(ends, chosen, threshold) | (numbers == place[..., None])
        rows = rows.at[..., step].set(place, mode="drop")
        return step + 1, alive & ~suppressed, rows, counts + is_any.astype(np.int32)

    shape = scores.shape[:2]
    start = (jnp.int32(0), alive, jnp.zeros((*shape, steps), np.int32), jnp.zeros(shape, np.int32))

    def is_going(state: _Choice) -> Array:
        return (state[0] < limit) & state[1].any()

    _, _, rows, counts = lax.while_loop(is_going, choose, start)
    valid = jnp.arange(steps) < counts[..., None]
    batch, label, step = jnp.nonzero(valid, size=size, fill_value=OUTSIDE)
    box = rows.at[batch, label, step].get(mode="fill", fill_value=OUTSIDE)
    triples = jnp.stack([batch, label, box], -1).astype(device_dtype(np.int64))
    return Counted(triples, counts.sum())
