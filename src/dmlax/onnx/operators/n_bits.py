"""Products and rows of weights of a few bits, which stay packed in memory.

A product dequantizes a group of columns at a time, so that a program holds a few megabytes of
floats however large the weights are.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from dmlax._core import ieee, sums
from dmlax._core.arguments import is_static
from dmlax._core.byte_packing import unpack_bits
from dmlax._core.requantize import Arithmetic
from dmlax._fused.block_product import call as block_product
from dmlax._fused.block_product.plan import WIDEST_BLOCK, BlockPlan, Blocks
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import MICROSOFT, OWN
from dmlax.onnx.operators.packed import PackedIntegers
from dmlax.onnx.operators.quantized import expand_blocks, scale_difference
from dmlax.onnx.operators.table import Parameter, Tensor, operator
from dmlax.onnx.operators.values import bits_of, convert, is_float8, to_device

_GROUP_BYTES = 1 << 22  # the bytes of float32 columns that are dequantized at a time
_FEW_ROWS = 8
_ROWS_APART, _BYTES_APART = 4, 1 << 22  # a GPU reads even and odd elements of so many faster apart
_MOST_LEVELS = 127  # the levels of a row of 8 bits on either side of 0
_LEAST_TOP = np.float32(2.0**-119)  # the least largest magnitude of a block that is not 0
_INT8 = {2: (32, 64, 128), 4: (16, 32, 64, 128, 256), 8: (16, 32, 64, 128, 256)}
"""The blocks for whose bits ONNX Runtime rounds rows at accuracy level 4."""
_UNBLOCKED = 32  # the block of rows beside weights of one scale for a column or for all
_ALIGNMENT = 8  # a group's first column begins with a byte


class _Weights(NamedTuple):
    """A matrix of integers or small floats; its blocks lie along the axis that a product sums over.

    Attributes:
      held: elements of 8 bits, or bytes of packed ones.
      bits: of an element.
      is_signed: True for packed elements in two's complement.
      columns: the axis of the product's columns: 0 for a transposed matrix.
      block_size: the elements that share a scale, 0 for all.
      shape: the sizes in elements.
    """

    held: Array
    bits: int
    is_signed: bool
    columns: int
    block_size: int
    shape: tuple[int, int]

    @classmethod
    def of(cls, w: Tensor | PackedIntegers, columns: int, block_size: int) -> "_Weights":
        """The weights of an array, or of packed integers."""
        rows, depth = w.shape
        if isinstance(w, PackedIntegers):
            width = bits_of(w.dtype)
            return cls(w.held, width, w.is_signed, columns, block_size, (rows, depth))
        return cls(to_device(w), 8, False, columns, block_size, (rows, depth))

    @property
    def per_byte(self) -> int:
        """The number of elements in a byte."""
        return 8 // self.bits

    def part(self, start: int | Array, number: int) -> Array:
        """The elements or bytes of some columns."""
        if self.columns:
            start, number = start // self.per_byte, -(-number // self.per_byte)
        return lax.dynamic_slice_in_dim(self.held, start, number, self.columns)

    def plane(self, held: Array, place: int) -> Array:
        """The elements at one place of all bytes, as float32."""
        if self.bits == 8:
            return held.astype(np.float32)
        levels = (held >> np.uint8(place * self.bits)) & np.uint8((1 << self.bits) - 1)
        if not self.is_signed:
            return levels.astype(np.float32)
        half = 1 << (self.bits - 1)
        return (levels ^ np.uint8(half)).astype(np.float32) - np.float32(half)

    def spread(
        self, parameter: Array, start: int | Array, number: int, place: int, indices: Array | None
    ) -> Array:
        """The parameters of a plane: a matrix that broadcasts to it."""
        per_byte, columns = self.per_byte, self.columns
        if parameter.shape[columns] > 1:
            if columns:
                parameter = jnp.pad(parameter, ((0, 0), (0, -parameter.shape[1] % per_byte)))
                number = -(-number // per_byte) * per_byte
            parameter = lax.dynamic_slice_in_dim(parameter, start, number, columns)
        parameter = parameter.astype(np.float32)
        if indices is not None and parameter.shape[1] > 1:
            return jnp.take(parameter, indices[place::per_byte], axis=1)
        if columns and parameter.shape[1] > 1:
            parameter = parameter[:, place::per_byte]
        if parameter.shape[1 - columns] == 1:
            return parameter
        size, (rows, depth) = self.block_size or 1, parameter.shape
        if columns:
            return expand_blocks(parameter, 0, size, (self.shape[0], depth))
        if size % per_byte == 0:
            return expand_blocks(parameter, 1, size // per_byte, (rows, self.held.shape[1]))
        elements = (rows, self.held.shape[1] * per_byte)
        return expand_blocks(parameter, 1, size, elements)[:, place::per_byte]


def multiply(
    a: Array,
    weights: _Weights,
    scale: Array,
    zero_point: Array | None = None,
    indices: Array | None = None,
    dtype: DTypeLike = np.float32,
) -> Array:
    """Multiplies a by the matrix of (weights - zero_point) * scale, a group of columns at a time.

    The elements at one place of all bytes are a separate product, which vectorizes.

    Args:
      a: floats, whose last axis is summed over.
      weights: the matrix.
      scale: a matrix: of one value, a row, a column, or of blocks.
      zero_point: as the scale, or None for 0.
      indices: for a transposed matrix, the block of every element of a row; None for equal blocks.
      dtype: the float to which the dequantized matrix is rounded.
    """
    per_byte, columns = weights.per_byte, weights.columns
    depth, count = weights.shape[1 - columns], weights.shape[columns]
    left = [a.astype(np.float32)]
    if columns == 0:
        padded = jnp.pad(left[0], [(0, 0)] * (a.ndim - 1) + [(0, -depth % per_byte)])
        left = [padded[..., place::per_byte] for place in range(per_byte)]

    def product(start: int | Array, number: int) -> Array:
        held, parts = weights.part(start, number), []
        for place in range(per_byte):
            matrix = weights.plane(held, place)
            if zero_point is not None:
                matrix = matrix - weights.spread(zero_point, start, number, place, indices)
            matrix = matrix * weights.spread(scale, start, number, place, indices)
            matrix = jnp.asarray(convert(matrix, np.dtype(dtype))).astype(np.float32)
            x = left[place] if columns == 0 else left[0]
            dimensions = (((x.ndim - 1,), (1 - columns,)), ((), ()))
            parts.append(lax.dot_general(x, matrix, dimensions, lax.Precision.HIGHEST))
        if columns == 0:
            return functools.reduce(jnp.add, parts)
        result = jnp.stack(parts, axis=-1)
        return result.reshape((*result.shape[:-2], parts[0].shape[-1] * per_byte))[..., :number]

    return _by_groups(product, depth, count).astype(a.dtype)


def _by_groups(product: Callable[[int | Array, int], Array], depth: int, count: int) -> Array:
    """Joins the products of some columns each, which hold a few megabytes of floats."""
    group = max(_GROUP_BYTES // (4 * max(depth, 1)) // _ALIGNMENT, 1) * _ALIGNMENT
    if count <= group:
        return product(0, count)

    @jax.checkpoint  # a gradient would keep every group
    def step(_: None, index: Array) -> tuple[None, Array]:
        return None, product(index * group, group)

    _, groups = lax.scan(step, None, jnp.arange(count // group))
    result = jnp.moveaxis(groups, 0, -2)
    result = result.reshape((*result.shape[:-2], count // group * group))
    if count % group:
        last = product(count - count % group, count % group)
        result = jnp.concatenate([result, last], axis=-1)
    return result


def block_levels(a: Array, block_size: int) -> tuple[Array, Array]:
    """Rounds the blocks of rows to 8 bits, as ONNX Runtime does at accuracy level 4.

    Args:
      a: rows, whose last block may be short.
      block_size: of the elements that share a step.

    Returns:
      The integers in float32, [..., blocks, block_size], and the steps, [..., blocks, 1]. Blocks
      of magnitudes below 2**-119, whose step is no normal number, are 0.
    """
    missing = -a.shape[-1] % block_size
    padded = jnp.pad(a.astype(np.float32), [(0, 0)] * (a.ndim - 1) + [(0, missing)])
    blocks = padded.reshape((*a.shape[:-1], padded.shape[-1] // block_size, block_size))
    top = jnp.abs(blocks).max(-1, keepdims=True)
    largest = jnp.full_like(top, _MOST_LEVELS)
    is_zero = top < _LEAST_TOP
    top = jnp.where(is_zero, 0, top)
    per_step = jnp.where(is_zero, 0, ieee.divide(largest, jnp.where(is_zero, 1, top)))
    levels = jnp.round(ieee.multiply(blocks, per_step))
    return levels, ieee.divide(top, largest)


def quantize_rows(a: Array, block_size: int) -> Array:
    """The float32 that the 8-bit integers of rows stand for."""
    levels, steps = block_levels(a, min(block_size, WIDEST_BLOCK))
    depth = levels.shape[-2] * levels.shape[-1]
    return (levels * steps).reshape((*a.shape[:-1], depth))[..., : a.shape[-1]]


def multiply_levels(a: Array, weights: _Weights, scale: Array, zero_point: Array) -> Array:
    """Multiplies the 8-bit integers of rows by those of a matrix, and adds up blocks in one order.

    Args:
      a: rows of floats.
      weights: a transposed matrix of blocks.
      scale: of every block.
      zero_point: as the scale, or (1, 1).
    """
    size, per_byte = min(weights.block_size, WIDEST_BLOCK), weights.per_byte
    levels, steps = block_levels(a, size)
    parts = weights.block_size // size  # the parts of a block that is wider than the rows' blocks
    scale, zero_point = (x if x.size == 1 else jnp.repeat(x, parts, 1) for x in (scale, zero_point))
    rows = levels.reshape((-1, *levels.shape[-2:]))
    steps = steps.reshape(rows.shape[:2])

    def product(start: int | Array, number: int) -> Array:
        held, total = weights.part(start, number), jnp.float32(0)
        points, factors = (
            x if x.size == 1 else lax.dynamic_slice_in_dim(x, start, number, 0)
            for x in (zero_point, scale)
        )
        for place in range(per_byte):  # sums below 2^24, which float32 holds
            plane = weights.plane(held, place).reshape((number, rows.shape[1], -1))
            plane = plane - points.astype(np.float32)[..., None]
            dimensions = (((2,), (2,)), ((1,), (1,)))
            x = rows[..., place::per_byte]
            total = total + lax.dot_general(x, plane, dimensions, lax.Precision.HIGHEST)
        by_column = ieee.multiply(steps.T[:, :, None], factors.astype(np.float32).T[:, None])
        result: Array = sums.total(ieee.multiply(total, by_column), [0], sums.IN_ROWS)[0]
        return result

    depth, count = weights.shape[1], weights.shape[0]
    result: Array = _by_groups(product, depth, count).reshape((*a.shape[:-1], count))
    return result


def multiply_blocks(plan: BlockPlan, operands: Blocks) -> Array:
    """The product of blocks in plain XLA."""
    if plan.levels:
        return _multiply_level_blocks(plan, operands)
    sizes = operands.a.shape[:-1]

    def by_columns(a: Array, held: Array, *parameters: Array) -> Array:
        return multiply(a, _weights_of(plan, held), *parameters)

    if not is_static(sizes) or not 0 < math.prod(sizes) <= _FEW_ROWS:
        return by_columns(*operands)
    y: Array = lax.platform_dependent(*operands, cuda=multiply_few_rows, default=by_columns)
    return y


def _weights_of(plan: BlockPlan, held: Array) -> _Weights:
    shape = (plan.columns, plan.input.shape[-1])
    return _Weights(held, plan.bits, False, 0, plan.block_size, shape)


def _multiply_level_blocks(plan: BlockPlan, operands: Blocks) -> Array:
    """The product of levels; with "float32" a GPU multiplies the floats that they stand for."""

    def by_levels(a: Array, held: Array, scale: Array, points: Array) -> Array:
        points = _unpack_points(points, plan.bits, scale.shape[1])
        return multiply_levels(a, _weights_of(plan, held), scale, points)

    def by_floats(a: Array, held: Array, scale: Array, points: Array) -> Array:
        rounded = quantize_rows(a, plan.block_size)
        points = _unpack_points(points, plan.bits, scale.shape[1])
        if plan.bits == 4:
            of_floats = replace(plan, levels=None)
            return multiply_blocks(of_floats, Blocks(rounded, held, scale, points))
        return multiply(rounded, _weights_of(plan, held), scale, points)

    on_gpu = by_levels if plan.levels == "exact" else by_floats
    y: Array = lax.platform_dependent(*operands, cuda=on_gpu, default=by_levels)
    return y


def multiply_few_rows(a: Array, held: Array, scale: Array, zero_point: Array) -> Array:
    """Multiplies few rows by 4-bit blocks, element by element, for GPUs.

    XLA fuses it into one reading of the packed weights, and writes no dequantized ones.
    """
    count, blocks = scale.shape
    weights = _Weights(held, 4, False, 0, 0, (count, blocks))
    held = held.reshape((count, blocks, -1))
    rows = a.astype(np.float32).reshape((-1, blocks, held.shape[-1], weights.per_byte))
    even, odd = rows[..., 0], rows[..., 1]
    if len(rows) >= _ROWS_APART and held.size >= _BYTES_APART:
        even, odd = lax.optimization_barrier((even, odd))
    zero_point = jnp.expand_dims(zero_point.astype(np.float32), -1)
    low, high = (weights.plane(held, place) - zero_point for place in (0, 1))
    factors = jnp.expand_dims(scale.astype(np.float32), -1)
    result = [((low * x + high * y) * factors).sum((1, 2)) for x, y in zip(even, odd, strict=True)]
    return jnp.stack(result).reshape((*a.shape[:-1], count)).astype(a.dtype)


def _multiply_by_columns(plan: BlockPlan, operands: Blocks) -> Array:
    """The product of blocks without levels, as every platform can compute it."""
    return multiply(operands.a, _weights_of(plan, operands.held), *operands[2:])


BLOCKS = block_product.operator(multiply_blocks, _multiply_by_columns)


@operator("MatMulNBits", 1, domain=MICROSOFT)
def matrix_product_of_blocks(
    a: Array,
    b: Array,
    scales: Array,
    zero_points: Array | None = None,
    group_indices: Parameter | None = None,
    bias: Array | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    weight_prepacked: int = 0,
    accuracy_level: int = 0,
    arithmetic: Arithmetic,
) -> Array:
    """Multiplies by the transpose of packed blocks; at level 4 it rounds rows to 8 bits."""
    if bits not in (2, 4, 8) or weight_prepacked:
        text = f"its bits are {bits} and weight_prepacked is {weight_prepacked}"
        raise UnsupportedError(f"{text}, expected 2, 4 or 8 bits and 0")
    if block_size < 16 or block_size & (block_size - 1) or min(K, N) < 1:
        text = f"its K, N and block_size are {K}, {N} and {block_size}"
        raise UnsupportedError(f"{text}, expected sizes, and a power of 2 from 16")
    if a.ndim < 1 or a.shape[-1] != K:
        raise UnsupportedError(f"its A has the shape {list(a.shape)}, expected rows of {K}")
    blocks = -(-K // block_size)
    _expect_elements("B", b, N * blocks * block_size * bits // 8)
    _expect_elements("scales", scales, N * blocks)
    weights = _Weights(b.reshape((N, -1)), bits, False, 0, block_size, (N, blocks * block_size))
    indices = None
    if group_indices is not None:
        indices = jnp.pad(jnp.asarray(group_indices), (0, blocks * block_size - K))
    padded = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, blocks * block_size - K)])
    scale = scales.reshape((N, blocks))
    has_integers = indices is None and (zero_points is None or _is_byte(zero_points))
    is_rounded = accuracy_level == 4 and has_integers
    is_rounded = is_rounded and min(block_size, WIDEST_BLOCK) in _INT8[bits]
    points = _zero_points(zero_points, N, blocks, bits)
    if is_rounded and bits > 2:
        operands = Blocks(padded.astype(np.float32), weights.held, scale, points)
        plan, operands = BLOCKS.plan(operands, block_size, bits, arithmetic)
        y = BLOCKS.call(plan, operands)
    elif is_rounded and arithmetic == "exact":
        y = multiply_levels(padded, weights, scale, _unpack_points(points, bits, blocks))
    else:
        padded = quantize_rows(padded, block_size) if is_rounded else padded
        points = _unpack_points(points, bits, blocks)
        if bits == 4 and indices is None:
            operands = Blocks(padded.astype(np.float32), weights.held, scale, points)
            y = BLOCKS.call(*BLOCKS.plan(operands, block_size))
        else:
            y = multiply(padded, weights, scale, points, indices)
    y = y.astype(a.dtype)
    return y if bias is None else y + bias.reshape((N,))


def _zero_points(zero_points: Array | None, count: int, blocks: int, bits: int) -> Array:
    """The zero points of blocks, a row for every column of the product; bytes are packed.

    No points are those in the middle.
    """
    if zero_points is None:
        return jnp.zeros((0, 0), np.uint8)
    row = -(-blocks * bits // 8) if _is_byte(zero_points) else blocks
    _expect_elements("zero_points", zero_points, count * row)
    return zero_points.reshape((count, row))


def _unpack_points(points: Array, bits: int, blocks: int) -> Array:
    """The zero points of blocks, or one for all: (1, 1)."""
    if points.size == 0:
        return jnp.full((1, 1), 1 << (bits - 1), np.uint8)
    return unpack_bits(points, bits, blocks) if _is_byte(points) else points


def _is_byte(x: Tensor) -> bool:
    return bool(x.dtype == np.uint8)


def _expect_elements(name: str, x: Tensor, count: int) -> None:
    """Refuses a tensor whose number of elements does not fit the product."""
    if x.size != count:
        raise UnsupportedError(
            f"its {name} has the shape {list(x.shape)}, expected {count} elements"
        )


@operator("DequantizedMatMul", 1, domain=OWN)
def matrix_product_of_dequantized(
    a: Array,
    w: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    transposed: int = 0,
    accuracy_level: int = 0,
) -> Array:
    """Multiplies by a matrix that it dequantizes one group of columns at a time.

    At level 4 it rounds rows to 8 bits, as a MatMulNBits does.
    """
    columns = 0 if transposed else 1
    depth = w.shape[1 - columns]
    if a.ndim < 1 or a.shape[-1] != depth:
        raise UnsupportedError(f"its A has the shape {list(a.shape)}, expected rows of {depth}")
    blocks = [*w.shape]
    blocks[axis % 2] = -(-w.shape[axis % 2] // block_size) if block_size else w.shape[axis % 2]

    def matrix(x: Tensor) -> Array:
        if x.size == 1:
            return to_device(x).reshape((1, 1))
        if block_size == 0 and x.shape == (w.shape[axis % 2],):
            return jnp.expand_dims(to_device(x), 1 - axis % 2)
        if not block_size or list(x.shape) != blocks:
            text = f"its parameter has the shape {list(x.shape)}, expected {blocks}"
            raise UnsupportedError(f"{text} for blocks of {block_size} along axis {axis}")
        return to_device(x)

    weights = _Weights.of(w, columns, block_size)
    rounded = block_size or _UNBLOCKED
    if accuracy_level == 4 and min(rounded, WIDEST_BLOCK) in _INT8.get(weights.bits, ()):
        a = quantize_rows(a, rounded).astype(a.dtype)
    zero_points = None if zero_point is None else matrix(zero_point)
    return multiply(a, weights, matrix(scale), zero_points, dtype=a.dtype)


_FLOATS_OF_4_BITS = (  # FP4 without the sign, which is the first bit; NF4
    "0 1/192 2/3 1 1/3 1/2 1/6 1/4",
    "-1 -0.6961928 -0.52507305 -0.3949175 -0.28444138 -0.18477343 -0.091050036 0 "
    "0.0795803 0.1609302 0.2461123 0.33791524 0.44070983 0.562617 0.72295684 1",
)


def _table_of_floats(quant_type: int) -> np.ndarray:
    """The 16 floats that 4 bits stand for."""
    values = np.array([float(Fraction(x)) for x in _FLOATS_OF_4_BITS[quant_type].split()])
    values = values if quant_type else np.concatenate([values, -values])
    return values.astype(np.float32)


@operator("MatMulBnb4", 1, domain=MICROSOFT, ignores=["training_mode"])
def matrix_product_of_named_floats(
    a: Array,
    b: Array,
    scales: Array,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: Annotated[int, (0, 1)],
    transB: int = 1,
) -> Array:
    """Multiplies by a matrix whose bytes hold two indices into a table of floats each."""
    if block_size < 16 or block_size & (block_size - 1) or min(K, N) < 1:
        text = f"its K, N and block_size are {K}, {N} and {block_size}"
        raise UnsupportedError(f"{text}, expected sizes, and a power of 2 from 16")
    depth = K if transB else N
    if a.ndim < 1 or a.shape[-1] != depth:
        raise UnsupportedError(f"its A has the shape {list(a.shape)}, expected rows of {depth}")
    _expect_elements("B", b, -(-N * K // 2))
    _expect_elements("absmax", scales, -(-N * K // block_size))
    table = jnp.asarray(_table_of_floats(quant_type))
    indices = jnp.stack([b.ravel() >> np.uint8(4), b.ravel() & np.uint8(15)], axis=-1).ravel()
    spread = jnp.repeat(scales.ravel().astype(np.float32), block_size)[: N * K]
    matrix = (table[indices[: N * K]] * spread).reshape((N, K))
    dimensions = (((a.ndim - 1,), (1 if transB else 0,)), ((), ()))
    wide = a.astype(np.float32)
    return lax.dot_general(wide, matrix, dimensions, lax.Precision.HIGHEST).astype(a.dtype)


@operator("GatherBlockQuantized", 1, domain=MICROSOFT)
def gather_blocks(
    data: Tensor,
    indices: Array,
    scales: Tensor,
    zero_points: Tensor | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Array:
    """Takes slices of packed blocks, and dequantizes them; indices out of range give zeros."""
    rank = data.ndim
    if not all(-rank <= axis < rank for axis in (gather_axis, quantize_axis)):
        text = f"its axes are {gather_axis} and {quantize_axis}"
        raise UnsupportedError(f"{text}, expected axes of {list(data.shape)}")
    gathered, quantized = gather_axis % rank, quantize_axis % rank
    is_float, is_bytes = is_float8(data.dtype), _is_byte(data)
    width = bits if is_bytes else bits_of(data.dtype)
    if width not in (2, 4, 8) or (gathered == quantized and not is_float):
        text = f"its bits are {width}, its axes {gathered} and {quantized}"
        raise UnsupportedError(f"{text}, expected 2, 4 or 8 bits and two axes")
    last = data.shape[-1] * (8 // width) if is_bytes else data.shape[-1]
    shape = (*data.shape[:-1], last)
    if is_float and block_size == 0:
        block_size = shape[quantized]
    if is_bytes and zero_points is None:
        zero_points = jnp.full(scales.shape, 1 << (width - 1), np.uint8)
    elif is_bytes and zero_points is not None:
        zero_points = unpack_bits(to_device(zero_points), width, scales.shape[-1])
    count = shape[gathered]
    inside = (indices >= -count) & (indices < count)
    places = jnp.where(inside, jnp.where(indices < 0, indices + count, indices), 0).ravel()

    def take(x: Tensor | PackedIntegers) -> Array:
        if isinstance(x, PackedIntegers) and gathered < rank - 1:
            sizes = (*x.shape[:gathered], places.size, *x.shape[gathered + 1 :])
            return PackedIntegers(take(x.held), sizes, x.dtype).unpack()
        x = x.unpack() if isinstance(x, PackedIntegers) else to_device(x)
        return x if x.shape[gathered] == 1 != count else jnp.take(x, places, axis=gathered)

    levels = take(data)
    if is_bytes:
        levels = unpack_bits(levels, width, last)
    scale, zero_point = (
        None if x is None else expand_blocks(take(x), quantized, block_size, levels.shape)
        for x in (scales, zero_points)
    )
    assert scale is not None
    real = scale_difference(levels, zero_point, scale).astype(scales.dtype)
    valid = inside.reshape((-1,) + (1,) * (rank - 1 - gathered))
    sizes = (*shape[:gathered], *indices.shape, *shape[gathered + 1 :])
    return jnp.where(valid, real, jnp.zeros_like(real)).reshape(sizes)
