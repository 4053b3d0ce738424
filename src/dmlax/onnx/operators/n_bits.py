"""Products and rows of weights of a few bits, which stay packed in memory.

A product dequantizes a group of columns at a time, so that a program holds a few megabytes of
floats however large the weights are.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dmlax._core.requantize import Arithmetic
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import MICROSOFT, OWN
from dmlax.onnx.operators.packed import PackedIntegers, unpack_bits
from dmlax.onnx.operators.quantized import dequantize, expand_blocks
from dmlax.onnx.operators.table import Parameter, Tensor, operator
from dmlax.onnx.operators.values import bits_of, is_float8, to_device

_GROUP_BYTES = 1 << 22  # of float32 columns that are dequantized at a time
_ALIGNMENT = 8  # of a group's first column: it begins with a byte


def multiply_by_columns(a: Any, depth: int, count: int, columns: Callable[[Any, int], Any]) -> Any:
    """Multiplies a of [..., depth] by a matrix, a group of its columns after another.

    Args:
      a: floats.
      depth: the rows of the matrix.
      count: its columns.
      columns: takes the first column and their number; returns float32[depth, number].
    """
    group = max(_GROUP_BYTES // (4 * max(depth, 1)) // _ALIGNMENT, 1) * _ALIGNMENT
    left = a.astype(np.float32)

    def product(start: Any, number: int) -> Any:
        return jnp.matmul(left, columns(start, number), precision=lax.Precision.HIGHEST)

    if count <= group:
        return product(0, count).astype(a.dtype)

    @jax.checkpoint  # a gradient would keep every group
    def step(_: None, index: Any) -> tuple[None, Any]:
        return None, product(index * group, group)

    _, parts = lax.scan(step, None, jnp.arange(count // group))
    result = jnp.moveaxis(parts, 0, -2)
    result = result.reshape((*result.shape[:-2], -1))
    if count % group:
        last = product(count - count % group, count % group)
        result = jnp.concatenate([result, last], axis=-1)
    return result.astype(a.dtype)


@operator("MatMulNBits", 1, domain=MICROSOFT)
def matrix_product_of_blocks(
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    group_indices: Parameter | None = None,
    bias: Tensor | None = None,
    /,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Any:
    """Multiplies by the transpose of packed blocks; `accuracy_level` asks for no fewer bits."""
    if bits not in (2, 4, 8) or weight_prepacked:
        text = f"its bits are {bits} and weight_prepacked is {weight_prepacked}"
        raise UnsupportedError(f"{text}, expected 2, 4 or 8 bits and 0")
    if block_size < 16 or block_size & (block_size - 1) or min(K, N) < 1:
        text = f"its K, N and block_size are {K}, {N} and {block_size}"
        raise UnsupportedError(f"{text}, expected sizes, and a power of 2 from 16")
    a = to_device(a)
    if a.ndim < 1 or a.shape[-1] != K:
        raise UnsupportedError(f"its A has the shape {list(a.shape)}, expected rows of {K}")
    blocks = -(-K // block_size)
    _expect_elements("B", b, N * blocks * block_size * bits // 8)
    _expect_elements("scales", scales, N * blocks)
    held = to_device(b).reshape((N, blocks, -1))
    steps = to_device(scales).reshape((N, blocks))
    offsets = _zero_points(zero_points, N, blocks, bits)

    def columns(start: Any, number: int) -> Any:
        def rows(x: Any) -> Any:
            return lax.dynamic_slice_in_dim(x, start, number)

        levels = unpack_bits(rows(held), bits, block_size).astype(np.float32)
        scale = rows(steps).astype(np.float32)
        offset: Any = np.float32(1 << (bits - 1))
        if offsets is not None:
            offset = (
                unpack_bits(rows(offsets), bits, blocks) if _is_byte(offsets) else rows(offsets)
            )
            offset = offset.astype(np.float32)
        if group_indices is None:
            offset = offset if offsets is None else offset[..., None]
            return ((levels - offset) * scale[..., None]).reshape((number, -1))[:, :K].T
        levels, indices = levels.reshape((number, -1))[:, :K], jnp.asarray(group_indices)[:K]
        offset = offset if offsets is None else jnp.take(offset, indices, axis=1)
        return ((levels - offset) * jnp.take(scale, indices, axis=1)).T

    y = multiply_by_columns(a, K, N, columns)
    return y if bias is None else y + to_device(bias).reshape((N,))


def _zero_points(zero_points: Any, count: int, blocks: int, bits: int) -> Any:
    """The zero points, a row for each column: bytes of packed integers, or floats."""
    if zero_points is None:
        return None
    row = -(-blocks * bits // 8) if _is_byte(zero_points) else blocks
    _expect_elements("zero_points", zero_points, count * row)
    return to_device(zero_points).reshape((count, row))


def _is_byte(x: Any) -> bool:
    return bool(x.dtype == np.uint8)


def _expect_elements(name: str, x: Any, count: int) -> None:
    """Refuses another number of elements than the sizes of a product need."""
    if x.size != count:
        raise UnsupportedError(
            f"its {name} has the shape {list(x.shape)}, expected {count} elements"
        )


@operator("DequantizedMatMul", 1, domain=OWN)
def matrix_product_of_dequantized(
    a: Tensor,
    w: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    transposed: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies by a matrix that it dequantizes, a group of columns after another."""
    a, along = to_device(a), 0 if transposed else 1
    depth, count = w.shape[::-1] if transposed else w.shape
    if a.ndim < 1 or a.shape[-1] != depth:
        raise UnsupportedError(f"its A has the shape {list(a.shape)}, expected rows of {depth}")

    def columns(start: Any, number: int) -> Any:
        def part(x: Any) -> Any:
            if x is None or x.size == 1:
                return x
            if x.ndim == 1:
                lies_along = axis % 2 == along
                return lax.dynamic_slice_in_dim(to_device(x), start, number) if lies_along else x
            return _columns(x, along, start, number)

        options: dict[str, Any] = {"axis": axis, "block_size": block_size}
        operands = (_columns(w, along, start, number), part(scale), part(zero_point))
        real = dequantize(*operands, **options, arithmetic=arithmetic).astype(np.float32)
        return real.T if transposed else real

    return multiply_by_columns(a, depth, count, columns)


def _columns(x: Any, axis: int, start: Any, number: int) -> Any:
    """Some columns of a matrix, or rows of a transposed one."""
    if not isinstance(x, PackedIntegers):
        return lax.dynamic_slice_in_dim(to_device(x), start, number, axis)
    shape = (number, x.shape[1]) if axis == 0 else (x.shape[0], number)
    if axis:
        per_byte = 8 // bits_of(x.dtype)
        start, number = start // per_byte, -(-number // per_byte)
    held = lax.dynamic_slice_in_dim(x.held, start, number, axis)
    return PackedIntegers(held, shape, x.dtype).unpack()


@operator("GatherBlockQuantized", 1, domain=MICROSOFT)
def gather_blocks(
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    /,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
    arithmetic: Arithmetic,
) -> Any:
    """Takes slices of packed blocks, and dequantizes them; indices out of range give zeros."""
    rank = data.ndim
    if not all(-rank <= each < rank for each in (gather_axis, quantize_axis)):
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
    elif is_bytes:
        zero_points = unpack_bits(to_device(zero_points), width, scales.shape[-1])
    count, indices = shape[gathered], to_device(indices)
    inside = (indices >= -count) & (indices < count)
    places = jnp.where(inside, jnp.where(indices < 0, indices + count, indices), 0).ravel()

    def take(x: Any) -> Any:
        if isinstance(x, PackedIntegers) and gathered < rank - 1:
            sizes = (*x.shape[:gathered], places.size, *x.shape[gathered + 1 :])
            return PackedIntegers(take(x.held), sizes, x.dtype).unpack()
        x = x.unpack() if isinstance(x, PackedIntegers) else to_device(x)
        return x if x.shape[gathered] == 1 != count else jnp.take(x, places, axis=gathered)

    levels = take(data)
    if is_bytes:
        levels = unpack_bits(levels, width, last)
    parameters = (None if x is None else take(x) for x in (scales, zero_points))
    scale, zero_point = (
        None if x is None else expand_blocks(x, quantized, block_size, levels.shape)
        for x in parameters
    )
    real = dequantize(levels, scale, zero_point, arithmetic=arithmetic)
    valid = inside.reshape((-1,) + (1,) * (rank - 1 - gathered))
    sizes = (*shape[:gathered], *indices.shape, *shape[gathered + 1 :])
    return jnp.where(valid, real, jnp.zeros_like(real)).reshape(sizes)
