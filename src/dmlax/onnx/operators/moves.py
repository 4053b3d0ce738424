"""Operators that move elements: of any dtype, without widening, known values on the host."""

import itertools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from dmlax._core.windows import replace_axes
from dmlax.errors import UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.table import Known, Parameter, Tensor, operator
from dmlax.onnx.operators.values import (
    as_known,
    device_dtype,
    expect_room,
    integers,
    is_known,
    numpy_of,
    sizes_array,
    sizes_of,
    to_device,
)

_PAD_MODES = ("constant", "edge", "reflect", "wrap")
_MOST_TURNS = 16  # of an axis that is padded by its own elements


@operator("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25)
def copy(x: Tensor, /) -> Any:
    """Returns the input."""
    return x


@operator("Dropout", 7, 10)
def drop_nothing_by_attribute(x: Tensor, /, *, ratio: float = 0.5) -> Any:
    """Returns the input, as in inference."""
    return x


@operator("Dropout", 12, 13, 22)
def drop_nothing(
    x: Tensor, rate: Parameter | None = None, mode: Known | None = None, /, *, seed: int = 0
) -> Any:
    """Returns the input, as in inference."""
    if mode is not None and mode.any():
        raise UnsupportedError("training_mode is true, expected false")
    return x


@operator("Reshape", 5, 13, 14, 19, 21, 23, 24, 25)
def reshape(x: Tensor, shape: Known, /, *, allowzero: int = 0) -> Any:
    """Reshapes; a size 0 is the input's, and -1 whatever is left."""
    wanted = sizes_of(shape)
    if not allowzero:
        wanted = [
            x.shape[axis] if isinstance(size, int) and size == 0 else size
            for axis, size in enumerate(wanted)
        ]
    return _reshape(x, wanted)


def _reshape(x: Any, wanted: list[Any]) -> Any:
    if any(isinstance(size, int) and size == -1 for size in wanted):
        rest = math.prod(size for size in wanted if not (isinstance(size, int) and size == -1))
        total = math.prod(x.shape)
        left = total // rest if rest is not None and not _is_zero(rest) else 0
        wanted = [left if isinstance(size, int) and size == -1 else size for size in wanted]
    return x.reshape(tuple(wanted))


def _is_zero(size: Any) -> bool:
    return isinstance(size, int) and size == 0


@operator("Flatten", 1, 9, 11, 13, 21, 23, 24, 25)
def flatten(x: Tensor, /, *, axis: int = 1) -> Any:
    """Reshapes to a matrix."""
    axis = axis + len(x.shape) if axis < 0 else axis
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Transpose", 1, 13, 21, 23, 24, 25)
def transpose(x: Tensor, /, *, perm: tuple[int, ...] | None = None) -> Any:
    """Permutes axes."""
    return x.transpose(perm)


@operator("Squeeze", 1, 11)
def squeeze_by_attribute(x: Tensor, /, *, axes: tuple[int, ...] | None = None) -> Any:
    """Drops axes of size 1."""
    return numpy_of(x).squeeze(x, axis=axes)


@operator("Squeeze", 13, 21, 23, 24, 25)
def squeeze(x: Tensor, axes: Known | None = None, /) -> Any:
    """Drops axes of size 1."""
    return squeeze_by_attribute(x, axes=None if axes is None else tuple(integers(axes)))


@operator("Unsqueeze", 1, 11)
def unsqueeze_by_attribute(x: Tensor, /, *, axes: tuple[int, ...]) -> Any:
    """Adds axes of size 1."""
    return numpy_of(x).expand_dims(x, tuple(axes))


@operator("Unsqueeze", 13, 21, 23, 24, 25)
def unsqueeze(x: Tensor, axes: Known, /) -> Any:
    """Adds axes of size 1."""
    return unsqueeze_by_attribute(x, axes=tuple(sizes_of(axes)))


@operator("ReverseSequence", 10, 28)
def reverse_sequence(
    x: Tensor, lengths: Parameter, /, *, batch_axis: int = 1, time_axis: int = 0
) -> Any:
    """Reverses the first elements of each sequence, as many as its length."""
    if {batch_axis, time_axis} != {0, 1} or len(x.shape) < 2:
        text = f"batch_axis is {batch_axis} and time_axis {time_axis} for rank {len(x.shape)}"
        raise ModelError(f"{text}, expected 0 and 1 for rank 2 or more")
    x, lengths = to_device(x), to_device(lengths)
    if lengths.shape != (x.shape[batch_axis],):
        text = f"sequence_lens has the shape {list(lengths.shape)}"
        raise ModelError(f"{text}, expected {[x.shape[batch_axis]]}")
    values = jnp.moveaxis(x, time_axis, 0)  # [time, batch, ...]
    time = jnp.arange(values.shape[0])[:, None]
    index = jnp.where(time < lengths, lengths - 1 - time, time)
    index = index.reshape(index.shape + (1,) * (values.ndim - 2))
    return jnp.moveaxis(jnp.take_along_axis(values, index, axis=0), 0, time_axis)


@operator("Concat", 4, 11, 13)
def concatenate(*inputs: Tensor, axis: int) -> Any:
    """Concatenates along an axis."""
    if all(map(is_known, inputs)):
        expect_room(np.result_type(*inputs), sum(x.size for x in inputs))
        return np.concatenate(inputs, axis=axis)
    return jnp.concatenate([to_device(x) for x in inputs], axis=axis)


@operator("Split", 2, 11)
def split_by_attribute(
    x: Tensor, /, *, axis: int = 0, split: tuple[int, ...] | None = None, output_count: int
) -> Any:
    """Splits along an axis."""
    size = x.shape[axis]
    lengths = split or (size // output_count,) * output_count
    if len(lengths) != output_count:
        raise ModelError(f"it has {output_count} outputs, expected {len(lengths)}, one per length")
    starts = itertools.accumulate(lengths[:-1], initial=0)
    return tuple(
        x[(slice(None),) * (axis % len(x.shape)) + (slice(start, start + length),)]
        for start, length in zip(starts, lengths, strict=True)
    )


@operator("Split", 13, 18)
def split(
    x: Tensor,
    lengths: Known | None = None,
    /,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    output_count: int,
) -> Any:
    """Splits along an axis; without lengths as evenly as it goes."""
    if lengths is not None:
        parts = tuple(integers(lengths))
    else:
        if num_outputs not in (None, output_count):
            text = f"it has {output_count} outputs, expected num_outputs, which is {num_outputs}"
            raise ModelError(text)
        count, size = output_count, x.shape[axis]
        each = -(-size // count)
        parts = (each,) * (count - 1) + (size - each * (count - 1),)
    return split_by_attribute(x, axis=axis, split=parts, output_count=output_count)


@operator("Slice", 1)
def slice_by_attribute(
    x: Tensor,
    /,
    *,
    axes: tuple[int, ...] | None = None,
    ends: tuple[int, ...],
    starts: tuple[int, ...],
) -> Any:
    """Takes a range of some axes."""
    return _slice(x, list(starts), list(ends), axes, None)


@operator("Slice", 10, 11, 13)
def slice_(
    x: Tensor,
    starts: Known,
    ends: Known,
    axes: Known | None = None,
    steps: Known | None = None,
    /,
) -> Any:
    """Takes a range of some axes, with a step."""
    given = [None if each is None else integers(each) for each in (axes, steps)]
    return _slice(x, integers(starts), integers(ends), *given)


def _slice(x: Any, starts: list[Any], ends: list[Any], axes: Any, steps: Any) -> Any:
    rank, count = len(x.shape), len(starts)
    given = [starts, ends, range(count) if axes is None else axes, steps or [1] * count]
    if {len(each) for each in given} != {count}:
        lengths = ", ".join(str(len(each)) for each in given)
        raise ModelError(f"its starts, ends, axes and steps have the lengths {lengths}")
    index: list[Any] = [slice(None)] * rank
    for start, end, axis, step in zip(*given, strict=True):
        if not -rank <= axis < rank or _is_zero(step):
            text = f"it slices axis {axis} by {step}, expected an axis of an input of rank {rank}"
            raise ModelError(f"{text} and a step that is not 0")
        index[axis] = _range(start, end, step, x.shape[axis])
    return x[tuple(index)]


def _range(start: Any, end: Any, step: int, size: Any) -> slice:
    """ONNX's range as Python's: an end below every index becomes None."""
    far = 1 << 30
    if step < 0 and isinstance(size, int):
        if isinstance(end, int) and end < -size:
            end = None
        if isinstance(start, int) and start < -size and size:
            start = 0
    if isinstance(start, int) and abs(start) >= far:
        low, high = (0, None) if step < 0 else (None, size)
        start = high if start > 0 else low
    if isinstance(end, int) and abs(end) >= far:
        low, high = (None, size) if step < 0 else (0, None)
        end = high if end > 0 else low
    return slice(start, end, step)


@operator("Gather", 1, 11, 13)
def gather(x: Tensor, indices: Parameter, /, *, axis: int = 0) -> Any:
    """Takes elements along an axis; an index outside of it gives 0."""
    if is_known(x) and is_known(indices):
        expect_room(x.dtype, x.size // max(x.shape[axis], 1), indices.size)
        return as_known(np.take(x, indices.astype(np.int64), axis=axis), x.dtype)
    if is_known(indices) and indices.ndim == 0:
        return _take_one(x, int(indices), axis)
    return jnp.take(to_device(x), to_device(indices), axis=axis, mode="fill", fill_value=0)


def _take_one(x: Any, index: int, axis: int) -> Any:
    return x[(slice(None),) * (axis % len(x.shape)) + (index,)]


@operator("Expand", 8, 13)
def expand(x: Tensor, shape: Known, /) -> Any:
    """Broadcasts to a shape, and the shape to the input's."""
    wanted, own = sizes_of(shape), list(x.shape)
    rank = max(len(wanted), len(own))
    wanted, own = ([1] * (rank - len(sizes)) + sizes for sizes in (wanted, own))
    sizes = [a if isinstance(b, int) and b == 1 else b for a, b in zip(own, wanted, strict=True)]
    if is_known(x) and all(isinstance(size, int) for size in sizes):
        expect_room(x.dtype, *sizes)
        return np.broadcast_to(x, sizes)
    return jnp.broadcast_to(to_device(x), sizes)


@operator("Tile", 6, 13)
def tile(x: Tensor, repeats: Known, /) -> Any:
    """Repeats the tensor along each axis."""
    counts = tuple(sizes_of(repeats))
    if is_known(x):
        expect_room(x.dtype, x.size, *counts)
    return numpy_of(x).tile(x, counts)


@operator("Pad", 2)
def pad_by_attribute(
    x: Tensor, /, *, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0
) -> Any:
    """Pads axes at their start and end; a negative count takes elements away."""
    return pad(x, np.asarray(pads, np.int64), np.asarray(value, x.dtype), mode=mode)


@operator("Pad", 11, 13, 18, 19, 21, 23, 24, 25)
def pad(
    x: Tensor,
    pads: Known,
    value: Parameter | None = None,
    axes: Known | None = None,
    /,
    *,
    mode: str = "constant",
) -> Any:
    """Pads axes at their start and end; a negative count takes elements away."""
    widths = _pad_widths(integers(pads), axes, len(x.shape))
    if mode not in _PAD_MODES:
        raise UnsupportedError(f"mode is {mode!r}, expected one of {', '.join(_PAD_MODES)}")
    fill = None if value is None else value.reshape(())
    xp = numpy_of(x, value)
    if mode == "constant" and xp is jnp:
        x = to_device(x)
        fill = jnp.zeros((), x.dtype) if fill is None else to_device(fill).astype(x.dtype)
        return lax.pad(x, fill, [(a, b, 0) for a, b in widths])
    if not all(isinstance(width, int) for pair in widths for width in pair):
        text = f"mode {mode!r} pads by {widths}"
        raise UnsupportedError(f"{text}: give input_shapes static sizes")
    x = x[tuple(slice(max(-a, 0), b if b < 0 else None) for a, b in widths)]
    grown = [(max(a, 0), max(b, 0)) for a, b in widths]
    if xp is np:
        expect_room(x.dtype, *(a + size + b for size, (a, b) in zip(x.shape, grown, strict=True)))
    x = x if xp is np else to_device(x)
    if mode in ("reflect", "wrap"):
        _expect_few_turns(x.shape, grown, mode)
    if mode != "constant":
        return xp.pad(x, grown, mode=mode)
    return xp.pad(x, grown, constant_values=0 if fill is None else fill)


def _expect_few_turns(shape: Any, grown: list[tuple[int, int]], mode: str) -> None:
    """Refuses a padding that repeats an axis many times: NumPy and JAX copy it once a time."""
    for axis, (size, widths) in enumerate(zip(shape, grown, strict=True)):
        if isinstance(size, int) and max(widths) > _MOST_TURNS * size:
            text = f"mode {mode!r} pads axis {axis} of size {size} by {max(widths)}"
            raise UnsupportedError(f"{text}, expected at most {_MOST_TURNS * size}: take Tile")


def _pad_widths(sizes: list[Any], axes: Known | None, rank: int) -> tuple[tuple[int, int], ...]:
    """The counts at the start and the end of every axis."""
    half = len(sizes) // 2
    places = range(rank) if axes is None else [axis % rank for axis in integers(axes)]
    if len(sizes) != 2 * len(places):
        text = f"its pads have the length {len(sizes)}, expected {2 * len(places)}"
        raise ModelError(f"{text}, two for each axis")
    pairs = zip(sizes[:half], sizes[half:], strict=True)
    return replace_axes(((0, 0),) * rank, places, pairs)


@operator("Shape", 1, 13)
def shape_of(x: Tensor, /) -> Any:
    """The sizes, known while a program is traced."""
    return sizes_array(x.shape)


@operator("Shape", 15, 19, 21, 23, 24, 25)
def shape_between(x: Tensor, /, *, start: int = 0, end: int | None = None) -> Any:
    """The sizes of some axes."""
    return sizes_array(x.shape[start:end])


@operator("Size", 1, 13, 19, 21, 23, 24, 25)
def size_of(x: Tensor, /) -> Any:
    """The number of elements."""
    return sizes_array([math.prod(x.shape)]).reshape(())


@operator("ConstantOfShape", 9, 20, 21, 23, 24, 25)
def constant_of_shape(shape: Known, /, *, value: np.ndarray | None = None) -> Any:
    """A tensor of one value."""
    fill = np.zeros(1, np.float32) if value is None else value
    sizes = tuple(sizes_of(shape))
    if all(isinstance(size, int) for size in sizes) and math.prod(sizes) <= 1 << 16:
        expect_room(fill.dtype, *sizes)
        return np.full(sizes, fill.reshape(())[()])
    return jnp.full(sizes, fill.reshape(())[()], device_dtype(fill.dtype))


@operator("Range", 11, 27)
def range_(start: Known, limit: Known, delta: Known, /) -> Any:
    """Numbers from a start to a limit."""
    given: list[Any] = [each.reshape(())[()] for each in (start, limit, delta)]
    if any(each.dtype == object for each in (start, limit, delta)):
        return given[0] + jnp.arange(given[1] - given[0]) * given[2]
    first, end, step = (each.item() for each in given)
    expect_room(start.dtype, math.ceil((end - first) / step))
    return np.arange(*given).astype(start.dtype)


@operator("DepthToSpace", 1, 11, 13, 28)
def depth_to_space(x: Tensor, /, *, blocksize: int, mode: str = "DCR") -> Any:
    """Moves channels into space."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        split = x.reshape((n, b, b, c // (b * b), h, w)).transpose((0, 3, 4, 1, 5, 2))
    else:
        split = x.reshape((n, c // (b * b), b, b, h, w)).transpose((0, 1, 4, 2, 5, 3))
    return split.reshape((n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth", 1, 13, 28)
def space_to_depth(x: Tensor, /, *, blocksize: int, mode: str = "DCR") -> Any:
    """Moves space into channels."""
    n, c, h, w = x.shape
    b = blocksize
    split = x.reshape((n, c, h // b, b, w // b, b))
    split = split.transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return split.reshape((n, c * b * b, h // b, w // b))
