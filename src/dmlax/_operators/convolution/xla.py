"""Convolution in plain XLA: im2col and int8 matrix products; shifted products for depthwise.

On a TPU it is an int8 convolution: that takes windows as they are, and other backends lack it.
Integer sums are unique, so the operands are re-based to int8, padded with the input's zero point,
and multiplied as they are. The zero points' terms are added to the sums (`_Rebased`).
"""

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from dmlax._core import byte_packing, choice, compat, splitting, tuning, windows
from dmlax._core.arguments import decide, is_static, structs
from dmlax._core.byte_packing import pad_end, rebase_of
from dmlax._core.layouts import from_order, has_channels_last, to_order
from dmlax._core.prepared_weights import Prepared
from dmlax._operators.convolution.epilogue import as_channel, epilogue
from dmlax._operators.convolution.merged_groups import merge_groups
from dmlax._operators.convolution.plan import ConvolutionPlan, Operands
from dmlax._operators.convolution.prepare import as_int32, as_prepared, pad_channels, zero_of

# CUDA's int8 product is wrong for lengths that 4 does not divide; it loads 16 bytes.
_CONTRACTION = 16
_INT32_MAX = 2**31 - 1
_MOST_WORDS = 2**31  # int32 addresses the words of a padded image


def run(plan: ConvolutionPlan, operands: Operands) -> Array:
    """Depthwise by shifted products, all else by matrix products, or on a TPU convolutions."""
    if plan.filter.channels == 1:
        return _depthwise(plan, operands)
    functions = choice.Alternatives(
        functools.partial(_by_platform, plan, _images_at_once(plan)),
        partitioned=functools.partial(_partitioned, plan),
    )
    output: Array = choice.choose(functions, structs(plan.output), operands)
    return output


def _partitioned(plan: ConvolutionPlan, operands: Operands) -> Array:
    """Takes the whole batch, parts of which would be gathered, and all channels of its windows."""
    if plan.filter.group_count == 1:
        input = splitting.gather_axis(operands.input, plan.options.input_layout[1])
        operands = operands._replace(input=input)
    return _by_platform(plan, plan.batch, operands)


def _by_platform(plan: ConvolutionPlan, images: int, operands: Operands) -> Array:
    functions = {
        "cpu": functools.partial(_in_parts, plan, images),
        "tpu": functools.partial(_direct, plan),
    }
    words = functools.partial(_by_words, plan)
    return choice.by_platform(operands, structs(plan.output), words, functions)


@dataclass(frozen=True)
class _Rebased:
    """A convolution of int8, whose `sum(x * w)` lacks `offset - filter_zero * sum(x)`.

    Channels are first or last, whichever needs fewer transposes.
    """

    plan: ConvolutionPlan
    operands: Operands
    filter: Prepared
    last: bool
    input_zero: Array  # int8 (), the value of padding
    filter_zero: Array | None  # int32 () or (K,); None: zero
    offset: Array  # int32 (K,)

    @classmethod
    def of(
        cls,
        plan: ConvolutionPlan,
        operands: Operands,
        filter: Prepared | None = None,
        last: bool = False,
    ) -> "_Rebased":
        """Re-bases a plan's operands, or those of a filter that replaces them."""
        filter = filter or as_prepared(plan, operands)
        input_zero = as_int32(operands.input_zero_point) - rebase_of(plan.input.dtype)
        filter_zero = None
        offset = as_int32(operands.bias) - input_zero * filter.sums
        if filter.zero_point is not None or rebase_of(plan.filter.filter.dtype):
            filter_zero = zero_of(plan.filter, filter)
            offset += filter.packed.shape[1] * input_zero * filter_zero
        last = last or has_channels_last(plan.options.input_layout)
        zero = input_zero.astype(jnp.int8)
        return cls(plan, operands, filter, last, zero, filter_zero, offset)

    @property
    def channel(self) -> tuple[int, ...]:
        """Reshapes (K,) to broadcast along the channels of a batch."""
        ones = (1,) * len(self.plan.output_sizes)
        return (1, *ones, -1) if self.last else (1, -1, *ones)

    def pad(self, x: Array, zero: Array) -> Array:
        """Pads an input with pixels that hold the zero point."""
        padding = [(start, end, 0) for start, end in self.plan.options.padding]
        edges = [(0, 0, 0), *padding, (0, 0, 0)] if self.last else [(0, 0, 0)] * 2 + padding
        return lax.pad(x, zero, edges)

    def padded_input(self) -> Array:
        """The input as int8 in the layout, padded with the zero point."""
        x = to_order(self.operands.input, self.plan.options.input_layout, self.last)
        return self.pad(byte_packing.to_int8(x), self.input_zero)

    def finisher(self, channel: tuple[int, ...]) -> Callable[[Array], Array]:
        """Returns sums -> output; `channel` reshapes (K,) to broadcast along the channels."""
        offset = self.offset.reshape(channel)
        requantize = epilogue(self.plan, self.operands, channel)
        return lambda sums: requantize(sums + offset)

    def to_output_layout(self, output: Array) -> Array:
        """Transposes to the plan's layout."""
        return from_order(output, self.plan.options.output_layout, self.last)


def _tap_inputs(plan: ConvolutionPlan, x: Array, last: bool) -> list[Array]:
    """The pixels that every tap of the kernel multiplies, of the output's size."""
    sizes, options, all_taps = plan.output_sizes, plan.options, windows.taps(plan.filter.kernel)
    if not is_static(sizes):
        return [_tap_input(plan, x, last, tap) for tap in all_taps]
    edge = (slice(None),)
    before, after = (edge, edge) if last else (2 * edge, ())
    return [
        x[(*before, *windows.tap_slices(tap, sizes, options.strides, options.dilations), *after)]
        for tap in all_taps
    ]


def _tap_input(plan: ConvolutionPlan, x: Array, last: bool, tap: tuple[int, ...]) -> Array:
    """One tap's pixels of an image whose size is symbolic."""
    for axis, count in enumerate(plan.output_sizes, 1 if last else 2):
        index = axis - (1 if last else 2)
        start = tap[index] * plan.options.dilations[index]
        x = _every(x, start, count, plan.options.strides[index], axis)
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


def _depthwise(plan: ConvolutionPlan, operands: Operands) -> Array:
    """One input channel a group: a product and a sum a tap, all in one pass."""
    call = _Rebased.of(plan, operands)
    repeats, axis = plan.filter.outputs // plan.filter.group_count, -1 if call.last else 1
    weights = call.filter.packed.astype(jnp.int32)
    if call.filter_zero is not None:
        weights -= call.filter_zero.reshape(-1, 1)

    def multiply(tap: int, pixels: Array) -> Array:
        pixels = jnp.repeat(pixels, repeats, axis) if repeats > 1 else pixels
        return pixels.astype(jnp.int32) * weights[:, tap].reshape(call.channel)

    taps = enumerate(_tap_inputs(plan, call.padded_input(), call.last))
    sums = functools.reduce(operator.add, (multiply(tap, pixels) for tap, pixels in taps))
    return call.to_output_layout(call.finisher(call.channel)(sums))


def _direct(plan: ConvolutionPlan, operands: Operands) -> Array:
    """One convolution: im2col is many times the input, in memory and in compile time."""
    call = _Rebased.of(plan, operands)
    x = call.padded_input()
    sums = _convolution(call, x, call.filter.packed)
    if call.filter_zero is not None:
        sums -= _window_sums(call, x) * as_channel(call.filter_zero, call.channel)
    return call.to_output_layout(call.finisher(call.channel)(sums))


def _convolution(call: _Rebased, x: Array, packed: Array) -> Array:
    """int32 sums of products of a padded input."""
    plan, rank = call.plan, x.ndim
    axes = tuple(range(1, rank - 1))
    image = (0, rank - 1, *axes) if call.last else tuple(range(rank))
    return lax.conv_general_dilated(
        x,
        packed.reshape(-1, *plan.filter.kernel, plan.filter.channels),
        plan.options.strides,
        "VALID",
        rhs_dilation=plan.options.dilations,
        dimension_numbers=lax.ConvDimensionNumbers(image, (0, rank - 1, *axes), image),
        feature_group_count=plan.filter.group_count,
        preferred_element_type=jnp.int32,
    )


def _window_sums(call: _Rebased, x: Array) -> Array:
    """Sums of the input's windows, for every group, to broadcast along the channels.

    Products with 1, since the compiler makes a convolution of int32 from sums of int32.
    """
    groups, axis = call.plan.filter.group_count, x.ndim - 1 if call.last else 1
    sums = _convolution(call, x, jnp.ones((groups, call.plan.contraction), jnp.int8))
    return jnp.repeat(sums, call.plan.filter.outputs // groups, axis) if groups > 1 else sums


class _Product(NamedTuple):
    """The right side of the matrix product of every part of a batch, and its epilogue."""

    plan: ConvolutionPlan
    packed: Array  # int8 (groups, K / groups, taps * channels)
    filter_zero: Array | None  # int32, to broadcast to (groups, K / groups)
    finish: Callable[[Array], Array]

    @classmethod
    def of(cls, call: _Rebased) -> "_Product":
        """The product of a call; its rows are windows where channels are last, else its columns."""
        groups, zero, packed = call.plan.filter.group_count, call.filter_zero, call.filter.packed
        if zero is not None:
            zero = zero.reshape(groups, -1) if zero.ndim else zero.reshape(1, 1)
        packed = packed.reshape(groups, packed.shape[0] // groups, packed.shape[1])
        return cls(call.plan, packed, zero, call.finisher((1, -1) if call.last else (-1, 1)))


def _in_parts(plan: ConvolutionPlan, images: int, operands: Operands) -> Array:
    """Convolves some images at a time: im2col, a matrix product, the epilogue."""
    call = _Rebased.of(plan, operands)
    x, product = call.padded_input(), _Product.of(call)
    convolve = functools.partial(_convolve_last if call.last else _convolve_first, product)
    if images == plan.batch:
        output = convolve(x)
    else:
        output = lax.map(convolve, x.reshape(plan.batch // images, images, *x.shape[1:]))
        output = output.reshape(plan.batch, *output.shape[2:])
    return call.to_output_layout(output)


def _images_at_once(plan: ConvolutionPlan) -> int:
    """The largest divisor of the batch with enough columns and no more; all if it is symbolic."""
    if not plan.input.is_static:
        return plan.batch
    pixels = max(math.prod(plan.output_sizes), 1)
    most = max(tuning.PRODUCT_COLUMNS // pixels, 1)
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

    def multiply(rows: Array) -> Array:
        return _finish_rows(product, rows, _multiply(rows, product.packed, contract=2))

    return _multiply_joined(product, x, multiply)


def _multiply_joined(product: _Product, x: Array, multiply: Callable[[Array], Array]) -> Array:
    """(n, spatial, C) -> (n, output, K), by im2col, tap by tap.

    `multiply` takes (groups, n * output, taps * C / groups) and returns (n * output, K).
    """
    plan = product.plan
    groups, channels = plan.filter.group_count, x.shape[-1] // plan.filter.group_count
    taps = _tap_inputs(plan, x, last=True)
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


def _by_words(plan: ConvolutionPlan, operands: Operands) -> Array:
    """Channels last and four at a time, which a GPU moves as fast as one: windows in rows."""
    compat.warn_without_autotuning()
    x = to_order(operands.input, plan.options.input_layout, last=True)
    x, filter = pad_channels(plan, operands, x, as_prepared(plan, operands))
    plan, filter = merge_groups(plan, filter)
    call = _Rebased.of(plan, operands, filter, last=True)
    x = call.pad(byte_packing.pack_int8(x), byte_packing.repeat_byte(call.input_zero))
    product = _Product.of(call)
    packed = _pad_last_to(product.packed, _CONTRACTION)

    def multiply(words: Array) -> Array:
        rows = byte_packing.unpack_int8(_pad_last_to(words, _CONTRACTION // 4))
        products = _multiply(rows, packed, contract=2)
        # CUDA's short products lose a constant that is added to them, if they see it.
        return _finish_rows(product, rows, lax.optimization_barrier(products))

    image = x.shape[1:]
    if plan.filter.taps > 1 and is_static(image) and math.prod(image) < _MOST_WORDS:
        output = multiply(_gather_taps(plan, x))
        output = output.reshape(-1, *plan.output_sizes, plan.filter.outputs)
    else:
        output = _multiply_joined(product, x, multiply)
    return call.to_output_layout(output)


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
    addresses = jnp.zeros((1,), jnp.int32)
    for axis, (count, step) in enumerate(zip(counts, steps, strict=True)):
        pitch = step * math.prod(shape[axis + 2 :]) if count > 1 else 0  # a step may be any number
        steps_along = pitch * lax.broadcasted_iota(jnp.int32, (1, count), 1)
        addresses = (addresses[:, None] + steps_along).reshape(-1)
    return addresses


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
