"""Operators that move elements, or that describe shapes."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax.errors import UnsupportedError
from dmlax.litert.operators.table import Call, Info, Known, Tensor, expect_rank, operator
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.values import expect_memory


def zero_of(info: Info) -> int:
    """The integer, or the float, that stands for 0."""
    return info.zero_point if info.is_quantized else 0


def _expect_same(call: Call, *places: int) -> None:
    """Refuses operands of other scales than the output, which LiteRT does not move."""
    for place in places:
        source = call.info(place)
        if source.is_quantized and not source.has_parameters_of(call.output):
            raise UnsupportedError(f"its operand {place + 1} has another scale than its output")


@operator("IDENTITY")
def identity(call: Call, x: Tensor) -> Tensor:
    """The tensor itself, under another name."""
    return x


@operator("RESHAPE")
def reshape(call: Call, x: Tensor, shape: Known | None = None) -> Tensor:
    """Gives the elements another shape; one size may be -1."""
    sizes = [int(size) for size in (call.new_shape if shape is None else shape.ravel())]
    known = math.prod(size for size in sizes if size != -1)
    count = math.prod(x.shape)
    if sizes.count(-1) > 1 or (-1 not in sizes and known != count) or min(sizes, default=0) < -1:
        raise ModelError(f"its shape is {sizes} for an input {list(x.shape)}")
    if -1 in sizes and (known == 0 or count % known):
        raise ModelError(f"its shape is {sizes} for an input {list(x.shape)}")
    return x.reshape(sizes)


@operator("SQUEEZE")
def squeeze(call: Call, x: Tensor) -> Tensor:
    """Drops axes of size 1: those that are listed, or all."""
    axes = tuple(call.squeeze_dims) or tuple(i for i, n in enumerate(x.shape) if n == 1)
    return x.squeeze(axes)


@operator("EXPAND_DIMS")
def expand_dims(call: Call, x: Tensor, axis: Known) -> Tensor:
    """Inserts an axis of size 1."""
    place = int(axis.ravel()[0])
    place = place + x.ndim + 1 if place < 0 else place
    if not 0 <= place <= x.ndim:
        raise ModelError(f"its axis is {axis}, its input has rank {x.ndim}")
    return x.reshape((*x.shape[:place], 1, *x.shape[place:]))


@operator("SHAPE")
def shape_of(call: Call, x: Tensor) -> np.ndarray:
    """The sizes."""
    return np.array(x.shape, call.output.dtype)


@operator("RANK")
def rank_of(call: Call, x: Tensor) -> np.ndarray:
    """The number of axes."""
    return np.array(x.ndim, np.int32)


@operator("TRANSPOSE")
def transpose(call: Call, x: Tensor, axes: Known) -> Tensor:
    """Permutes the axes."""
    return x.transpose([int(axis) for axis in axes])


@operator("CONCATENATION")
def concatenate(call: Call, *tensors: Tensor) -> Tensor:
    """Joins tensors along an axis."""
    _expect_same(call, *range(len(tensors)))
    if call.fused:
        text = "LiteRT's kernels refuse it, and XNNPACK leaves it out"
        raise UnsupportedError(f"it has a fused {call.fused}: {text}")
    return _library(tensors).concatenate(tensors, call.axis)  # type: ignore[no-any-return]


@operator("PACK")
def pack(call: Call, *tensors: Tensor) -> Tensor:
    """Stacks tensors along a new axis."""
    _expect_same(call, *range(len(tensors)))
    return _library(tensors).stack(tensors, call.axis)  # type: ignore[no-any-return]


def _library(tensors: Sequence[Tensor]) -> Any:
    """NumPy for known tensors, else JAX."""
    return np if all(isinstance(x, np.ndarray) for x in tensors) else jnp


@operator("UNPACK")
def unpack(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    if not -x.ndim <= call.axis < x.ndim or x.shape[call.axis] != call.output_count:
        raise ModelError(f"it has {call.output_count} outputs for {list(x.shape)}[{call.axis}]")
    index = (slice(None),) * (call.axis % x.ndim)
    return tuple(x[(*index, i)] for i in range(call.output_count))


@operator("SPLIT")
def split(call: Call, axis: Known, x: Tensor) -> tuple[Tensor, ...]:
    """Equal parts along an axis."""
    place = int(axis.ravel()[0])
    if not -x.ndim <= place < x.ndim or x.shape[place] % call.output_count:
        raise ModelError(f"it splits {list(x.shape)}[{place}] into {call.output_count} parts")
    size = x.shape[place] // call.output_count
    return _parts(x, place % x.ndim, [size] * call.output_count)


@operator("SPLIT_V")
def split_by_sizes(call: Call, x: Tensor, sizes: Known, axis: Known) -> tuple[Tensor, ...]:
    """Parts of given sizes along an axis; one may be -1, for the rest."""
    place, counts = int(axis.ravel()[0]), [int(size) for size in sizes.ravel()]
    whole = x.shape[place] if -x.ndim <= place < x.ndim else -1
    counts = [size if size != -1 else whole - sum(counts) - 1 for size in counts]
    is_whole = sum(counts) == whole and min(counts, default=-1) >= 0
    if not is_whole or len(counts) != call.output_count:
        raise ModelError(f"its sizes are {list(sizes.ravel())} for {list(x.shape)}[{place}]")
    return _parts(x, place % x.ndim, counts)


def _parts(x: Tensor, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    ends = np.cumsum(sizes).tolist()
    index = (slice(None),) * axis
    pairs = zip(ends, sizes, strict=True)
    return tuple(x[(*index, slice(end - size, end))] for end, size in pairs)


@operator("SLICE")
def slice_(call: Call, x: Tensor, begin: Known, size: Known) -> Tensor:
    """A part of given sizes; -1 is the rest."""
    index = []
    for start, count, n in zip(begin.tolist(), size.tolist(), x.shape, strict=True):
        end = n if count == -1 else start + count
        if not 0 <= start <= end <= n:
            raise ModelError(f"it begins at {begin.tolist()} with {size.tolist()}")
        index.append(slice(start, end))
    return x[tuple(index)]


@operator("STRIDED_SLICE")
def strided_slice(call: Call, x: Tensor, begin: Known, end: Known, strides: Known) -> Tensor:
    """A slice as NumPy has it, with masks of bits for axes."""
    if call.offset:
        end = begin + end
    index: list[slice | int | None] = []
    axis, count, step_sizes = 0, len(begin), strides.tolist()
    for i in range(count):
        if call.ellipsis_mask >> i & 1:
            added = sum(call.new_axis_mask >> j & 1 for j in range(i + 1, count))
            skipped = x.ndim - axis - (count - i - 1 - added)
            index += [slice(None)] * skipped
            axis += skipped
        elif call.new_axis_mask >> i & 1:
            index.append(None)
        else:
            start, stop, step = int(begin[i]), int(end[i]), step_sizes[i]
            if step == 0 or axis >= x.ndim:
                raise ModelError(f"its strides are {step_sizes}, its input has rank {x.ndim}")
            if call.shrink_axis_mask >> i & 1:
                start = 0 if call.begin_mask >> i & 1 else start
                if not -x.shape[axis] <= start < x.shape[axis]:
                    raise ModelError(f"it takes the place {start} of {x.shape[axis]}")
                index.append(start)
            else:
                first = None if call.begin_mask >> i & 1 else start
                last = None if call.end_mask >> i & 1 else stop
                index.append(slice(*_bounds(first, last, step, x.shape[axis])))
            axis += 1
    return x[tuple(index)]


def _bounds(
    start: int | None, stop: int | None, step: int, size: int
) -> tuple[int | None, int | None, int]:
    """The bounds of a slice; a negative end below the first element is no place from the back."""
    bounds = []
    for place in (start, stop):
        bounds.append(place if place is None else max(place, -size - 1))
    return bounds[0], bounds[1], step


@operator("PAD", "PADV2")
def pad(name: str, call: Call, x: Array, paddings: Known, value: Array | None = None) -> Array:
    """Adds elements around a tensor: the number 0, or a given one."""
    _expect_same(call, 0)
    fill = jnp.asarray(zero_of(call.output), x.dtype) if value is None else value.reshape(())
    return lax.pad(x, fill, [(*pair, 0) for pair in _pairs(paddings, x)])


def _pairs(paddings: np.ndarray, x: Tensor) -> list[tuple[int, int]]:
    pairs = paddings.reshape(-1, 2).tolist()
    if len(pairs) != x.ndim or min((n for pair in pairs for n in pair), default=0) < 0:
        raise ModelError(f"its paddings are {pairs} for an input {list(x.shape)}")
    return [(int(before), int(after)) for before, after in pairs]


@operator("MIRROR_PAD")
def mirror_pad(call: Call, x: Array, paddings: Known) -> Array:
    """Adds reflected elements around a tensor."""
    return jnp.pad(x, _pairs(paddings, x), "symmetric" if call.mode else "reflect")


@operator("GATHER")
def gather(call: Call, x: Array, indices: Array) -> Array:
    """The slices at indices along an axis."""
    _expect_same(call, 0)
    axis, batch = call.axis % max(x.ndim, 1), call.batch_dims % (indices.ndim + 1)
    if call.batch_dims < 0:
        batch = call.batch_dims + indices.ndim

    def take(x: Array, indices: Array) -> Array:
        return jnp.take(x, indices, axis - batch, mode="clip")

    for _ in range(batch):
        take = jax.vmap(take)
    return take(x, indices)


@operator("GATHER_ND")
def gather_nd(call: Call, x: Array, indices: Array) -> Array:
    """The slices at tuples of indices."""
    _expect_same(call, 0)
    return x[tuple(jnp.moveaxis(indices, -1, 0))]


@operator("EMBEDDING_LOOKUP")
def embedding_lookup(call: Call, indices: Array, x: Array) -> Array:
    """The rows at indices."""
    _expect_same(call, 1)
    return jnp.take(x, indices, 0, mode="clip")


@operator("REVERSE_V2")
def reverse(call: Call, x: Tensor, axes: Known) -> Tensor:
    """Reverses axes."""
    return jnp.flip(x, [int(axis) for axis in axes.ravel()])


@operator("TILE")
def tile(call: Call, x: Array, counts: Known) -> Array:
    """Repeats a tensor along each axis."""
    return jnp.tile(x, [int(count) for count in counts])


@operator("BROADCAST_TO")
def broadcast_to(call: Call, x: Array, shape: Known) -> Array:
    """Repeats elements along axes of size 1, and along new axes."""
    return jnp.broadcast_to(x, [int(size) for size in shape])


@operator("FILL")
def fill(call: Call, sizes: Known, value: Array) -> Array:
    """A tensor of one value."""
    return jnp.broadcast_to(value.reshape(()), [int(size) for size in sizes])


@operator("RANGE")
def range_(call: Call, start: Known, limit: Known, delta: Known) -> np.ndarray:
    """Numbers in steps."""
    values = [x.ravel()[0] for x in (start, limit, delta)]
    if values[2] == 0:
        raise ModelError("its step is 0")
    first, end, step = (x.item() for x in values)
    if not all(map(math.isfinite, (first, end, step))):
        raise ModelError(f"it goes from {first} to {end} by {step}, expected finite numbers")
    expect_memory(call.output.dtype, max(math.ceil((end - first) / step), 0))
    return np.arange(*values, dtype=call.output.dtype)


@operator("ONE_HOT")
def one_hot(call: Call, indices: Array, depth: Known, on: Array, off: Array) -> Array:
    """Rows in which an index chooses the place of one value among others."""
    axis = call.axis if call.axis >= 0 else indices.ndim
    places = jnp.arange(int(depth.ravel()[0]), dtype=indices.dtype)
    shape = [1] * (indices.ndim + 1)
    shape[axis] = -1
    return jnp.where(jnp.expand_dims(indices, axis) == places.reshape(shape), on, off)


@operator("DEPTH_TO_SPACE")
def depth_to_space(call: Call, x: Array) -> Array:
    """Moves parts of the channels into blocks of pixels."""
    n, h, w, c, size = *_image(x), call.block_size
    if size < 1 or c % (size * size):
        raise ModelError(f"its block size is {size} for {c} channels")
    x = x.reshape(n, h, w, size, size, c // (size * size))
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, h * size, w * size, -1)


@operator("SPACE_TO_DEPTH")
def space_to_depth(call: Call, x: Array) -> Array:
    """Moves blocks of pixels into channels."""
    n, h, w, c, size = *_image(x), call.block_size
    if size < 1 or h % size or w % size:
        raise ModelError(f"its block size is {size} for {h} by {w} pixels")
    x = x.reshape(n, h // size, size, w // size, size, c)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, h // size, w // size, size * size * c)


def _image(x: Array) -> tuple[int, int, int, int]:
    expect_rank(x, 4)
    n, h, w, c = x.shape
    return n, h, w, c


@operator("SPACE_TO_BATCH_ND")
def space_to_batch(call: Call, x: Array, block: Known, paddings: Known) -> Array:
    """Pads the spatial axes, and moves the places inside of blocks into the batch."""
    sizes, count = [int(size) for size in block], len(block)
    pairs = [(0, 0), *paddings.reshape(-1, 2).tolist()]
    pairs += [(0, 0)] * (x.ndim - len(pairs))
    x = lax.pad(x, jnp.asarray(zero_of(call.output), x.dtype), [(*pair, 0) for pair in pairs])
    spatial = [n for axis, b in enumerate(sizes, 1) for n in (x.shape[axis] // b, b)]
    rest = x.shape[count + 1 :]
    y = x.reshape(x.shape[0], *spatial, *rest)
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2)]
    y = y.transpose(*order, *range(2 * count + 1, y.ndim))
    return y.reshape(x.shape[0] * math.prod(sizes), *spatial[::2], *rest)


@operator("BATCH_TO_SPACE_ND")
def batch_to_space(call: Call, x: Array, block: Known, crops: Known) -> Array:
    """Moves parts of the batch into blocks of the spatial axes, and crops them."""
    sizes, count = [int(size) for size in block], len(block)
    batch, rest = x.shape[0] // math.prod(sizes), x.shape[count + 1 :]
    y = x.reshape(*sizes, batch, *x.shape[1:])
    order = [count, *(i for axis in range(count) for i in (count + 1 + axis, axis))]
    y = y.transpose(*order, *range(2 * count + 1, y.ndim))
    spatial = [n * b for n, b in zip(x.shape[1 : count + 1], sizes, strict=True)]
    y = y.reshape(batch, *spatial, *rest)
    pairs = zip(crops.reshape(-1, 2).tolist(), spatial, strict=True)
    return y[(slice(None), *(slice(a, n - b) for (a, b), n in pairs))]
