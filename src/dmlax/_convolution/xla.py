"""Convolution in plain XLA: int8 matrix products of packed windows, shifted products for depthwise.

On a TPU it is an int8 convolution: that takes windows as they are, and other backends lack it.
Integer sums are unique, so the operands are re-based to int8, padded with the input's zero point,
multiplied as they are, and the zero points' terms are added back (`_Terms`).
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from dmlax._convolution.epilogue import as_channel, as_int32, epilogue
from dmlax._convolution.plan import Convolution, ConvolutionPlan, inverse
from dmlax._convolution.prepare import Prepared, ready, rebase_of, to_int8
from dmlax._core import compat, windows
from dmlax._core.operands import structs


class Tuning(NamedTuple):
    """What a platform multiplies fast, and rightly."""

    columns: int | None  # output cells a matrix product should have; None: the whole batch
    contraction: int  # its length is padded to a multiple of this


# On a CPU a batch goes through in parts, so that packed windows stay in the caches.
_CPU = Tuning(columns=512, contraction=1)
# Where the compiler splits a batch over devices, parts of it would be gathered first.
_CPU_PARTITIONED = Tuning(columns=None, contraction=1)
# CUDA's int8 product is wrong for lengths that 4 does not divide; 16 bytes is what it loads.
_DEFAULT = Tuning(columns=None, contraction=16)


def run(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """Depthwise by shifted products, all else by matrix products, or on a TPU convolutions."""
    if plan.filter.channels == 1:
        return _depthwise(plan, operands)
    output: Array = compat.choose(
        operands,
        structs(plan.output),
        functools.partial(_by_platform, plan, _CPU),
        partitioned=functools.partial(_by_platform, plan, _CPU_PARTITIONED),
    )
    return output


def _by_platform(plan: ConvolutionPlan, cpu: Tuning, operands: Convolution) -> Array:
    output: Array = lax.platform_dependent(
        operands,
        cpu=functools.partial(_matrix_product, plan, cpu),
        tpu=functools.partial(_direct, plan),
        default=functools.partial(_matrix_product, plan, _DEFAULT),
    )
    return output


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
        """Reshapes (K,) to broadcast along an image's channels."""
        return (-1,) if self.last else (-1, *(1,) * self.spatial)

    def cells(self, slices: tuple[slice, ...]) -> tuple[slice, ...]:
        """Indices of the given cells of every image and channel."""
        every = slice(None)
        return (every, *slices, every) if self.last else (every, every, *slices)


class _Terms(NamedTuple):
    """What `sum(x * w)` of re-based values lacks: `offset - filter_zero * sum(x)`."""

    input_zero: Array  # int8 (): also what padding holds
    filter_zero: Array | None  # int32 () or (K,); None: zero
    offset: Array  # int32 (K,)


def _layout(plan: ConvolutionPlan) -> _Layout:
    spatial = len(plan.output_sizes)
    return _Layout(plan.options.input_layout[1] == spatial + 1, spatial)


def _terms(plan: ConvolutionPlan, operands: Convolution, filter: Prepared) -> _Terms:
    input_zero = as_int32(operands.input_zero_point) - rebase_of(plan.input.dtype)
    rebase = rebase_of(plan.filter.filter.dtype)
    filter_zero = None
    if filter.zero_point is not None or rebase:
        filter_zero = as_int32(filter.zero_point) - rebase
    offset = as_int32(operands.bias) - input_zero * filter.sums
    if filter_zero is not None:
        offset += plan.contraction * input_zero * filter_zero
    return _Terms(input_zero.astype(jnp.int8), filter_zero, offset)


def _padded_input(
    plan: ConvolutionPlan, operands: Convolution, layout: _Layout, input_zero: Array
) -> Array:
    """int8, in the layout, padded cells holding the zero point."""
    axes = [plan.options.input_layout[axis] for axis in layout.order]
    x = jnp.transpose(to_int8(operands.input), axes)
    padding = [(start, end, 0) for start, end in plan.options.padding]
    edges = [(0, 0, 0), *padding, (0, 0, 0)] if layout.last else [(0, 0, 0)] * 2 + padding
    return lax.pad(x, input_zero, edges)


def _tap_inputs(plan: ConvolutionPlan, layout: _Layout, x: Array) -> list[Array]:
    """What each tap of the kernel meets, every one the output's size."""
    sizes, strides, dilations = plan.output_sizes, plan.options.strides, plan.options.dilations
    return [
        x[layout.cells(windows.tap_slices(tap, sizes, strides, dilations))]
        for tap in windows.taps(plan.filter.kernel)
    ]


def _in_output_layout(plan: ConvolutionPlan, layout: _Layout, output: Array) -> Array:
    order = layout.order
    return jnp.transpose(
        output, [order.index(axis) for axis in inverse(plan.options.output_layout)]
    )


def _depthwise(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """One input channel a group: a product and a sum a tap, all in one pass."""
    layout, filter = _layout(plan), ready(plan, operands)
    terms = _terms(plan, operands, filter)
    multiplier = plan.filter.outputs // plan.filter.group_count
    x = _padded_input(plan, operands, layout, terms.input_zero)
    weights = filter.packed.astype(jnp.int32)
    if terms.filter_zero is not None:
        weights -= terms.filter_zero.reshape(-1, 1)
    channel_axis = -1 if layout.last else 1
    accumulator = as_channel(terms.offset, layout.channel)
    for tap, cells in enumerate(_tap_inputs(plan, layout, x)):
        cells = jnp.repeat(cells, multiplier, channel_axis) if multiplier > 1 else cells
        accumulator += cells.astype(jnp.int32) * weights[:, tap].reshape(layout.channel)
    output = epilogue(plan, operands, layout.channel)(accumulator)
    return _in_output_layout(plan, layout, output)


def _direct(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """One convolution: packed windows are many times the input, in memory and in compile time."""
    layout, filter = _layout(plan), ready(plan, operands)
    terms = _terms(plan, operands, filter)
    x = _padded_input(plan, operands, layout, terms.input_zero)
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
    """What every part of a batch is multiplied with, and what follows."""

    plan: ConvolutionPlan
    contraction: int  # the length is padded to a multiple of this
    packed: Array  # int8 (groups, K / groups, taps * channels), padded
    filter_zero: Array | None  # int32, to broadcast to (groups, K / groups)
    finish: Callable[[Array], Array]


def _matrix_product(plan: ConvolutionPlan, tuning: Tuning, operands: Convolution) -> Array:
    """Images in parts of the batch: pack their windows, multiply, finish."""
    layout, filter = _layout(plan), ready(plan, operands)
    terms = _terms(plan, operands, filter)
    x = _padded_input(plan, operands, layout, terms.input_zero)
    product = _product(plan, tuning, operands, filter, terms)
    convolve = functools.partial(_convolve_last if layout.last else _convolve_first, product)
    images = _images_at_once(plan, tuning)
    if images == plan.batch:
        output = convolve(x)
    else:
        output = lax.map(convolve, x.reshape(plan.batch // images, images, *x.shape[1:]))
        output = output.reshape(plan.batch, *output.shape[2:])
    return _in_output_layout(plan, layout, output)


def _product(
    plan: ConvolutionPlan, tuning: Tuning, operands: Convolution, filter: Prepared, terms: _Terms
) -> _Product:
    groups, outputs = plan.filter.group_count, plan.filter.outputs
    packed = filter.packed.reshape(groups, outputs // groups, plan.contraction)
    packed = _pad_to(packed, 2, tuning.contraction)
    zero = terms.filter_zero
    if zero is not None:
        zero = zero.reshape(groups, -1) if zero.ndim else zero.reshape(1, 1)
    channel = (-1,) if _layout(plan).last else (-1, 1)
    offset, rescale = terms.offset.reshape(channel), epilogue(plan, operands, channel)
    return _Product(plan, tuning.contraction, packed, zero, lambda acc: rescale(acc + offset))


def _images_at_once(plan: ConvolutionPlan, tuning: Tuning) -> int:
    """The largest divisor of the batch with enough columns and no more."""
    cells = max(math.prod(plan.output_sizes), 1)
    if tuning.columns is None or plan.batch == 0:
        return plan.batch
    most = max(tuning.columns // cells, 1)
    return max(n for n in range(1, min(most, plan.batch) + 1) if plan.batch % n == 0)


def _convolve_first(product: _Product, x: Array) -> Array:
    """(n, C, spatial) -> (n, K, output): the filter times the windows, a window a column."""
    plan = product.plan
    groups, channels = plan.filter.group_count, plan.filter.channels
    taps = _tap_inputs(plan, _layout(plan), jnp.swapaxes(x, 0, 1))
    # Reshaped after they are joined: XLA on a CPU copies whole rows of slices, not of reshapes.
    taps = [tap.reshape(groups, channels, *tap.shape[1:]) for tap in taps]
    columns = jnp.concatenate(taps, 1).reshape(groups, plan.contraction, -1)
    columns = _pad_to(columns, 1, product.contraction)
    accumulator = _multiply(product.packed, columns, contract=1)
    if product.filter_zero is not None:
        sums = columns.sum(axis=1, keepdims=True, dtype=jnp.int32)
        accumulator -= sums * product.filter_zero[:, :, None]
    output = product.finish(accumulator.reshape(plan.filter.outputs, -1))
    return jnp.swapaxes(output.reshape(plan.filter.outputs, -1, *plan.output_sizes), 0, 1)


def _convolve_last(product: _Product, x: Array) -> Array:
    """(n, spatial, C) -> (n, output, K): the windows times the filter, a window a row."""
    plan = product.plan
    groups, channels = plan.filter.group_count, plan.filter.channels
    taps = _tap_inputs(plan, _layout(plan), x)
    taps = [tap.reshape(*tap.shape[:-1], groups, channels) for tap in taps]
    rows = jnp.concatenate(taps, -1).reshape(-1, groups, plan.contraction)
    rows = jnp.swapaxes(_pad_to(rows, 2, product.contraction), 0, 1)
    accumulator = _multiply(rows, product.packed, contract=2)
    if product.filter_zero is not None:
        sums = rows.sum(axis=2, keepdims=True, dtype=jnp.int32)
        accumulator -= sums * product.filter_zero[:, None, :]
    accumulator = jnp.swapaxes(accumulator, 0, 1).reshape(-1, plan.filter.outputs)
    return product.finish(accumulator).reshape(-1, *plan.output_sizes, plan.filter.outputs)


def _pad_to(x: Array, axis: int, multiple: int) -> Array:
    """Zeros after `x` up to a multiple."""
    missing = -x.shape[axis] % multiple
    edges = [(0, missing if axis == i else 0, 0) for i in range(x.ndim)]
    return lax.pad(x, jnp.int8(0), edges) if missing else x


def _multiply(left: Array, right: Array, contract: int) -> Array:
    """int32 products a group, of int8 rows with int8 columns (contract 1) or rows (2)."""
    if left.shape[0] == 1:  # a batch of one would miss the fast path
        axes = ((1,), (contract - 1,)), ((), ())
        return lax.dot_general(left[0], right[0], axes, preferred_element_type=jnp.int32)[None]
    grouped = ((2,), (contract,)), ((0,), (0,))
    return lax.dot_general(left, right, grouped, preferred_element_type=jnp.int32)
