"""Convolution in plain XLA: im2col and int8 matrix products; shifted products for depthwise.

On a TPU it is an int8 convolution: that takes windows as they are, and other backends lack it.
Integer sums are unique, so the operands are re-based to int8, padded with the input's zero point,
multiplied as they are, and the zero points' terms are added back (`_Terms`).
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from dmlax._convolution.epilogue import as_channel, epilogue
from dmlax._convolution.merged_groups import merge_groups
from dmlax._convolution.plan import Convolution, ConvolutionPlan, inverse
from dmlax._convolution.prepare import (
    as_int32,
    as_prepared,
    pad_channels,
    zero_of,
)
from dmlax._core import compat, windows
from dmlax._core.arguments import decide, is_static, structs
from dmlax._core.byte_packing import (
    pack_int8,
    pad_end,
    rebase_of,
    repeat_byte,
    to_int8,
    unpack_int8,
)
from dmlax._core.prepared_weights import Prepared

# Output pixels of a matrix product on a CPU: so many images' im2col windows stay in the caches.
_COLUMNS = 512
# CUDA's int8 product is wrong for lengths that 4 does not divide; 16 bytes is what it loads.
_CONTRACTION = 16
_INT32_MAX = 2**31 - 1
_MOST_WORDS = 2**31  # of a padded image, so that int32 addresses them


def run(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """Depthwise by shifted products, all else by matrix products, or on a TPU convolutions."""
    if plan.filter.channels == 1:
        return _depthwise(plan, operands)
    output: Array = compat.choose(
        operands,
        structs(plan.output),
        functools.partial(_by_platform, plan, _images_at_once(plan)),
        partitioned=functools.partial(_partitioned, plan),
    )
    return output


def _partitioned(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """Takes the whole batch, parts of which would be gathered, and all channels of its windows."""
    if plan.filter.group_count == 1:
        input = compat.gather_axis(operands.input, plan.options.input_layout[1])
        operands = operands._replace(input=input)
    return _by_platform(plan, plan.batch, operands)


def _by_platform(plan: ConvolutionPlan, images: int, operands: Convolution) -> Array:
    own = {
        "cpu": functools.partial(_in_parts, plan, images),
        "tpu": functools.partial(_direct, plan),
    }
    words = functools.partial(_by_words, plan)
    return compat.by_platform(operands, structs(plan.output), words, own)


class _Layout(NamedTuple):
    """Channels first or last, whichever the input is nearer to."""

    last: bool
    spatial: int

    @property
    def order(self) -> tuple[int, ...]:
        """The transposition from N, C, spatial."""
        axes = tuple(range(2, self.spatial + 2))
        return (0, *axes, 1) if self.last else (0, 1, *axes)

    @property
    def channel(self) -> tuple[int, ...]:
        """Reshapes (K,) to broadcast along the channels of a batch."""
        ones = (1,) * self.spatial
        return (1, *ones, -1) if self.last else (1, -1, *ones)

    def pixels(self, slices: tuple[slice, ...]) -> tuple[slice, ...]:
        """Indices of the given pixels of every image and channel."""
        every = slice(None)
        return (every, *slices, every) if self.last else (every, every, *slices)


class _Terms(NamedTuple):
    """The terms that `sum(x * w)` of re-based values lacks: `offset - filter_zero * sum(x)`."""

    input_zero: Array  # int8 (): also what padding holds
    filter_zero: Array | None  # int32 () or (K,); None: zero
    offset: Array  # int32 (K,)


def _layout(plan: ConvolutionPlan, last: bool = False) -> _Layout:
    spatial = len(plan.output_sizes)
    return _Layout(last or plan.options.input_layout[1] == spatial + 1, spatial)


def _terms(plan: ConvolutionPlan, operands: Convolution, filter: Prepared) -> _Terms:
    input_zero = as_int32(operands.input_zero_point) - rebase_of(plan.input.dtype)
    filter_zero = None
    if filter.zero_point is not None or rebase_of(plan.filter.filter.dtype):
        filter_zero = zero_of(plan.filter, filter)
    offset = as_int32(operands.bias) - input_zero * filter.sums
    if filter_zero is not None:
        offset += filter.packed.shape[1] * input_zero * filter_zero
    return _Terms(input_zero.astype(jnp.int8), filter_zero, offset)


def _in_layout(plan: ConvolutionPlan, layout: _Layout, input: Array) -> Array:
    return jnp.transpose(input, [plan.options.input_layout[axis] for axis in layout.order])


def _pad(plan: ConvolutionPlan, layout: _Layout, x: Array, input_zero: Array) -> Array:
    """Pads an input with pixels that hold the zero point."""
    padding = [(start, end, 0) for start, end in plan.options.padding]
    edges = [(0, 0, 0), *padding, (0, 0, 0)] if layout.last else [(0, 0, 0)] * 2 + padding
    return lax.pad(x, input_zero, edges)


def _pad_input(
    plan: ConvolutionPlan, operands: Convolution, layout: _Layout, input_zero: Array
) -> Array:
    """Converts to int8 in the layout, and pads with the zero point."""
    return _pad(plan, layout, to_int8(_in_layout(plan, layout, operands.input)), input_zero)


def _tap_inputs(plan: ConvolutionPlan, layout: _Layout, x: Array) -> list[Array]:
    """The pixels that each tap of the kernel multiplies, each of the output's size."""
    sizes, strides, dilations = plan.output_sizes, plan.options.strides, plan.options.dilations
    if not is_static(sizes):
        return [_tap_input(plan, layout, x, tap) for tap in windows.taps(plan.filter.kernel)]
    return [
        x[layout.pixels(windows.tap_slices(tap, sizes, strides, dilations))]
        for tap in windows.taps(plan.filter.kernel)
    ]


def _tap_input(plan: ConvolutionPlan, layout: _Layout, x: Array, tap: tuple[int, ...]) -> Array:
    """One tap's pixels of an image whose size is symbolic."""
    first = 1 if layout.last else 2
    for axis, count in enumerate(plan.output_sizes):
        start = tap[axis] * plan.options.dilations[axis]
        x = _every(x, start, count, plan.options.strides[axis], first + axis)
    return x


def _every(x: Array, start: int, count: int, stride: int, axis: int) -> Array:
    """Takes `count` pixels along an axis, `stride` apart.

    A symbolic count that may be 0 is no slice that JAX can decide, so it takes them by address.
    """
    limit = start + (count - 1) * stride + 1
    if decide(lambda: limit <= x.shape[axis], False) and decide(lambda: count > 0, False):
        return lax.slice_in_dim(x, start, limit, stride, axis)
    if not decide(lambda: x.shape[axis] > 0, False):  # a gather wants a pixel, read or not
        x = lax.pad(x, x.dtype.type(0), [(0, int(i == axis), 0) for i in range(x.ndim)])
    start, stride = min(start, _INT32_MAX), min(stride, _INT32_MAX)
    addresses = start + stride * lax.broadcasted_iota(jnp.int32, (count,), 0)
    return jnp.take(x, addresses, axis, mode="clip")


def _in_output_layout(plan: ConvolutionPlan, layout: _Layout, output: Array) -> Array:
    order = layout.order
    return jnp.transpose(
        output, [order.index(axis) for axis in inverse(plan.options.output_layout)]
    )


def _depthwise(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """One input channel a group: a product and a sum a tap, all in one pass."""
    layout, filter = _layout(plan), as_prepared(plan, operands)
    terms = _terms(plan, operands, filter)
    multiplier = plan.filter.outputs // plan.filter.group_count
    x = _pad_input(plan, operands, layout, terms.input_zero)
    weights = filter.packed.astype(jnp.int32)
    if terms.filter_zero is not None:
        weights -= terms.filter_zero.reshape(-1, 1)
    channel_axis = -1 if layout.last else 1
    accumulator = as_channel(terms.offset, layout.channel)
    for tap, pixels in enumerate(_tap_inputs(plan, layout, x)):
        pixels = jnp.repeat(pixels, multiplier, channel_axis) if multiplier > 1 else pixels
        accumulator += pixels.astype(jnp.int32) * weights[:, tap].reshape(layout.channel)
    output = epilogue(plan, operands, layout.channel)(accumulator)
    return _in_output_layout(plan, layout, output)


def _direct(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """One convolution: im2col is many times the input, in memory and in compile time."""
    layout, filter = _layout(plan), as_prepared(plan, operands)
    terms = _terms(plan, operands, filter)
    x = _pad_input(plan, operands, layout, terms.input_zero)
    accumulator = _convolution(plan, layout, x, filter.packed)
    if terms.filter_zero is not None:
        zero = as_channel(terms.filter_zero, layout.channel)
        accumulator -= _window_sums(plan, layout, x) * zero
    accumulator += as_channel(terms.offset, layout.channel)
    output = epilogue(plan, operands, layout.channel)(accumulator)
    return _in_output_layout(plan, layout, output)


def _convolution(plan: ConvolutionPlan, layout: _Layout, x: Array, packed: Array) -> Array:
    """int32 sums of products of a padded input."""
    filter = packed.reshape(-1, *plan.filter.kernel, plan.filter.channels)
    axes = tuple(range(1, layout.spatial + 1))
    image = (0, layout.spatial + 1, *axes) if layout.last else tuple(range(layout.spatial + 2))
    return lax.conv_general_dilated(
        x,
        filter,
        plan.options.strides,
        "VALID",
        rhs_dilation=plan.options.dilations,
        dimension_numbers=lax.ConvDimensionNumbers(image, (0, layout.spatial + 1, *axes), image),
        feature_group_count=plan.filter.group_count,
        preferred_element_type=jnp.int32,
    )


def _window_sums(plan: ConvolutionPlan, layout: _Layout, x: Array) -> Array:
    """int32 sums of a padded input's windows, for each group, to broadcast along the channels.

    Products with 1, since the compiler makes a convolution of int32 from sums of int32.
    """
    groups, axis = plan.filter.group_count, layout.spatial + 1 if layout.last else 1
    sums = _convolution(plan, layout, x, jnp.ones((groups, plan.contraction), jnp.int8))
    return jnp.repeat(sums, plan.filter.outputs // groups, axis) if groups > 1 else sums


class _Product(NamedTuple):
    """The right side of the matrix product of every part of a batch, and its epilogue."""

    plan: ConvolutionPlan
    packed: Array  # int8 (groups, K / groups, taps * channels)
    filter_zero: Array | None  # int32, to broadcast to (groups, K / groups)
    finish: Callable[[Array], Array]


def _product(
    plan: ConvolutionPlan,
    operands: Convolution,
    filter: Prepared,
    terms: _Terms,
    channel: tuple[int, ...],
) -> _Product:
    groups, outputs = plan.filter.group_count, plan.filter.outputs
    zero = terms.filter_zero
    if zero is not None:
        zero = zero.reshape(groups, -1) if zero.ndim else zero.reshape(1, 1)
    packed = filter.packed.reshape(groups, outputs // groups, filter.packed.shape[1])
    offset, requantize = terms.offset.reshape(channel), epilogue(plan, operands, channel)
    return _Product(plan, packed, zero, lambda accumulator: requantize(accumulator + offset))


def _in_parts(plan: ConvolutionPlan, images: int, operands: Convolution) -> Array:
    """Convolves some images at a time: im2col, a matrix product, the epilogue."""
    layout, filter = _layout(plan), as_prepared(plan, operands)
    terms = _terms(plan, operands, filter)
    x = _pad_input(plan, operands, layout, terms.input_zero)
    product = _product(plan, operands, filter, terms, (1, -1) if layout.last else (-1, 1))
    convolve = functools.partial(_convolve_last if layout.last else _convolve_first, product)
    if images == plan.batch:
        output = convolve(x)
    else:
        output = lax.map(convolve, x.reshape(plan.batch // images, images, *x.shape[1:]))
        output = output.reshape(plan.batch, *output.shape[2:])
    return _in_output_layout(plan, layout, output)


def _images_at_once(plan: ConvolutionPlan) -> int:
    """The largest divisor of the batch with enough columns and no more; all if it is symbolic."""
    if not plan.input.is_static:
        return plan.batch
    pixels = max(math.prod(plan.output_sizes), 1)
    most = max(_COLUMNS // pixels, 1)
    parts = (n for n in range(1, min(most, plan.batch) + 1) if plan.batch % n == 0)
    return max(parts, default=plan.batch)


def _convolve_first(product: _Product, x: Array) -> Array:
    """(n, C, spatial) -> (n, K, output): the filter times the windows, a window a column."""
    plan = product.plan
    columns = _join_axes(plan, jnp.swapaxes(x, 0, 1))
    multiply = functools.partial(_multiply_columns, product)
    if not is_static(plan.output_sizes):
        return jnp.swapaxes(_map_axes(multiply, columns, 2, 1), 0, 1)
    output = multiply(columns.reshape(*columns.shape[:2], -1))
    return jnp.swapaxes(output.reshape(plan.filter.outputs, -1, *plan.output_sizes), 0, 1)


def _multiply_columns(product: _Product, columns: Array) -> Array:
    """(groups, taps * C / groups, n * output) -> (K, n * output)."""
    accumulator = _multiply(product.packed, columns, contract=1)
    if product.filter_zero is not None:
        sums = columns.sum(axis=1, keepdims=True, dtype=jnp.int32)
        accumulator -= sums * product.filter_zero[:, :, None]
    return product.finish(accumulator.reshape(product.plan.filter.outputs, -1))


def _map_axes(function: Callable[[Array], Array], x: Array, axis: int, out_axis: int) -> Array:
    """Maps over all spatial axes but the last, as symbolic sizes have no comparable product."""
    for _ in range(x.ndim - 3):
        function = jax.vmap(function, axis, out_axis)
    return function(x)


def _join_axes(plan: ConvolutionPlan, x: Array) -> Array:
    """(C, n, spatial) -> (groups, taps * C / groups, n, output): im2col, one axis at a time.

    XLA on a CPU compiles a kernel for every slice, and a kernel has fewer rows than taps.
    """
    options, groups = plan.options, plan.filter.group_count
    x = x.reshape(groups, plan.filter.channels, *x.shape[1:])
    for axis in reversed(range(len(plan.output_sizes))):
        count, stride = plan.output_sizes[axis], options.strides[axis]
        starts = (tap * options.dilations[axis] for tap in range(plan.filter.kernel[axis]))
        x = jnp.concatenate([_every(x, start, count, stride, axis + 3) for start in starts], 1)
    return x


def _convolve_last(product: _Product, x: Array) -> Array:
    """(n, spatial, C) -> (n, output, K): the windows times the filter, a window a row."""
    return _multiply_joined(product, x, functools.partial(_multiply_rows, product))


def _multiply_rows(product: _Product, rows: Array) -> Array:
    return _finish_rows(product, rows, _multiply(rows, product.packed, contract=2))


def _multiply_joined(product: _Product, x: Array, multiply: Callable[[Array], Array]) -> Array:
    """(n, spatial, C) -> (n, output, K), by im2col, tap by tap.

    `multiply` is given (groups, n * output, taps * C / groups) and returns (n * output, K).
    """
    plan = product.plan
    groups, channels = plan.filter.group_count, x.shape[-1] // plan.filter.group_count
    taps = _tap_inputs(plan, _layout(plan, last=True), x)
    taps = [tap.reshape(*tap.shape[:-1], groups, channels) for tap in taps]
    rows = jnp.concatenate(taps, -1)
    if not is_static(plan.output_sizes):
        return _map_axes(lambda rows: multiply(jnp.swapaxes(rows, 0, 1)), rows, 0, 0)
    rows = rows.reshape(-1, groups, plan.filter.taps * channels)
    return multiply(jnp.swapaxes(rows, 0, 1)).reshape(-1, *plan.output_sizes, plan.filter.outputs)


def _finish_rows(product: _Product, rows: Array, accumulator: Array) -> Array:
    """(groups, n * output, K / groups) -> (n * output, K); the rows are for the windows' sums."""
    if product.filter_zero is not None:
        sums = rows.sum(axis=2, keepdims=True, dtype=jnp.int32)
        accumulator -= sums * product.filter_zero[:, None, :]
    accumulator = jnp.swapaxes(accumulator, 0, 1).reshape(-1, product.plan.filter.outputs)
    return product.finish(accumulator)


def _by_words(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """Channels last and four at a time, which a GPU moves as fast as one: windows in rows."""
    layout = _layout(plan, last=True)
    x = _in_layout(plan, layout, operands.input)
    x, filter = pad_channels(plan, operands, x, as_prepared(plan, operands))
    plan, filter = merge_groups(plan, filter)
    terms = _terms(plan, operands, filter)
    x = _pad(plan, layout, pack_int8(x), repeat_byte(terms.input_zero))
    product = _product(plan, operands, filter, terms, (1, -1))
    packed = _pad_last_to(product.packed, _CONTRACTION)

    def multiply(words: Array) -> Array:
        rows = unpack_int8(_pad_last_to(words, _CONTRACTION // 4))
        products = _multiply(rows, packed, contract=2)
        # CUDA's short products lose a constant that is added to each of them, if they see it.
        return _finish_rows(product, rows, lax.optimization_barrier(products))

    image = x.shape[1:]
    if plan.filter.taps > 1 and is_static(image) and math.prod(image) < _MOST_WORDS:
        output = multiply(_gather_taps(plan, x))
        output = output.reshape(-1, *plan.output_sizes, plan.filter.outputs)
    else:
        output = _multiply_joined(product, x, multiply)
    return _in_output_layout(plan, layout, output)


def _gather_taps(plan: ConvolutionPlan, x: Array) -> Array:
    """(n, spatial, words) -> (groups, n * output, taps * words / groups), by their addresses.

    A GPU's threads that join taps take turns where one word's tap is not the next one's.
    """
    options, groups = plan.options, plan.filter.group_count
    pixels = _addresses(x.shape, plan.output_sizes, options.strides)
    taps = _addresses(x.shape, plan.filter.kernel, options.dilations)
    words = jnp.arange(x.shape[-1], dtype=jnp.int32).reshape(groups, 1, -1)
    within = (taps.reshape(1, -1, 1) + words).reshape(groups, 1, -1)
    images = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    rows = images.at[:, pixels.reshape(1, -1, 1) + within].get(mode="promise_in_bounds")
    return jnp.swapaxes(rows, 0, 1).reshape(groups, x.shape[0] * pixels.size, within.shape[-1])


def _addresses(shape: tuple[int, ...], counts: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """The addresses of pixels, `steps` apart, row by row in an image of (n, spatial, words)."""
    found = jnp.zeros((1,), jnp.int32)
    for axis, (count, step) in enumerate(zip(counts, steps, strict=True)):
        pitch = step * math.prod(shape[axis + 2 :]) if count > 1 else 0  # a step may be any number
        steps_along = pitch * lax.broadcasted_iota(jnp.int32, (1, count), 1)
        found = (found[:, None] + steps_along).reshape(-1)
    return found


def _pad_last_to(x: Array, multiple: int) -> Array:
    """Zeros after the last axis up to a multiple."""
    return pad_end(x, -x.shape[-1] % multiple)


def _multiply(left: Array, right: Array, contract: int) -> Array:
    """int32 products a group, of int8 rows with int8 columns (contract 1) or rows (2)."""
    if left.shape[0] == 1:  # a batch of one would miss the fast path
        axes = ((1,), (contract - 1,)), ((), ())
        return lax.dot_general(left[0], right[0], axes, preferred_element_type=jnp.int32)[None]
    grouped = ((2,), (contract,)), ((0,), (0,))
    return lax.dot_general(left, right, grouped, preferred_element_type=jnp.int32)
