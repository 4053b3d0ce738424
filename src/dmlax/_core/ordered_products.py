"""Float products and convolutions in one order of sums, which the summed length alone decides.

It is the order *in rows* of `sums.py`, of rounded products. Nothing fuses a product and a sum, so
every backend has these bits. A loop over blocks of the summed axis holds few partial sums at once.
A CPU has kernels, `_fused/exact_floats`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import choice, compat, ieee
from dmlax._core.arguments import is_static
from dmlax._core.float_functions import finish
from dmlax._core.float_pairs import LEAST_NORMAL, bits, floats, flush
from dmlax._core.windows import tap_slices, taps

_BLOCK, _LANES = 64, 16  # sums that run at once, and those of a vector
_UNROLLED = 4  # blocks of an iteration, whose sums stay in registers
_FEW_COLUMNS = 16  # with fewer, most lanes of a kernel's vectors are empty
_AT_ONCE = 1 << 18  # partial sums at once, which fit in a cache


def _settled(x: Array) -> Array:
    """A product or a partial sum: 0 up to 2**-126, as in `float_functions.finish`."""
    of = bits(x)
    return floats(jnp.where(of & np.int32(0x7FFFFFFF) <= LEAST_NORMAL, 0, of))


def _add(x: Array, y: Array) -> Array:
    return _settled(x + y)


def _join(lanes: Array) -> Array:
    """Adds the sums of an axis, which is the first; those that are not there are 0."""

    def folded(x: Array, half: int) -> Array:
        if x.shape[0] <= half:
            return x
        missing = [(0, 2 * half - x.shape[0])] + [(0, 0)] * (x.ndim - 1)
        both = jnp.pad(x, missing)
        return _add(both[:half], both[half:])

    vectors = lanes = ieee.apart(lanes)
    if lanes.shape[0] > 2 * _LANES:  # (0 + 1) + (2 + 3)
        upper = folded(lanes[2 * _LANES :], _LANES)
        missing = [(0, _LANES - upper.shape[0])] + [(0, 0)] * (lanes.ndim - 1)
        vectors = _add(folded(lanes[: 2 * _LANES], _LANES), jnp.pad(upper, missing))
    vectors, half = folded(vectors, _LANES), _LANES // 2
    while half:
        vectors, half = folded(vectors, half), half // 2
    return vectors[0]


def _in_blocks(term: Callable[[Any], Array], depth: int, columns: int, like: Array) -> Array:
    """The sum of blocks of rows, of which a function gives the i-th; rows that lack are 0."""
    if not is_static((depth,)):
        zeros = jnp.zeros((_BLOCK, columns), like.dtype)
        blocks = (depth + _BLOCK - 1) // _BLOCK
        return _join(lax.fori_loop(0, blocks, lambda i, total: _add(total, term(i)), zeros))
    if not depth:
        return jnp.zeros((columns,), like.dtype)

    def step(start: int, count: int, i: Any, total: Array) -> Array:
        for place in range(count):
            total = _add(total, term(start + count * i + place))
        return total

    blocks = -(-depth // _BLOCK)
    first = 1 + (blocks - 1) % _UNROLLED
    total = step(1, first - 1, 0, _settled(term(0)))
    if turns := (blocks - first) // _UNROLLED:
        total = lax.fori_loop(0, turns, functools.partial(step, first, _UNROLLED), total)
    return _join(total)


def _blocks(x: Array, settle: Callable[[Array], Array]) -> Callable[[Any], Array]:
    """Gives the i-th block along the first axis, settled."""
    depth, width = x.shape[0], _BLOCK
    missing = _BLOCK
    if is_static((depth,)):
        width = min(depth, _BLOCK)
        missing = -depth % width if depth else 0
    x = jnp.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1))
    return lambda i: settle(lax.dynamic_slice_in_dim(x, i * width, width))


def _row(x: Array, y: Array) -> Array:
    """The product of a row of K and a matrix of K by N."""
    left, right = _blocks(x, flush), _blocks(y, flush)

    def term(i: Any) -> Array:
        return _settled(left(i)[:, None] * right(i))

    return _in_blocks(term, x.shape[0], y.shape[1], x)


@compat.shared("axes")
def total(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum of float32 along axes, which it keeps with size 1, in the same order.

    Subnormal terms are 0, and so are partial sums up to 2**-126.
    """
    first, last = (min(axes), max(axes) + 1) if axes else (x.ndim, x.ndim)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    if last - first != len(axes):
        others = [axis for axis in range(x.ndim) if axis not in axes]
        x, first, last = x.transpose(*sorted(axes), *others), 0, len(axes)
    sizes = x.shape[:first], x.shape[first:last], x.shape[last:]
    x = x.reshape(tuple(map(math.prod, sizes)))
    alone = tuple((name, each.total) for name, each in kernels.items() if each.takes(x))
    output = jax.ShapeDtypeStruct((x.shape[0], x.shape[2]), x.dtype)
    summed: Array = choice.choose(choice.Alternatives(total_by_columns, alone), output, x)
    return summed.reshape(kept)


def total_by_columns(x: Array) -> Array:
    """The sums along the middle axis of [B, K, N] float32: [B, N], in plain XLA."""
    columns = x.shape[0] * x.shape[2]
    rows = x.swapaxes(0, 1).reshape((x.shape[1], columns))
    summed = _in_blocks(_blocks(ieee.apart(rows), flush), x.shape[1], columns, x)
    return finish(_positive(summed)).reshape((x.shape[0], x.shape[2]))


def _map(function: Callable[[Any], Array], operands: Any, sums_of_each: int) -> Array:
    """Maps the first axis, of which it computes as many elements at once as a cache holds."""
    count = jax.tree.leaves(operands)[0].shape[0]
    at_once = _AT_ONCE // max(sums_of_each, 1) if is_static((count, sums_of_each)) else 0
    if at_once and 0 < count <= at_once:
        return jax.vmap(function)(operands)
    mapped: Array = lax.map(function, operands, batch_size=at_once if at_once > 1 else None)
    return mapped


class Kernel(NamedTuple):
    """A platform's functions that multiply and sum in this order.

    Attributes:
      run: as `multiply_matrices`, of a pair.
      total: as `total_by_columns`.
      takes: says if they run on arrays of these shapes.
    """

    run: Callable[[tuple[Array, Array]], Array]
    total: Callable[[Array], Array]
    takes: Callable[..., bool]


kernels: dict[str, Kernel] = {}
"""Kernels by platform, which the packages of kernels add."""


@compat.shared()
def multiply_matrices(x: Array, y: Array) -> Array:
    """The products of [B, M, K] and [B, K, N] float32: [B, M, N].

    Each has the bits of `dmlax.reproducible.dot`.
    """
    rows, columns = x.shape[1], y.shape[2]
    if is_static((rows, columns)) and columns < rows and columns <= _FEW_COLUMNS:
        swapped = multiply_matrices(y.swapaxes(1, 2), x.swapaxes(1, 2))
        return swapped.swapaxes(1, 2)
    alone = tuple((name, each.run) for name, each in kernels.items() if each.takes(x, y))
    output = jax.ShapeDtypeStruct((*x.shape[:2], columns), x.dtype)
    functions = choice.Alternatives(lambda operands: multiply_by_rows(*operands), alone)
    result: Array = choice.choose(functions, output, (x, y))
    return result


def multiply_by_rows(x: Array, y: Array) -> Array:
    """As `multiply_matrices`, in plain XLA."""
    rows, columns = x.shape[1], y.shape[2]
    if is_static((rows, columns)) and rows > columns:  # the longer axis is the fast one
        return multiply_by_rows(y.swapaxes(1, 2), x.swapaxes(1, 2)).swapaxes(1, 2)

    def by_rows(pair: tuple[Array, Array]) -> Array:
        left, right = pair
        return _map(lambda row: _row(row, right), left, width * columns)

    width = min(x.shape[2], _BLOCK) if is_static(x.shape[2:]) else _BLOCK
    if width == x.shape[2]:
        x, y = ieee.apart(x), ieee.apart(y)
    return finish(_positive(_map(by_rows, (x, y), width * rows * columns)))


def _positive(x: Array) -> Array:
    """A sum that is zero is positive."""
    return jnp.where(x == 0, jnp.zeros_like(x), x)


def dot_general(x: Array, y: Array, dimension_numbers: Any) -> Array:
    """`lax.dot_general` of float32; the summed axes are one, row-major."""
    (x_summed, y_summed), (x_batch, y_batch) = dimension_numbers
    x_free = [axis for axis in range(x.ndim) if axis not in (*x_summed, *x_batch)]
    y_free = [axis for axis in range(y.ndim) if axis not in (*y_summed, *y_batch)]

    def sizes(of: Array, axes: Sequence[int]) -> list[int]:
        return [of.shape[axis] for axis in axes]

    batch, rows, columns = sizes(x, x_batch), sizes(x, x_free), sizes(y, y_free)
    depth = math.prod(sizes(x, x_summed))
    left = x.transpose(*x_batch, *x_free, *x_summed)
    right = y.transpose(*y_batch, *y_summed, *y_free)
    left = left.reshape((math.prod(batch), math.prod(rows), depth))
    right = right.reshape((math.prod(batch), depth, math.prod(columns)))
    return multiply_matrices(left, right).reshape((*batch, *rows, *columns))


class Windows(NamedTuple):
    """The parameters of `lax.conv_general_dilated`; the layouts are permutations."""

    strides: tuple[int, ...]
    padding: Sequence[tuple[int, int]]
    input_dilations: tuple[int, ...]
    dilations: tuple[int, ...]
    layouts: Any
    groups: int


@compat.shared("windows")
def convolve(x: Array, w: Array, windows: Windows) -> Array:
    """A convolution of float32: the channels of a tap are added in turn, then the next tap's.

    Pixels of the padding are terms, too. One image at a time is laid out as a matrix.
    """
    x, w = x.transpose(windows.layouts.lhs_spec), w.transpose(windows.layouts.rhs_spec)
    pads = [
        (*pad, step - 1) for pad, step in zip(windows.padding, windows.input_dilations, strict=True)
    ]
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *pads])
    kernel, groups, inputs = w.shape[2:], windows.groups, w.shape[1]
    steps = windows.strides, windows.dilations
    output = tuple(
        (size - (tap - 1) * dilation - 1) // stride + 1
        for size, tap, stride, dilation in zip(x.shape[2:], kernel, *steps, strict=True)
    )
    pixels = math.prod(output)
    outputs, depth = w.shape[0] // groups, math.prod(kernel) * inputs
    filters = jnp.moveaxis(w.reshape((groups, outputs, inputs, math.prod(kernel))), 3, 1)
    filters = filters.swapaxes(2, 3).reshape((groups, depth, outputs))

    def of_image(image: Array) -> Array:
        parts = [
            image[(slice(None), *tap_slices(tap, output, *steps))].reshape((groups, inputs, pixels))
            for tap in taps(kernel)
        ]
        matrix = jnp.concatenate(parts, axis=1)  # groups, taps and channels, pixels
        product = multiply_matrices(filters.swapaxes(1, 2), matrix)
        return product.reshape((w.shape[0], *output))

    y = of_image(x[0])[None] if x.shape[0] == 1 else lax.map(of_image, x)
    return y.transpose(np.argsort(windows.layouts.out_spec))
