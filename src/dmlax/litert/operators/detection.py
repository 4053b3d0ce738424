"""The boxes of an SSD detector: a custom operator that LiteRT has."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import float_functions, ieee
from dmlax._core.float_pairs import (
    Pair,
    product_of,
    product_of_pairs,
    quotient_of,
    scale,
    sum_of,
)
from dmlax.litert.operators.elementwise import dequantize_by
from dmlax.litert.operators.table import Call, expect_rank, operator
from dmlax.onnx.errors import ModelError

_ZERO = np.float32(0)
_MOST_ROWS = 1 << 20  # of the outputs


@operator("TFLite_Detection_PostProcess")
def detections(
    call: Call, encodings: Array, predictions: Array, anchors: Array
) -> tuple[Array, ...]:
    """Boxes that overlap little, their classes and scores, and their count; other rows are 0.

    Equal scores come in the order of classes and boxes; where several classes of a box count, those
    of the box are in the order of a heap.
    """
    count, classes = anchors.shape[0] if anchors.ndim else 0, call.num_classes
    expect_rank(encodings, 3)
    expect_rank(predictions, 3)
    shapes = encodings.shape[:2], predictions.shape[:2], anchors.shape[1:]
    if shapes != ((1, count), (1, count), (4,)) or not encodings.shape[-1] >= 4:
        given = [list(x.shape) for x in (encodings, predictions, anchors)]
        raise ModelError(f"it has {given}, expected [1, N, 4], [1, N, K] and [N, 4] of one image")
    background = predictions.shape[-1] - classes
    most, each = call.max_detections, call.max_classes_per_detection
    counts = count, classes, most, each, call.detections_per_class
    if most * each > _MOST_ROWS:
        raise ModelError(f"it has {most} detections of {each} classes, at most {_MOST_ROWS} rows")
    if min(counts) < 1 or background not in (0, 1):
        raise ModelError(
            f"a count of its options is not positive, or no {classes} classes are there"
        )
    if not all(getattr(call, f"{name}_scale") > 0 for name in "yxhw"):
        raise ModelError("a scale of its options is not positive")
    x, scores, anchors = (
        dequantize_by(call.info(i), y)
        for i, y in enumerate((encodings[0], predictions[0, :, background:], anchors))
    )
    boxes = _decode(call, x, anchors)
    select = functools.partial(_select, call, boxes)
    if call.use_regular_nms:
        by_class = functools.partial(select, min(call.detections_per_class, most, count))
        rows, is_found = jax.vmap(by_class)(scores.T)
        names = jnp.broadcast_to(jnp.arange(classes)[:, None], rows.shape)
        values = jnp.where(is_found, scores.T[names, rows], -jnp.inf).ravel()
        best = jnp.argsort(values, descending=True)[:most]
        rows, names, is_found = (z.ravel()[best] for z in (rows, names, is_found))
        sizes = most * each, 1
    else:
        rows, is_found = select(min(most, count), scores.max(1))
        best_of_box = functools.partial(_by_heap, count=min(each, classes))
        names = jax.vmap(best_of_box)(scores[rows])
        sizes = most, each
    columns = names.reshape(rows.size, -1)

    def fill(y: Array) -> Array:
        """The rows that are found, then zeros."""
        y = jnp.where(is_found.reshape(-1, *[1] * (y.ndim - 1)), y, 0)
        missing = [(0, sizes[0] - y.shape[0]), (0, sizes[1] - y.shape[1])]
        y = jnp.pad(y, [*missing, *[(0, 0)] * (y.ndim - 2)])
        return y.reshape(1, -1, *y.shape[2:]).astype(jnp.float32)

    of_columns = jnp.broadcast_to(boxes[rows][:, None], (*columns.shape, 4))
    found = is_found.sum(dtype=jnp.int32).astype(jnp.float32)[None]
    return fill(of_columns), fill(columns), fill(scores[rows[:, None], columns]), found


def _by_heap(scores: Array, count: int) -> Array:
    """The places of the best scores; equal ones in the order of libstdc++'s `std::partial_sort`."""
    if count == 1:
        return jnp.argmax(scores, keepdims=True)

    def settle(heap: Array, length: Any, top: Any, item: Any) -> Array:
        """Puts an item into a heap, whose least score is first: down from the top, then up."""

        def descend(state: tuple[Array, Array]) -> tuple[Array, Array]:
            heap, hole = state
            left, right = 2 * hole + 1, 2 * hole + 2
            is_left = (right >= length) | (scores[heap[right]] > scores[heap[left]])
            child = jnp.where(is_left, left, right)
            return heap.at[hole].set(heap[child]), child

        def ascend(state: tuple[Array, Array]) -> tuple[Array, Array]:
            heap, hole = state
            return heap.at[hole].set(heap[(hole - 1) // 2]), (hole - 1) // 2

        def is_less(state: tuple[Array, Array]) -> Array:
            heap, hole = state
            return jnp.logical_and(hole > top, scores[heap[(hole - 1) // 2]] > scores[item])

        state = lax.while_loop(lambda x: 2 * x[1] + 1 < length, descend, (heap, jnp.int32(top)))
        heap, hole = lax.while_loop(is_less, ascend, state)
        return heap.at[hole].set(item)

    def sift(i: Array, heap: Array) -> Array:
        top = count // 2 - 1 - i
        return settle(heap, count, top, heap[top])

    def replace(i: Array, heap: Array) -> Array:
        is_better = scores[i] > scores[heap[0]]
        return jnp.where(is_better, settle(heap, count, 0, i), heap)

    def pop(i: Array, heap: Array) -> Array:
        last = count - 1 - i
        return settle(heap.at[last].set(heap[0]), last, 0, heap[last])

    heap: Array = jnp.arange(count, dtype=jnp.int32)
    heap = lax.fori_loop(0, count // 2, sift, heap)
    heap = lax.fori_loop(count, scores.size, replace, heap)
    heap = lax.fori_loop(0, count - 1, pop, heap)
    return heap


def _decode(call: Call, x: Array, anchors: Array) -> Array:
    """The low and high corners of boxes (N, 4), which LiteRT computes in float64."""
    centers, halves = [], []
    for axis, name in enumerate("yx"):
        middle, size = anchors[:, axis], anchors[:, axis + 2]
        ratio = _quotient(x[:, axis], getattr(call, f"{name}_scale"))
        high, low = product_of_pairs(ratio, Pair(size, _ZERO))
        centers.append(sum_of(high, middle).plus(low).rounded())
        ratio = _quotient(x[:, axis + 2], getattr(call, f"{'hw'[axis]}_scale"))
        value, exponent = float_functions.exponential(ratio)
        high, low = product_of(value.high, size).plus(ieee.multiply(value.low, size))
        halves.append(scale(ieee.add(high, low), exponent - 1))
    corners = [
        function(*pair)
        for function in (ieee.subtract, ieee.add)
        for pair in zip(centers, halves, strict=True)
    ]
    return jnp.stack(corners, 1)


def _quotient(x: Array, divisor: float) -> Pair:
    return quotient_of(Pair(x, _ZERO), Pair(jnp.full_like(x, divisor), _ZERO))


def _select(call: Call, boxes: Array, most: int, scores: Array) -> tuple[Array, Array]:
    """The rows of the best boxes, one after the other, and whether there was one left."""

    def step(is_left: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        row = jnp.argmax(jnp.where(is_left, scores, -jnp.inf))
        overlap = _overlap(boxes[row], boxes) > np.float32(call.nms_iou_threshold)
        others = is_left & ~overlap & (jnp.arange(scores.size) != row)
        return others, (row, is_left[row])

    is_left = scores >= np.float32(call.nms_score_threshold)
    _, found = lax.scan(step, is_left, None, most)
    return found


def _overlap(box: Array, boxes: Array) -> Array:
    """The common area of boxes over that of either, 0 for empty ones."""

    def area(low: Array, high: Array) -> Array:
        height, width = jnp.moveaxis(jnp.maximum(ieee.subtract(high, low), 0), -1, 0)
        return ieee.multiply(height, width)

    low, high = jnp.maximum(box[:2], boxes[:, :2]), jnp.minimum(box[2:], boxes[:, 2:])
    one, each, common = area(box[:2], box[2:]), area(boxes[:, :2], boxes[:, 2:]), area(low, high)
    either = ieee.subtract(ieee.add(jnp.broadcast_to(one, each.shape), each), common)
    return jnp.where((one > 0) & (each > 0), ieee.divide(common, either), 0)
