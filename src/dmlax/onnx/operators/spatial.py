"""Operators on images: transposed convolutions, samples at positions, crops and unpooling."""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import ieee, sums
from dmlax._core.windows import dilated_size
from dmlax.errors import UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.moves import pad
from dmlax.onnx.operators.resize import cubic_weights
from dmlax.onnx.operators.table import Known, Parameter, Tensor, operator
from dmlax.onnx.operators.values import (
    by_channel,
    expect_equal_sizes,
    expect_memory,
    integers,
    to_device,
)
from dmlax.onnx.operators.windows import Windows

_SAME = ("SAME_UPPER", "SAME_LOWER")
_REGIONS_AT_ONCE = 32  # whose samples are in memory together


@operator("ConvTranspose", 1, 11, 22)
def transposed_convolution(
    x: Array,
    w: Array,
    bias: Tensor | None = None,
    *,
    windows: Windows,
    output_padding: tuple[int, ...] | None = None,
    output_shape: tuple[int, ...] | None = None,
) -> Array:
    """Convolves the input with zeros between its elements."""
    group = windows.group
    if x.ndim < 3 or w.ndim != x.ndim:
        raise ModelError(f"its inputs have the ranks {x.ndim} and {w.ndim}, expected one of 3 to 5")
    count, ones = x.ndim - 2, (1,) * (x.ndim - 2)
    expect_equal_sizes(x.shape[1], w.shape[0])
    if w.shape[0] != x.shape[1] or w.shape[0] % group:
        raise ModelError(f"its filter has {w.shape[0]} channels, expected {x.shape[1]}, by group")
    auto_pad, pads = windows.auto_pad, windows.pads
    strides, dilations = windows.strides or ones, windows.dilations or ones
    extra = output_padding or (0,) * count
    spans = tuple(map(dilated_size, w.shape[2:], dilations))
    margins = []
    for axis in range(count):
        size, stride, span = x.shape[2 + axis], strides[axis], spans[axis]
        whole = (size - 1) * stride + span + extra[axis]
        if output_shape is not None:
            total = whole - output_shape[-count:][axis]
            if total <= -stride:
                text = f"output_shape is {list(output_shape)}, expected less than {whole + stride}"
                raise ModelError(f"{text} on axis {axis}")
            margin = (0, total) if total < 0 else _halves(total, auto_pad)  # zeros at the end
        elif auto_pad in _SAME:
            margin = _halves(max(whole - size * stride, 0), auto_pad)
        else:
            margin = (0, 0) if pads is None else (pads[axis], pads[count + axis])
        margins.append((span - 1 - margin[0], span - 1 - margin[1] + extra[axis]))
    inputs, outputs = w.shape[0] // group, w.shape[1]
    grouped = w.reshape((group, inputs, outputs, *w.shape[2:]))
    filter = jnp.swapaxes(grouped, 1, 2).reshape((group * outputs, inputs, *w.shape[2:]))
    y = lax.conv_general_dilated(
        x,
        jnp.flip(filter, tuple(range(2, x.ndim))),
        ones,
        margins,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        feature_group_count=group,
        precision=lax.Precision.HIGHEST,
    )
    return y if bias is None else y + by_channel(bias, x.ndim)


def _halves(total: int, auto_pad: str) -> tuple[int, int]:
    """Pixels that are cut at the start and at the end."""
    half = total // 2
    return (half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half)


class _Line(NamedTuple):
    """The elements along one axis of which a sample is the weighted sum."""

    places: Sequence[Array]
    weights: Sequence[Tensor]
    size: int


def _neighbours(mode: str, position: Array, size: int) -> _Line:
    """The elements that a sample reads along one axis."""
    if mode == "nearest":
        return _Line([jnp.round(position)], [jnp.ones_like(position)], size)
    start = jnp.floor(position)
    rest = position - start
    if mode == "linear":
        return _Line([start, start + 1], [1 - rest, rest], size)
    places = [start + offset for offset in (-1, 0, 1, 2)]
    return _Line(places, cubic_weights(rest, np.float32(-0.75)), size)


def _reflect(place: Array, low: float, high: float) -> Array:
    """Reflects positions at both borders until they lie between them."""
    span = jnp.maximum(high - low, 1e-6)
    distance = jnp.where(place < low, low - place, place - high)
    turns = jnp.floor(distance / span)
    rest = distance - turns * span
    from_low = (place < low) == (turns % 2 == 0)
    inside = jnp.where(from_low, low + rest, high - rest)
    return jnp.where((place < low) | (place > high), inside, place)


def _sample(x: Array, lines: Sequence[_Line]) -> Array:
    """Weighted sums of elements of images, of the shape [batch, channels, samples].

    Args:
      x: [batch, channels, *sizes].
      lines: of the axes, with arrays of the shape [batch, samples].
    """
    flat = x.reshape((*x.shape[:2], math.prod(x.shape[2:])))
    total = jnp.zeros((), x.dtype)
    for choice in itertools.product(*(range(len(line.places)) for line in lines)):
        index, weight = jnp.int32(0), jnp.ones((), x.dtype)
        for line, i in zip(lines, choice, strict=True):
            place = jnp.clip(line.places[i], 0, line.size - 1).astype(np.int32)
            index, weight = index * line.size + place, weight * line.weights[i]
        values = jnp.take_along_axis(flat, index[:, None, :], axis=2, mode="clip")
        total = total + values * weight[:, None, :]
    return total


_SAMPLE_MODES = {
    "nearest": "nearest",
    **dict.fromkeys(("bilinear", "linear"), "linear"),
    **dict.fromkeys(("bicubic", "cubic"), "cubic"),
}


@operator("GridSample", 16, 20, 22)
def grid_sample(
    x: Array,
    grid: Array,
    *,
    align_corners: int = 0,
    mode: Annotated[str, _SAMPLE_MODES] = "linear",
    padding_mode: Annotated[str, ("zeros", "border", "reflection")] = "zeros",
) -> Array:
    """Samples images at the positions of a grid."""
    count = x.ndim - 2
    if grid.ndim != x.ndim or grid.shape[-1] != count:
        text = f"its grid has the shape {list(grid.shape)}, expected rank {x.ndim} and"
        raise ModelError(f"{text} {count} coordinates")
    points = grid.reshape((grid.shape[0], math.prod(grid.shape[1:-1]), count))
    lines = []
    for axis in range(count):
        size, n = x.shape[2 + axis], points[..., count - 1 - axis]
        if align_corners:
            position, low, high = (n + 1) / 2 * (size - 1), 0.0, size - 1.0
        else:
            position, low, high = ((n + 1) * size - 1) / 2, -0.5, size - 0.5
        line = _neighbours(_SAMPLE_MODES[mode], position, size)
        if padding_mode == "zeros":
            inside = [(place >= 0) & (place < size) for place in line.places]
            weights = [jnp.where(*pair, 0) for pair in zip(inside, line.weights, strict=True)]
            line = line._replace(weights=weights)
        elif padding_mode == "reflection":
            places = [jnp.trunc(_reflect(place, low, high)) for place in line.places]
            line = line._replace(places=places)
        lines.append(line)
    return _sample(x, lines).reshape((*x.shape[:2], *grid.shape[1:-1]))


@operator("AffineGrid", 20)
def affine_grid(theta: Array, size: Known, *, align_corners: int = 0) -> Array:
    """Positions for GridSample: an affine function of those of the output's pixels."""
    lines = []
    for steps in integers(size)[2:]:
        numbers = jnp.arange(steps).astype(theta.dtype)
        if align_corners:  # a single pixel is at the end, as in ONNX Runtime
            lines.append(numbers * 2 / (steps - 1) - 1 if steps > 1 else numbers + 1)
        else:
            lines.append((2 * numbers + 1) / steps - 1)
    points = jnp.meshgrid(*lines, indexing="ij")
    homogeneous = jnp.stack([*points[::-1], jnp.ones_like(points[0])], -1)
    return jnp.einsum("nij,...j->n...i", theta, homogeneous, precision=lax.Precision.HIGHEST)


_ROI_OFFSETS = {"half_pixel": 0.5, "output_half_pixel": 0.0}


@operator("RoiAlign", 16, 22)
def roi_align(
    x: Array,
    rois: Array,
    batch: Parameter,
    *,
    coordinate_transformation_mode: Annotated[str, _ROI_OFFSETS] = "half_pixel",
    mode: Annotated[str, ("avg", "max")] = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Array:
    """Pools samples of regions of images."""
    offset, samples = _ROI_OFFSETS[coordinate_transformation_mode], sampling_ratio
    if samples < 1:
        text = f"sampling_ratio is {samples}, expected at least 1"
        raise UnsupportedError(f"{text}: the number of samples would depend on values")
    expect_memory(np.float32, 4, samples)
    expect_memory(np.float32, 2, output_height)
    expect_memory(np.float32, 2, output_width)

    def line(start: Array, end: Array, count: int, size: int) -> list[tuple[Array, Array]]:
        """Both elements that a sample reads along an axis, with their weights."""
        length = end - start if offset else jnp.maximum(end - start, 1)
        step = length / count
        inner = (np.arange(samples, dtype=np.float32) + np.float32(0.5)) / np.float32(samples)
        position = start + np.arange(count, dtype=np.float32)[:, None] * step + inner * step
        is_inside = (position >= -1) & (position <= size)
        position = jnp.clip(position, 0, size - 1)
        first = jnp.minimum(jnp.floor(position).astype(np.int32), size - 1)
        second = jnp.minimum(first + 1, size - 1)
        rest = position - first.astype(position.dtype)
        pairs = ((first, 1 - rest), (second, rest))
        return [(i.ravel(), jnp.where(is_inside, w, 0).ravel()) for i, w in pairs]

    def pool(region: tuple[Array, Array]) -> Array:
        roi, image = region
        a, b, c, d = roi * np.float32(spatial_scale) - np.float32(offset)
        columns = line(a, c, output_width, x.shape[3])
        plane = x[image]
        terms = [
            ieee.multiply(plane[:, row[:, None], column], height[:, None] * width)
            for row, height in line(b, d, output_height, x.shape[2])
            for column, width in columns
        ]
        shape = (x.shape[1], output_height, samples, output_width, samples)
        if mode == "avg":
            total = functools.reduce(jnp.add, terms).reshape(shape)
            return jnp.squeeze(sums.mean(total, [2, 4], sums.IN_TURN), (2, 4))
        # ONNX Runtime takes the largest of the weighted elements, not of their sums.
        return functools.reduce(jnp.maximum, terms).reshape(shape).max((2, 4))

    regions = (rois, to_device(batch).astype(np.int32))
    is_static = isinstance(rois.shape[0], int)
    at_once = functools.partial(lax.map, pool, batch_size=_REGIONS_AT_ONCE)
    pooled: Array = (at_once if is_static else jax.vmap(pool))(regions)
    return pooled


operator("RoiAlign", 10)(
    functools.partial(roi_align, coordinate_transformation_mode="output_half_pixel")
)


@operator("MaxUnpool", 9, 11, 22)
def max_unpool(
    x: Array,
    indices: Array,
    output_shape: Known | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Puts the elements of a max pool back to where they were; zeros elsewhere."""
    count = len(kernel_shape)
    strides, pads = strides or (1,) * count, pads or (0,) * 2 * count
    steps = zip(x.shape[2:], strides, kernel_shape, pads[:count], pads[count:], strict=True)
    sizes = [(size - 1) * stride + kernel - a - b for size, stride, kernel, a, b in steps]
    shape = tuple((*x.shape[:2], *sizes) if output_shape is None else integers(output_shape))
    flat = jnp.zeros(math.prod(shape), x.dtype)
    return flat.at[indices.ravel()].set(x.ravel(), mode="drop").reshape(shape)


@operator("CenterCropPad", 18)
def center_crop_pad(x: Tensor, shape: Known, *, axes: tuple[int, ...] | None = None) -> Tensor:
    """Cuts or pads axes at both ends, so that the center stays."""
    rank = len(x.shape)
    chosen = list(range(rank)) if axes is None else [axis % rank for axis in axes]
    missing = [wanted - x.shape[axis] for axis, wanted in zip(chosen, integers(shape), strict=True)]
    if not all(isinstance(count, int) for count in missing):
        raise UnsupportedError(f"it adds {missing} elements: give input_shapes static sizes")
    starts = [count // 2 if count >= 0 else -(-count // 2) for count in missing]
    ends = [count - start for count, start in zip(missing, starts, strict=True)]
    return pad(x, np.asarray(starts + ends), None, np.asarray(chosen))
