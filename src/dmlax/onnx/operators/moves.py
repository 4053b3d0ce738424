"""Operators that move elements of any dtype."""

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core.windows import replace_axes
from dmlax.errors import UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.table import INTEGERS, Known, Parameter, Tensor, operator
from dmlax.onnx.operators.values import (
    FloatSizes,
    device_dtype,
    expect_at_least,
    expect_broadcast,
    expect_equal_sizes,
    expect_memory,
    integers,
    is_known,
    is_size,
    sizes_array,
    sizes_of,
    to_device,
)

_FAR = 1 << 30
_ENDLESS = 10**9  # more elements than an axis of a symbolic size has
_BEFORE_START = (2**31 - 1, 2**63 - 1)  # ends that ONNX Runtime takes so if it steps back
_MOST_TURNS = 16  # an axis is padded by its elements at most this often


@operator("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25)
def copy(x: Tensor) -> Tensor:
    """Returns the input."""
    return x


@operator("Dropout", 7, 10)
@operator("Dropout", 1, 6, ignores=["consumed_inputs"])
def drop_none(
    x: Tensor, *, ratio: float = 0.5, is_test: int = 0, version: int
) -> tuple[Tensor, Array]:
    """Returns the input, and a mask of zeros, as ONNX Runtime does."""
    if version < 7 and not is_test:
        raise UnsupportedError("is_test is 0, expected 1: training draws random numbers")
    return x, jnp.zeros(x.shape, bool if version == 10 else x.dtype)


@operator("Dropout", 12, 13, 22, ignores=["seed"])
def drop_nothing(
    x: Tensor, ratio: Parameter | None = None, mode: Parameter | None = None
) -> tuple[Tensor, Array]:
    """Returns the input, as in inference, and a mask that keeps every element."""
    if not (_is_false(mode) or (ratio is not None and _is_false(ratio))):
        text = "true" if is_known(mode) else "computed"
        raise UnsupportedError(f"training_mode is {text}, expected a constant false or the ratio 0")
    return x, jnp.ones(x.shape, bool)


def _is_false(option: Tensor | None) -> bool:
    """True for an absent option, or a known one of zeros."""
    return option is None or (is_known(option) and not option.any())


@operator("Reshape", 5, 13, 14, 19, 21, 23, 24, 25)
def reshape(x: Tensor, shape: Known, *, allowzero: int = 0) -> Tensor:
    """Reshapes; 0 keeps the input's size, and -1 takes the remaining elements."""
    sizes = sizes_of(shape)
    if not allowzero:
        sizes = [x.shape[axis] if _is_number(size, 0) else size for axis, size in enumerate(sizes)]
    return x.reshape(tuple(_fill_in(x.shape, sizes)))


def _fill_in(shape: Sequence[int], wanted: list[int]) -> list[int]:
    """The sizes of a new shape, in which -1 becomes the remaining elements."""
    if not any(_is_number(size, -1) for size in wanted):
        return wanted
    others, sizes = list(shape), []  # without those that both shapes have
    for size in wanted:
        if size in others and not _is_number(size, 0):
            others.remove(size)
        elif not _is_number(size, -1):
            sizes.append(size)
    rest, total = math.prod(sizes), math.prod(others)
    left = 0 if _is_number(rest, 0) else total // rest
    return [left if _is_number(size, -1) else size for size in wanted]


def _is_number(size: int, number: int) -> bool:
    """True for a size that is not symbolic and has a value."""
    return isinstance(size, int) and size == number


@operator("Flatten", 1, 9, 11, 13, 21, 23, 24, 25)
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """Reshapes to a matrix."""
    axis = axis + len(x.shape) if axis < 0 else axis
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Transpose", 1, 13, 21, 23, 24, 25)
def transpose(x: Tensor, *, perm: tuple[int, ...] | None = None) -> Tensor:
    """Permutes axes."""
    return x.transpose(perm)


@operator("Squeeze", 13, 21, 23, 24, 25)
@operator("Squeeze", 1, 11, attributes={"axes": INTEGERS})
def squeeze(x: Tensor, axes: Known | None = None) -> Tensor:
    """Drops axes of size 1, without `axes` all of them."""
    if axes is None:
        for size in x.shape:
            if not is_size(size):
                expect_at_least(size, 2)
        return x.squeeze(tuple(i for i, size in enumerate(x.shape) if is_size(size) and size == 1))
    for axis in integers(axes):
        if -x.ndim <= axis < x.ndim:
            expect_equal_sizes(x.shape[axis], 1)
    return x.squeeze(tuple(integers(axes)))


@operator("Unsqueeze", 13, 21, 23, 24, 25)
@operator("Unsqueeze", 1, 11, attributes={"axes": INTEGERS})
def unsqueeze(x: Tensor, axes: Known) -> Tensor:
    """Adds axes of size 1."""
    places = tuple(sizes_of(axes))
    return jnp.expand_dims(to_device(x), places)


@operator("ReverseSequence", 10, 28)
def reverse_sequence(
    x: Array, lengths: Parameter, *, batch_axis: int = 1, time_axis: int = 0
) -> Array:
    """Reverses sequences up to their lengths."""
    if {batch_axis, time_axis} != {0, 1} or len(x.shape) < 2:
        text = f"batch_axis is {batch_axis} and time_axis {time_axis} for rank {len(x.shape)}"
        raise ModelError(f"{text}, expected 0 and 1 for rank 2 or more")
    lengths = to_device(lengths)
    if lengths.shape != (x.shape[batch_axis],):
        text = f"sequence_lens has the shape {list(lengths.shape)}"
        raise ModelError(f"{text}, expected {[x.shape[batch_axis]]}")
    values = jnp.moveaxis(x, time_axis, 0)  # [time, batch, ...]
    time = jnp.arange(values.shape[0])[:, None]
    index = jnp.where(time < lengths, lengths - 1 - time, time)
    index = index.reshape(index.shape + (1,) * (values.ndim - 2))
    return jnp.moveaxis(jnp.take_along_axis(values, index, axis=0), 0, time_axis)


@operator("Concat", 4, 11, 13)
def concatenate(*inputs: Tensor, axis: int) -> Tensor:
    """Concatenates along an axis."""
    for x in inputs[1:]:
        for place, size in enumerate(x.shape):
            if place != axis % len(x.shape):
                expect_equal_sizes(size, inputs[0].shape[place])
    return jnp.concatenate([to_device(x) for x in inputs], axis=axis)


@operator("Split", 13, 18)
@operator("Split", 2, 11, attributes={"split": INTEGERS, "num_outputs": None})
def split(
    x: Tensor,
    split: Known | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    output_count: int,
) -> tuple[Tensor, ...]:
    """Splits along an axis; without lengths, evenly, with a shorter last part."""
    if num_outputs not in (None, output_count) and split is None:
        text = f"it has {output_count} outputs, expected num_outputs, which is {num_outputs}"
        raise ModelError(text)
    size, others = x.shape[axis], output_count - 1
    length = -(-size // output_count)
    lengths = [*(length,) * others, size - length * others] if split is None else integers(split)
    if len(lengths) != output_count:
        raise ModelError(f"it has {output_count} outputs, expected {len(lengths)}, one per length")
    starts = itertools.accumulate(lengths[:-1], initial=0)
    return tuple(
        x[(slice(None),) * (axis % len(x.shape)) + (slice(start, start + length),)]
        for start, length in zip(starts, lengths, strict=True)
    )


@operator("Slice", 10, 11, 13)
@operator("Slice", 1, attributes=dict.fromkeys(("starts", "ends", "axes"), INTEGERS))
def slice_(
    x: Tensor, starts: Known, ends: Known, axes: Known | None = None, steps: Known | None = None
) -> Tensor:
    """Takes a range of some axes, with a step."""
    rank, count = len(x.shape), starts.size
    places = [*range(count)] if axes is None else integers(axes)
    strides = [1] * count if steps is None or not steps.size else integers(steps)
    ranges = (integers(starts), integers(ends), places, strides)
    lengths = [*map(len, ranges)]
    if {*lengths} != {count}:
        text = f"the lengths {', '.join(map(str, lengths))}"
        raise ModelError(f"its starts, ends, axes and steps have {text}")
    index = [slice(None)] * rank
    for start, end, axis, step in zip(*ranges, strict=True):
        if not -rank <= axis < rank or _is_number(step, 0):
            text = f"it slices axis {axis} by {step}, expected an axis of an input of rank {rank}"
            raise ModelError(f"{text} and a step that is not 0")
        if step == 1 and not all(map(is_size, (start, end))):
            x = _slice_between(x, start, end, axis)
        else:
            index[axis] = _range(start, end, step, x.shape[axis])
    return x[tuple(index)]


def _slice_between(x: Tensor, start: int, end: int, axis: int) -> Array:
    """Takes a range whose start or end is symbolic; it assumes that both lie inside the axis."""
    size = x.shape[axis]
    first, last = _place(start, size), _place(end, size)
    count = jax.core.max_dim(last - first, 0)
    return lax.dynamic_slice_in_dim(to_device(x), first, count, axis)


def _place(index: int, size: int) -> int:
    """The place of an index between 0 and a size."""
    if is_size(index) and abs(index) >= _FAR:
        return size if index > 0 else 0
    if not index >= 0:
        return jax.core.max_dim(size + index, 0)
    if is_size(index):
        return jax.core.min_dim(index, size)
    return index if index <= size else size


def _range(start: int | None, end: int | None, step: int, size: int) -> slice:
    """Converts ONNX's range to Python's: an end below every index becomes None."""
    if isinstance(step, int):  # XLA multiplies by a longer step
        longest = max(size, 1) if isinstance(size, int) else _FAR
        step = min(max(step, -longest), longest)
    if step < 0 and isinstance(end, int) and end in _BEFORE_START:
        end = None
    if step < 0 and isinstance(size, int):
        if isinstance(end, int) and end < -size:
            end = None
        if isinstance(start, int) and start < -size and size:
            start = 0
    if isinstance(start, int) and abs(start) >= _FAR:
        low, high = (0, None) if step < 0 else (None, size)
        start = high if start > 0 else low
    if isinstance(end, int) and (abs(end) >= _FAR or (end >= _ENDLESS and not is_size(size))):
        low, high = (None, size) if step < 0 else (0, None)
        end = high if end > 0 else low
    return slice(start, end, step)


@operator("Gather", 1, 11, 13)
def gather(x: Tensor, indices: Parameter, *, axis: int = 0) -> Tensor:
    """Takes elements along an axis; an index outside of it gives 0."""
    if is_known(indices) and indices.ndim == 0 and isinstance(indices.item(), int):
        return x[(slice(None),) * (axis % len(x.shape)) + (int(indices),)]
    return jnp.take(to_device(x), to_device(indices), axis=axis, mode="fill", fill_value=0)


@operator("Expand", 8, 13)
def expand(x: Tensor, shape: Known) -> Tensor:
    """Broadcasts the input and a shape to each other."""
    wanted, sizes = sizes_of(shape), list(x.shape)
    rank = max(len(wanted), len(sizes))
    wanted, sizes = ([1] * (rank - len(x)) + x for x in (wanted, sizes))
    pairs = zip(sizes, wanted, strict=True)
    sizes = [size if _is_number(new, 1) else new for size, new in pairs]
    expect_broadcast(x.shape, sizes)
    return jnp.broadcast_to(to_device(x), sizes)


@operator("Tile", 6, 13)
def tile(x: Tensor, repeats: Known) -> Tensor:
    """Repeats the tensor along every axis."""
    return jnp.tile(to_device(x), tuple(sizes_of(repeats)))


@operator("Pad", 11, 13, 18, 19, 21, 23, 24, 25)
@operator("Pad", 2, attributes={"pads": INTEGERS, "value": float})
def pad(
    x: Tensor,
    pads: Known,
    value: Parameter | None = None,
    axes: Known | None = None,
    *,
    mode: Annotated[str, ("constant", "edge", "reflect", "wrap")] = "constant",
) -> Tensor:
    """Pads axes at their start and end; a negative count takes elements away."""
    widths = _pad_widths(integers(pads), axes, len(x.shape))
    fill = None if value is None else value.reshape(())
    x = to_device(x)
    if mode == "constant":
        fill = jnp.zeros((), x.dtype) if fill is None else to_device(fill).astype(x.dtype)
        return lax.pad(x, fill, [(a, b, 0) for a, b in widths])
    if not all(isinstance(width, int) for pair in widths for width in pair):
        text = f"mode {mode!r} pads by {widths}"
        raise UnsupportedError(f"{text}: give input_shapes static sizes")
    x = x[tuple(slice(max(-a, 0), b if b < 0 else None) for a, b in widths)]
    grown = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode in ("reflect", "wrap"):
        _expect_few_turns(x.shape, grown, mode)
    return jnp.pad(x, grown, mode=mode)


def _expect_few_turns(shape: Sequence[int], grown: list[tuple[int, int]], mode: str) -> None:
    """Refuses a padding that repeats an axis many times: every repetition is another copy."""
    for axis, (size, widths) in enumerate(zip(shape, grown, strict=True)):
        if not is_size(size) and max(widths):
            expect_at_least(size, max(widths) + 1)
        if isinstance(size, int) and max(widths) > _MOST_TURNS * size:
            text = f"mode {mode!r} pads axis {axis} of size {size} by {max(widths)}"
            raise UnsupportedError(f"{text}, expected at most {_MOST_TURNS * size}: take Tile")


def _pad_widths(sizes: list[int], axes: Known | None, rank: int) -> tuple[tuple[int, int], ...]:
    """The counts at the start and the end of every axis."""
    half = len(sizes) // 2
    places = range(rank) if axes is None else [axis % rank for axis in integers(axes)]
    if len(sizes) != 2 * len(places):
        text = f"its pads have the length {len(sizes)}, expected {2 * len(places)}"
        raise ModelError(f"{text}, two for each axis")
    pairs = zip(sizes[:half], sizes[half:], strict=True)
    return replace_axes(((0, 0),) * rank, places, pairs)


@operator("Shape", 15, 19, 21, 23, 24, 25)
@operator("Shape", 1, 13, attributes={"start": None, "end": None})
def shape_of(x: Tensor, *, start: int = 0, end: int | None = None) -> np.ndarray:
    """The sizes of some axes, known while a program is traced."""
    return sizes_array(x.shape[start:end])


@operator("Size", 1, 13, 19, 21, 23, 24, 25)
def size_of(x: Tensor) -> np.ndarray:
    """The number of elements."""
    return sizes_array([math.prod(x.shape)]).reshape(())


@operator("ConstantOfShape", 9, 20, 21, 23, 24, 25)
def constant_of_shape(shape: Known, *, value: np.ndarray | None = None) -> Tensor:
    """A tensor of one value."""
    fill = np.zeros(1, np.float32) if value is None else value
    sizes = tuple(sizes_of(shape))
    if all(isinstance(size, int) for size in sizes) and math.prod(sizes) <= 1 << 16:
        expect_memory(fill.dtype, *sizes)
        return np.full(sizes, fill.reshape(())[()])
    return jnp.full(sizes, fill.reshape(())[()], device_dtype(fill.dtype))


@operator("Range", 11, 27)
def range_(start: Known, limit: Known, delta: Known) -> Tensor:
    """Numbers from a start to a limit."""
    operands = start, limit, delta
    numbers: list[Any] = [operand.reshape(())[()] for operand in operands]
    if any(operand.dtype == object for operand in operands):
        is_float = any(isinstance(operand, FloatSizes) for operand in operands)
        counted = _range_of_sizes(*numbers)
        return counted.astype(np.float32) if is_float else counted
    first, end, step = (number.item() for number in numbers)
    expect_memory(start.dtype, math.ceil((end - first) / step))
    return np.asarray(np.arange(*numbers).astype(start.dtype))


def _range_of_sizes(*operands: int | np.number) -> Array:
    """Whole numbers up to a symbolic size."""
    if any(x != int(x) for x in operands if isinstance(x, np.generic)):
        raise UnsupportedError("its start, limit or delta is not whole, and another is symbolic")
    start, limit, delta = (int(x) if isinstance(x, np.generic) else x for x in operands)
    count = jax.core.max_dim(-((start - limit) // delta), 0)
    return start + jnp.arange(count) * delta


@operator("DepthToSpace", 1, 11, 13, 28)
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Moves channels into space."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        split = x.reshape((n, b, b, c // (b * b), h, w)).transpose((0, 3, 4, 1, 5, 2))
    else:
        split = x.reshape((n, c // (b * b), b, b, h, w)).transpose((0, 1, 4, 2, 5, 3))
    return split.reshape((n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth", 1, 13, 28)
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Moves space into channels."""
    n, c, h, w = x.shape
    b = blocksize
    split = x.reshape((n, c, h // b, b, w // b, b))
    split = split.transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return split.reshape((n, c * b * b, h // b, w // b))
