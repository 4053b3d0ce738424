"""Checks a convolution and plans it from shapes and dtypes alone."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dmlax._core import windows
from dmlax._core.accumulators import largest_difference, overflow_notes
from dmlax._core.arguments import ABSENT, Aval, OptionalT, Rules, T, decide, renew_avals
from dmlax._core.axis_names import AxisNames, along, placed, whole
from dmlax._core.panels import Packing, PanelShape
from dmlax._core.partitions import partition_by_names
from dmlax._core.prepared_weights import check_arrays
from dmlax._core.requantize import Arithmetic, Requantization

CHANNELS_FIRST = {4: ("NCHW", "OIHW", "NCHW"), 3: ("NCW", "OIW", "NCW")}
INTEGER_RULES = Rules("convolution_integer")
QUANTIZED_RULES = Rules("quantized_linear_convolution")
_EIGHT_BITS = (jnp.int8, jnp.uint8)
_MOST_PRODUCTS = 2**60  # the windows' elements are fewer, and XLA multiplies their sizes in int64


# The axes of N, C, spatial; of O, I, spatial; of N, C, spatial.
Layouts = tuple[tuple[int, ...], ...]


class FilterShape(NamedTuple):
    """A filter's dtype, shape, layout and groups: all that is static of a prepared one."""

    filter: Aval
    layouts: Layouts
    group_count: int
    packing: Packing = "rows"  # the layout of a prepared filter's bytes

    @property
    def specification(self) -> tuple[int, ...]:
        """The axes of O, I and the spatial ones."""
        return self.layouts[1]

    @property
    def outputs(self) -> int:
        """K, the output channels."""
        return self.filter.shape[self.specification[0]]

    @property
    def channels(self) -> int:
        """The input channels of one group."""
        return self.filter.shape[self.specification[1]]

    @property
    def kernel(self) -> tuple[int, ...]:
        """The spatial sizes."""
        return tuple(self.filter.shape[axis] for axis in self.specification[2:])

    @property
    def taps(self) -> int:
        """The positions of the kernel."""
        return math.prod(self.kernel)

    @property
    def panels(self) -> PanelShape:
        """The packed rows as panels."""
        rows = self.outputs // self.group_count
        return PanelShape(self.group_count, rows, self.taps * self.channels)

    @property
    def packed(self) -> tuple[int, int]:
        """The sizes of a prepared one's bytes."""
        rows = self.outputs, self.taps * self.channels
        return self.panels.packed if self.packing == "panels" else rows

    @property
    def layout(self) -> str:
        """The order of the axes, as "OIHW"."""
        names = "OIW" if len(self.specification) == 3 else "OIHW"
        return "".join(names[axis] for axis in inverse(self.specification))

    def __str__(self) -> str:
        return f"{self.filter} {self.layout}, group_count {self.group_count}"


class Convolution(NamedTuple, Generic[T, OptionalT]):
    """The operands of both convolutions; absent ones are None, integer output has no scales."""

    input: T
    filter: T
    input_zero_point: OptionalT = ABSENT
    filter_zero_point: OptionalT = ABSENT
    bias: OptionalT = ABSENT
    input_scale: OptionalT = ABSENT
    filter_scale: OptionalT = ABSENT
    output_scale: OptionalT = ABSENT
    output_zero_point: OptionalT = ABSENT
    threshold: OptionalT = ABSENT  # made of known scales for the lowerings to XLA


Operands = Convolution[Any, Any]  # `filter` is an array or `Prepared`
Avals = Convolution[Aval, Aval | None]
SCALE_DTYPES = dict.fromkeys(("input_scale", "filter_scale", "output_scale"), np.dtype(np.float32))


_OF_OUTPUT = ("bias", "input_scale", "filter_scale", "output_scale", "output_zero_point")


def without_scales(operands: Any) -> Any:
    """The operands of the sums."""
    return operands._replace(**dict.fromkeys((*_OF_OUTPUT, "threshold")))


class Options(NamedTuple):
    """The static options of both convolutions, canonical."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    input_layout: tuple[int, ...]  # the axes of N, C and the spatial ones
    output_layout: tuple[int, ...]
    arithmetic: Arithmetic = "exact"
    requantization: Requantization | None = None
    output_dtype: np.dtype = np.dtype(np.int32)


@dataclass(frozen=True)
class ConvolutionPlan:
    """Everything static that a lowering reads."""

    operands: Avals
    filter: FilterShape
    prepared: bool
    options: Options
    output_sizes: tuple[int, ...]

    @property
    def input(self) -> Aval:
        """The input's dtype and shape."""
        return self.operands.input

    @property
    def batch(self) -> int:
        """N, the number of images."""
        return self.input.shape[self.options.input_layout[0]]

    @property
    def quantized(self) -> bool:
        """True if the output is quantized, not int32."""
        return self.operands.output_scale is not None

    @property
    def output(self) -> Aval:
        """The dtype and shape of the result."""
        sizes = (self.batch, self.filter.outputs, *self.output_sizes)
        shape = windows.replace_axes(sizes, self.options.output_layout, sizes)
        return Aval(self.options.output_dtype, shape)

    @property
    def contraction(self) -> int:
        """The products that one output sums."""
        return self.filter.channels * self.filter.taps

    @property
    def accumulator_bound(self) -> int:
        """Largest magnitude that an accumulator can have, before the bias."""
        operands, weights = self.operands, self.filter.filter.dtype
        x = largest_difference(self.input.dtype, operands.input_zero_point is not None)
        w = largest_difference(weights, operands.filter_zero_point is not None)
        return self.contraction * x * w

    @property
    def sums(self) -> "ConvolutionPlan | None":
        """The plan of the int32 sums that a requantization takes; None without one."""
        if self.options.requantization is None:
            return None
        options = self.options._replace(requantization=None, output_dtype=np.dtype(np.int32))
        return replace(self, operands=without_scales(self.operands), options=options)

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        has_bias = self.operands.bias is not None
        return overflow_notes(self.accumulator_bound, has_bias, self.options.requantization)

    def __str__(self) -> str:
        prepared = " prepared" if self.prepared else ""
        return f"{self.input}, {self.filter}{prepared} -> {self.output}"


@functools.lru_cache(maxsize=4096)
def filter_shape(
    rules: Rules, filter: Aval, group_count: int, dimension_numbers: object
) -> FilterShape:
    """Checks a filter by itself."""
    rules.expect_dtype("FilterTensor", filter, *_EIGHT_BITS)
    rank = len(filter.shape)
    rules.expect(
        rank in (3, 4), "dimension_count", "FilterTensor", f"is {filter}, expected rank 3 or 4"
    )
    shape = FilterShape(filter, parse_layouts(rules, filter, dimension_numbers), group_count)
    rules.expect(filter.is_static, "sizes", "FilterTensor", f"is {filter}, expected static sizes")
    empty = f"is {filter}, expected no size 0"
    rules.expect(filter.size > 0, "sizes", "FilterTensor", empty)
    uneven = f"is {group_count}, expected a divisor of the {shape.outputs} filters of {filter}"
    rules.expect(shape.outputs % group_count == 0, "sizes", "GroupCount", uneven)
    return shape


def parse_layouts(rules: Rules, filter: Aval, dimension_numbers: object) -> Layouts:
    """Returns the axes of N, C, spatial; of O, I, spatial; and of the output, as `lax` does."""
    rank = len(filter.shape)
    if dimension_numbers is None:
        dimension_numbers = CHANNELS_FIRST[rank]
    if not isinstance(dimension_numbers, lax.ConvDimensionNumbers):
        _check_letters(rules, filter, dimension_numbers)
    try:
        numbers = lax.conv_dimension_numbers((1,) * rank, (1,) * rank, dimension_numbers)
    except (TypeError, ValueError, AttributeError):
        _expect_layout(rules, False, dimension_numbers)
    return tuple(numbers.lhs_spec), tuple(numbers.rhs_spec), tuple(numbers.out_spec)


def _check_letters(rules: Rules, filter: Aval, dimension_numbers: object) -> None:
    texts = dimension_numbers if isinstance(dimension_numbers, tuple | list) else ()
    strings = all(isinstance(text, str) for text in texts)
    _expect_layout(rules, strings and len(texts) == 3, dimension_numbers)
    rules.expect(
        len(texts[1]) == len(filter.shape),
        "dimension_count",
        "FilterTensor",
        f"is {filter}, expected rank {len(texts[1])} for dimension_numbers {tuple(texts)}",
    )


def _expect_layout(rules: Rules, good: bool, dimension_numbers: object) -> None:
    wanted = "three orders of the same axes, as ('NCHW', 'OIHW', 'NCHW')"
    rules.expect(
        good, "option", "dimension_numbers", f"is {dimension_numbers!r}, expected {wanted}"
    )


def check_filter_zero_point(rules: Rules, shape: FilterShape, zero_point: Aval | None) -> None:
    """Checks that it is one value or one per output channel, of the filter's dtype."""
    if zero_point is not None:
        rules.expect_dtype("FilterZeroPointTensor", zero_point, shape.filter.dtype)
        _check_per_channel(rules, "FilterZeroPointTensor", zero_point, shape)


def check_prepared(rules: Rules, shape: FilterShape, arrays: Sequence[Aval | None]) -> None:
    """Checks a prepared filter's bytes, sums and zero point."""
    zero = Aval(shape.filter.dtype, (shape.outputs,))
    expected = (
        [Aval(np.dtype(np.int8), shape.packed)],
        [zero._replace(dtype=np.dtype(np.int32))],
        [None, zero, zero._replace(shape=())],
    )
    check_arrays(rules, "FilterTensor", "filters", shape, arrays, expected)


def _check_single(rules: Rules, field: str, aval: Aval) -> None:
    good = aval.size == 1 and len(aval.shape) <= 4
    rules.expect(good, "sizes", field, f"is {aval}, expected one value, as () or (1, 1, 1, 1)")


def _check_per_channel(rules: Rules, field: str, aval: Aval, shape: FilterShape) -> None:
    outputs = shape.outputs
    good = len(aval.shape) <= 4 and aval.size in (1, outputs) and max((1, *aval.shape)) == aval.size
    wanted = f"one value or {outputs}, one per output channel"
    axis = f"axis {shape.specification[0]} of FilterTensor {shape.filter} by dimension_numbers"
    rules.expect(good, "sizes", field, f"is {aval}, expected {wanted}, {axis}")


@functools.lru_cache(maxsize=4096)
def convolution_plan(
    rules: Rules,
    operands: Avals,
    filter: FilterShape,
    prepared: tuple[Aval | None, ...] | None,
    options: Options,
) -> ConvolutionPlan:
    """Checks every tensor against every other, and the output size."""
    if prepared is not None:
        check_prepared(rules, filter, prepared)
        operands = operands._replace(filter_zero_point=prepared[-1])
    _check_input(rules, operands.input, filter, options)
    _check_parameters(rules, operands, filter, options.output_dtype)
    sizes = [
        _output_size(rules, operands.input, filter, options, axis)
        for axis in range(len(filter.kernel))
    ]
    windows.check_padded(rules, operands.input, options.input_layout[2:], options.padding)
    plan = ConvolutionPlan(operands, filter, prepared is not None, options, tuple(sizes))
    products = plan.batch * math.prod(sizes) * filter.outputs * plan.contraction
    text = f"is {plan.output}, sums {products} products"
    rules.expect_at_most(_MOST_PRODUCTS, products, "OutputTensor", text)
    return plan


def _check_input(rules: Rules, input: Aval, filter: FilterShape, options: Options) -> None:
    channels = input.shape[options.input_layout[1]]
    wanted = filter.channels * filter.group_count
    message = (
        f"is {filter.filter}, expected {channels} InputTensor channels / GroupCount "
        f"{filter.group_count} input channels, as InputTensor is {input}"
    )
    rules.expect(channels == wanted, "sizes", "FilterTensor", message)


def _check_parameters(
    rules: Rules, operands: Avals, filter: FilterShape, output_dtype: np.dtype
) -> None:
    check_filter_zero_point(rules, filter, operands.filter_zero_point)
    if operands.bias is not None:
        rules.expect_dtype("BiasTensor", operands.bias, jnp.int32)
        _check_bias(rules, operands.bias, filter)
    dtypes = {"input_zero_point": operands.input.dtype, "output_zero_point": output_dtype}
    for name, field, aval in rules.expect_dtypes(operands, dtypes | SCALE_DTYPES):
        if name == "filter_scale":
            _check_per_channel(rules, field, aval, filter)
        else:
            _check_single(rules, field, aval)


def _check_bias(rules: Rules, bias: Aval, filter: FilterShape) -> None:
    """Checks for (K,), (1, K), (1, K, 1, 1), with rank 3 (1, K, 1), or any shape of one value."""
    outputs = filter.outputs
    allowed = [(outputs,), (1, outputs), (1, outputs, 1, 1)]
    if len(filter.specification) == 3:
        allowed.append((1, outputs, 1))
    good = bias.shape in allowed or (outputs == 1 and bias.shape in ((1,) * 3, (1,) * 4))
    wanted = f"{outputs} values, one per output channel, as ({outputs},) or (1, {outputs}, 1, 1)"
    rules.expect(good, "sizes", "BiasTensor", f"is {bias}, expected {wanted}")


def _output_size(
    rules: Rules, input: Aval, filter: FilterShape, options: Options, axis: int
) -> int:
    size = input.shape[options.input_layout[axis + 2]]
    start, end = options.padding[axis]
    padded = size + start + end
    span = windows.dilated_size(filter.kernel[axis], options.dilations[axis])
    message = (
        f"is {filter.filter}, spans {span} cells at dilation {options.dilations[axis]}, expected "
        f"at most the {padded} of the padded InputTensor {input}"
    )
    rules.expect(decide(lambda: span <= padded, True), "sizes", "FilterTensor", message)
    windows.check_axis(rules, input, padded, options.strides[axis], options.dilations[axis])
    fitting = windows.output_size(padded, span, options.strides[axis])
    if decide(lambda: span <= padded, False):
        return fitting
    return jax.core.max_dim(fitting, 0)  # `lax` computes the size so


def axis_names(plan: ConvolutionPlan, operands: Operands) -> AxisNames:
    """Images and output channels may be split; with groups, the groups first. Panels stay whole."""
    options, outputs = plan.options, plan.filter.outputs
    input = dict(zip(options.input_layout[:2], ("image", "group"), strict=True))
    output = dict(zip(options.output_layout[:2], ("image", _CHANNELS), strict=True))
    rank = len(options.input_layout)
    parameters = operands._replace(input=None, filter=None, threshold=None)
    names = jax.tree.map(lambda x: along(x.shape, _CHANNELS, outputs), parameters)._replace(
        input=placed(input, rank),
        filter=_filter_names(plan, operands.filter),
        threshold=jax.tree.map(whole, operands.threshold),
    )
    return AxisNames(names, placed(output, rank), _pieces(plan))


output_partition = partition_by_names(axis_names)


_CHANNELS = "group.channel"


def _filter_names(plan: ConvolutionPlan, filter: Any) -> Any:
    if not hasattr(filter, "packed"):
        return placed({plan.filter.specification[0]: _CHANNELS}, filter.ndim)
    names = jax.tree.map(lambda x: along(x.shape, _CHANNELS, plan.filter.outputs), filter)
    return names._replace(packed=f"{_CHANNELS} -", sums=_CHANNELS)


def _pieces(plan: ConvolutionPlan) -> tuple[tuple[str, int], ...]:
    """The number of groups, and of pieces of a group: its output channels or its panels."""
    shape = plan.filter.panels
    pieces = shape.pieces if plan.filter.packing == "panels" else shape.rows
    return ("group", shape.groups), ("channel", pieces)


def local_plan(plan: ConvolutionPlan, operands: Operands) -> tuple[ConvolutionPlan, Operands]:
    """Plans for a part of the images and output channels."""
    filter, array = plan.filter, operands.filter
    rows = array.sums if hasattr(array, "packed") else array
    axis = 0 if rows.ndim == 1 else filter.specification[0]
    groups = max(1, filter.group_count * rows.shape[axis] // filter.outputs)
    sizes = windows.replace_axes(
        filter.filter.shape, filter.specification[:1], rows.shape[axis : axis + 1]
    )
    local = filter._replace(filter=filter.filter._replace(shape=sizes), group_count=groups)
    operands = operands._replace(threshold=None)
    # The avals have the prepared filter's.
    zero_point = getattr(array, "zero_point", operands.filter_zero_point)
    avals = renew_avals(plan.operands, operands._replace(filter_zero_point=zero_point))
    return replace(plan, operands=avals, filter=local), operands


def inverse(layout: tuple[int, ...]) -> tuple[int, ...]:
    """The transposition from N, C, spatial to a layout."""
    return tuple(layout.index(axis) for axis in range(len(layout)))
