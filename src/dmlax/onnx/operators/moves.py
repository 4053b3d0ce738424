"""Operators that move elements: of any dtype, without widening, known values on the host."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
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
    expect_at_least,
    expect_equal_sizes,
    expect_room,
    integers,
    is_known,
    is_size,
    numpy_of,
    sizes_array,
    sizes_of,
    to_device,
)

_FAR = 1 << 30
_ENDLESS = 10**9  # more elements than an axis of a symbolic size has
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
        others, sizes = list(x.shape), []  # without those that both shapes have
        for size in wanted:
            if size in others and not _is_zero(size):
                others.remove(size)
            elif not (isinstance(size, int) and size == -1):
                sizes.append(size)
        rest, total = math.prod(sizes), math.prod(others)
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
    for x in inputs[1:]:
        for place, size in enumerate(x.shape):
            if place != axis % len(x.shape):
                expect_equal_sizes(size, inputs[0].shape[place])
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
    index: list[Any] = [slice(None)] * len(x.shape)
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = place if axes is None else axes[place]
        step = 1 if steps is None else steps[place]
        if step == 1 and not all(map(is_size, (start, end))):
            x = _slice_between(x, start, end, axis)
        else:
            index[axis] = _range(start, end, step, x.shape[axis])
    return x[tuple(index)]


def _slice_between(x: Any, start: Any, end: Any, axis: int) -> Any:
    """Takes a range whose start or end is symbolic, and assumed to lie inside of the axis."""
    size = x.shape[axis]
    first, last = (_place(each, size) for each in (start, end))
    count = jax.core.max_dim(last - first, 0)
    return lax.dynamic_slice_in_dim(to_device(x), first, count, axis)


def _place(index: Any, size: Any) -> Any:
    """The place of an index between 0 and a size."""
    if is_size(index) and abs(index) >= _FAR:
        return size if index > 0 else 0
    if not index >= 0:
        return jax.core.max_dim(size + index, 0)
    return jax.core.min_dim(index, size) if is_size(index) or index <= size else size


def _range(start: Any, end: Any, step: int, size: Any) -> slice:
    """ONNX's range as Python's: an end below every index becomes None."""
    if step < 0 and isinstance(end, int) and isinstance(size, int) and end < -size:
        end = None
    if isinstance(start, int) and abs(start) >= _FAR:
        start = None if (start > 0) == (step < 0) or start < 0 else size
    if isinstance(end, int) and (abs(end) >= _FAR or (end >= _ENDLESS and not is_size(size))):
        end = None
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


@operator("GatherElements", 11, 13)
def gather_elements(x: Tensor, indices: Parameter, /, *, axis: int = 0) -> Any:
    """Takes an element for each index along an axis."""
    places = to_device(indices)
    return jnp.take_along_axis(to_device(x), places, axis=axis, mode="fill", fill_value=0)


@operator("GatherND", 11, 12, 13)
def gather_nd(x: Tensor, indices: Parameter, /, *, batch_dims: int = 0) -> Any:
    """Takes slices at coordinates; a coordinate outside gives 0."""
    if batch_dims:
        raise UnsupportedError(f"batch_dims is {batch_dims}, expected 0")
    places = tuple(jnp.moveaxis(to_device(indices), -1, 0))
    return to_device(x).at[places].get(mode="fill", fill_value=0)


@operator("ScatterND", 11, 13, 16, 18)
def scatter_nd(
    x: Tensor, indices: Parameter, updates: Tensor, /, *, reduction: str = "none"
) -> Any:
    """Writes slices at coordinates; one outside is dropped."""
    places = tuple(jnp.moveaxis(to_device(indices), -1, 0))
    at = to_device(x).at[places]
    ways = {"none": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"}
    if reduction not in ways:
        raise UnsupportedError(f"reduction is {reduction!r}, expected one of {', '.join(ways)}")
    return getattr(at, ways[reduction])(to_device(updates), mode="drop")


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
    modes = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    if mode not in modes:
        raise UnsupportedError(f"mode is {mode!r}, expected one of {', '.join(modes)}")
    if mode == "constant" and not all(is_size(count) for pair in widths for count in pair):
        return _pad_by_sizes(to_device(x), widths, 0 if value is None else value.reshape(()))
    x = x[tuple(slice(max(-a, 0), -b if b < 0 else None) for a, b in widths)]
    grown = [(max(a, 0), max(b, 0)) for a, b in widths]
    xp = numpy_of(x, value)
    if xp is np:
        expect_room(x.dtype, *(a + size + b for size, (a, b) in zip(x.shape, grown, strict=True)))
    x = x if xp is np else to_device(x)
    if mode in ("reflect", "wrap"):
        _expect_few_turns(x.shape, grown, mode)
    if mode != "constant":
        return xp.pad(x, grown, mode=modes[mode])
    fill = 0 if value is None else value.reshape(())
    return xp.pad(x, grown, constant_values=fill)


def _pad_by_sizes(x: Any, widths: Any, fill: Any) -> Any:
    """Pads by symbolic counts, of which any may be negative."""
    sizes = [size + a + b for size, (a, b) in zip(x.shape, widths, strict=True)]
    x = jnp.pad(
        x, [tuple(jax.core.max_dim(a, 0) for a in pair) for pair in widths], constant_values=fill
    )
    for axis, (before, _) in enumerate(widths):
        x = lax.dynamic_slice_in_dim(x, jax.core.max_dim(-before, 0), sizes[axis], axis)
    return x


def _expect_few_turns(shape: Any, grown: list[tuple[int, int]], mode: str) -> None:
    """Refuses a padding that repeats an axis many times: NumPy and JAX copy it once a time."""
    for axis, (size, widths) in enumerate(zip(shape, grown, strict=True)):
        if not is_size(size) and max(widths):
            expect_at_least(size, max(widths) + 1)
        if isinstance(size, int) and max(widths) > _MOST_TURNS * size:
            text = f"mode {mode!r} pads axis {axis} of size {size} by {max(widths)}"
            raise UnsupportedError(f"{text}, expected at most {_MOST_TURNS * size}: take Tile")


def _pad_widths(sizes: list[Any], axes: Known | None, rank: int) -> tuple[tuple[int, int], ...]:
    """The counts at the start and the end of every axis."""
    half = len(sizes) // 2
    places = range(rank) if axes is None else [axis % rank for axis in integers(axes)]
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


@operator("Resize", 10)
def resize_10(x: Tensor, scales: Known, /, *, mode: str = "nearest") -> Any:
    """Repeats elements."""
    return _resize_nearest(x, scales, None, mode, "asymmetric", "floor")


@operator("Resize", 11, 13, 18, 19)
def resize(
    x: Tensor,
    roi: Parameter | None = None,
    scales: Known | None = None,
    sizes: Known | None = None,
    /,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:
    """Takes the nearest elements, on 8 bits too."""
    if antialias or axes is not None or keep_aspect_ratio_policy != "stretch":
        raise UnsupportedError("antialias, axes and keep_aspect_ratio_policy are not known")
    scales = None if scales is None or scales.size == 0 else scales
    return _resize_nearest(x, scales, sizes, mode, coordinate_transformation_mode, nearest_mode)


@operator("Upsample", 9, 10)
def upsample(x: Tensor, scales: Known, /, *, mode: str = "nearest") -> Any:
    """Repeats elements."""
    return _resize_nearest(x, scales, None, mode, "asymmetric", "floor")


def _resize_nearest(
    x: Any, scales: Any, sizes: Any, mode: str, transformation: str, rounding: str
) -> Any:
    if mode != "nearest":
        raise UnsupportedError(f"mode is {mode!r}, expected 'nearest'")
    for axis in range(len(x.shape)):
        size = x.shape[axis]
        if sizes is not None:
            new = integers(sizes)[axis]
            scale = None if new is size else new / size
        else:
            scale = float(np.asarray(scales).ravel()[axis])
            new = size if scale == 1 else math.floor(size * scale)
        if scale is None or scale == 1:
            continue
        expect_room(np.int32, new)
        if is_known(x):
            expect_room(x.dtype, x.size // max(int(size), 1), new)
        places = _nearest(int(new), int(size), np.float32(scale), transformation, rounding)
        x = numpy_of(x).take(x, places, axis=axis)
    return x


def _nearest(
    new: int, size: int, scale: np.float32, transformation: str, rounding: str
) -> np.ndarray:
    """The element that each output takes."""
    x, one, half = np.arange(new, dtype=np.float32), np.float32(1), np.float32(0.5)
    ways: dict[str, Callable[[], np.ndarray]] = {
        "asymmetric": lambda: x / scale,
        "half_pixel": lambda: (x + half) / scale - half,
        "half_pixel_symmetric": lambda: (x + half) / scale - half,
        "pytorch_half_pixel": lambda: (x + half) / scale - half if new > 1 else x * 0,
        "align_corners": lambda: x * np.float32(size - 1) / np.float32(max(new - 1, 1)),
    }
    roundings: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda value: np.ceil(value - half),
        "round_prefer_ceil": lambda value: np.floor(value + half),
    }
    if transformation not in ways or rounding not in roundings:
        raise UnsupportedError(f"{transformation!r} with {rounding!r} is not known")
    places = roundings[rounding](ways[transformation]() * one)
    found: np.ndarray = np.clip(places, 0, size - 1).astype(np.int32)
    return found
