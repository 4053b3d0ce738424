"""Plans a float32 convolution or product, and packs its filter."""

import functools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat
from dmlax._core.arguments import Aval, aval_of
from dmlax._core.axis_names import AxisNames, placed, whole
from dmlax._core.partitions import partition_by_names
from dmlax._core.plans import BasePlan

ACTIVATIONS = ("none", "clip", "hard_sigmoid", "hard_swish", "sigmoid", "silu", "shifted_swish")
"""The functions that end an epilogue, in the order of the kernel's numbers."""
_PANEL, _VECTOR = 64, 16  # columns of a panel; the last one has a multiple of a vector's
_Array = TypeVar("_Array", Array, np.ndarray)


class FilterShape(NamedTuple):
    """The sizes (O, I, spatial) of a filter, and its groups; a matrix is (columns, depth)."""

    sizes: tuple[int, ...]
    groups: int = 1

    @property
    def taps(self) -> int:
        """The positions of the kernel."""
        return math.prod(self.sizes[2:])

    @property
    def is_depthwise(self) -> bool:
        """True if every output channel has one input channel, and no other has that."""
        return self.groups == self.sizes[0] > 1 == self.sizes[1]

    @property
    def packed(self) -> tuple[int, int]:
        """The sizes of the packed filter: groups, and the floats of one."""
        if self.is_depthwise:
            return 1, self.taps * self.sizes[0]
        columns = -(-self.sizes[0] // self.groups // _VECTOR) * _VECTOR
        return self.groups, self.taps * self.sizes[1] * columns

    def widths(self) -> Iterator[tuple[int, int]]:
        """The columns of every panel of a group, without and with zeros."""
        columns = self.sizes[0] // self.groups
        for first in range(0, columns, _PANEL):
            count = min(_PANEL, columns - first)
            yield count, -(-count // _VECTOR) * _VECTOR


def pack(shape: FilterShape, filter: _Array) -> _Array:
    """Orders (O, I, spatial) as the kernel reads it: by panels, taps, channels, columns."""
    library: Any = np if isinstance(filter, np.ndarray) else jnp
    outputs, channels = shape.sizes[:2]
    if shape.is_depthwise:
        return filter.reshape(outputs, shape.taps).T.reshape(shape.packed)
    grouped = filter.reshape(shape.groups, outputs // shape.groups, channels, shape.taps)
    rows = grouped.transpose(0, 3, 2, 1).reshape(shape.groups, -1, outputs // shape.groups)
    panels, first = [], 0
    for count, width in shape.widths():
        panel = rows[..., first : first + count]
        padded = library.pad(panel, [(0, 0), (0, 0), (0, width - count)])
        panels.append(padded.reshape(shape.groups, -1))
        first += count
    packed: _Array = library.concatenate(panels, 1) if panels else rows.reshape(shape.packed)
    return packed


def unpack(shape: FilterShape, packed: _Array) -> _Array:
    """The inverse of `pack`."""
    library: Any = np if isinstance(packed, np.ndarray) else jnp
    outputs, channels = shape.sizes[:2]
    if shape.is_depthwise:
        return packed.reshape(shape.taps, outputs).T.reshape(shape.sizes)
    depth, panels, first = shape.taps * channels, [], 0
    for count, width in shape.widths():
        panel = packed[:, first : first + depth * width].reshape(shape.groups, depth, width)
        panels.append(panel[..., :count])
        first += depth * width
    rows = library.concatenate(panels, 2) if panels else packed
    columns = outputs // shape.groups
    grouped = rows.reshape(shape.groups, shape.taps, channels, columns).transpose(0, 3, 2, 1)
    filter: _Array = grouped.reshape(shape.sizes)
    return filter


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["held"],
    meta_fields=["filter", "is_transposed"],
)
@dataclass(eq=False, repr=False)
class PackedFilter:
    """A param that is a packed filter, or a packed matrix.

    Attributes:
      held: the packed floats.
      filter: the sizes of the filter.
      is_transposed: True for a matrix of the file's that is (depth, columns), or for a filter
        (O, spatial, I).
    """

    held: Array
    filter: FilterShape
    is_transposed: bool = False

    @classmethod
    def pack(cls, array: np.ndarray, groups: int = 1, is_transposed: bool = False) -> Self:
        """Packs a filter (O, I, spatial) or a matrix."""
        array = _channels_second(array) if is_transposed else array
        shape = FilterShape(array.shape, groups)
        return cls(jax.device_put(pack(shape, array)), shape, is_transposed)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the array that was packed."""
        sizes = self.filter.sizes
        if not self.is_transposed:
            return sizes
        return sizes[::-1] if len(sizes) == 2 else (sizes[0], *sizes[2:], sizes[1])

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the array that was packed."""
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """The rank of the array that was packed."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements that were packed."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes that are held."""
        return int(self.held.nbytes)

    def unpack(self) -> Array:
        """The array that was packed, on the device."""
        filter = unpack(self.filter, self.held)
        return _channels_last(filter) if self.is_transposed else filter

    def to_host(self) -> np.ndarray:
        """The array of NumPy that was packed."""
        filter = unpack(self.filter, np.asarray(self.held))
        return np.ascontiguousarray(_channels_last(filter) if self.is_transposed else filter)

    def __repr__(self) -> str:
        return f"PackedFilter(float32[{','.join(map(str, self.shape))}])"


def _channels_second(array: np.ndarray) -> np.ndarray:
    """Orders a filter (O, spatial, I) as (O, I, spatial), or transposes a matrix."""
    return array.T if array.ndim == 2 else np.moveaxis(array, -1, 1)


def _channels_last(array: _Array) -> _Array:
    """The inverse of `_channels_second`."""
    last: _Array = array.T if array.ndim == 2 else array.transpose(0, *range(2, array.ndim), 1)
    return last


def _encode(static: tuple[FilterShape, bool]) -> bytes:
    """Writes the static part of an export."""
    (sizes, groups), is_transposed = static
    return json.dumps((sizes, groups, is_transposed)).encode()


def _decode(data: bytes) -> tuple[FilterShape, bool]:
    """Reads the static part of an export."""
    sizes, groups, is_transposed = json.loads(bytes(data))
    return FilterShape(tuple(sizes), groups), is_transposed


compat.serialise_pytree(
    PackedFilter, "dmlax.onnx.PackedFilter, which `import dmlax.onnx` defines", _encode, _decode
)


class Epilogue(NamedTuple):
    """The function that follows the sums.

    Attributes:
      activation: one of ACTIVATIONS.
      low: the low end of a clip, the slope of a hard sigmoid, or the shift of a shifted swish.
      high: the high end of a clip, the offset of a hard sigmoid, or the limit of a shifted swish.
      fuses: True if the product with the slope is not rounded.
    """

    activation: str = "none"
    low: float = 0.0
    high: float = 0.0
    fuses: bool = False


class Geometry(NamedTuple):
    """The windows of every spatial axis, and the layouts."""

    strides: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    dilations: tuple[int, ...] = ()
    input_last: bool = True
    output_last: bool = True


class Operands(NamedTuple):
    """The operands; a factor and a bias have a value for every output channel."""

    input: Array
    filter: Array  # (O, I, spatial), or packed
    factor: Array | None = None
    bias: Array | None = None
    residual: Array | None = None  # has the output's shape


@dataclass(frozen=True)
class FloatPlan(BasePlan):
    """All that is static of a float32 convolution, or of a product: one without spatial axes.

    Attributes:
      is_packed: True if the operand `filter` is packed.
      is_transposed: True if that operand is a matrix (depth, columns).
      sizes: the output's, N, C, spatial.
    """

    input: Aval
    filter: FilterShape
    geometry: Geometry
    epilogue: Epilogue
    is_packed: bool
    is_transposed: bool
    sizes: tuple[int, ...]

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the result."""
        n, c, *spatial = self.sizes
        shape = (n, *spatial, c) if self.geometry.output_last else self.sizes
        return Aval(self.input.dtype, shape)

    def __str__(self) -> str:
        sizes = ",".join(map(str, self.filter.sizes))
        groups = f" in {self.filter.groups} groups" if self.filter.groups > 1 else ""
        return f"{self.input} by float32[{sizes}]{groups}"


def axis_names(plan: FloatPlan, operands: Operands) -> AxisNames:
    """Images, or rows, may be split."""
    rank = len(plan.sizes)
    images = placed({0: "image"}, rank)
    names = jax.tree.map(whole, operands)._replace(input=images)
    if operands.residual is not None:
        names = names._replace(residual=images)
    return AxisNames(names, images)


output_partition = partition_by_names(axis_names)


def local_plan(plan: FloatPlan, operands: Operands) -> tuple[FloatPlan, Operands]:
    """Plans for a part of the images."""
    input = aval_of(operands.input)
    return replace(plan, input=input, sizes=(input.shape[0], *plan.sizes[1:])), operands


def plan(
    input: Array,
    filter: Array | PackedFilter,
    factor: Array | None = None,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    output_sizes: tuple[int, ...],
    groups: int = 1,
    is_transposed: bool = False,
    geometry: Geometry | None = None,
    epilogue: Epilogue | None = None,
) -> tuple[FloatPlan, Operands]:
    """Plans a call, and returns its operands.

    Args:
      input: an image of channels first or last, or rows.
      filter: (O, I, spatial), for rows a matrix (columns, depth), or packed.
      factor: multiplies the sums of every output channel.
      bias: is added to them.
      residual: is added to them then; of the output's shape.
      output_sizes: the spatial sizes of the output.
      groups: of channels.
      is_transposed: True for a matrix (depth, columns).
      geometry: the windows and the layouts, of an image.
      epilogue: the last function.
    """
    is_packed = isinstance(filter, PackedFilter)
    if isinstance(filter, PackedFilter):
        shape, is_transposed, filter = filter.filter, filter.is_transposed, filter.held
    else:
        shape = FilterShape(filter.shape[::-1] if is_transposed else filter.shape, groups)
    operands = Operands(input, filter, factor, bias, residual)
    sizes = (input.shape[0], shape.sizes[0], *output_sizes)
    options = geometry or Geometry(), epilogue or Epilogue()
    made = FloatPlan(aval_of(input), shape, *options, is_packed, is_transposed, sizes)
    return made, operands
