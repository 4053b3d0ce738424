"""Checks a pooling and plans it from shapes and dtypes alone."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import lt
from typing import Any, Generic, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import windows
from dmlax._core.arguments import (
    ABSENT,
    MOST_SIZE,
    Aval,
    OptionalT,
    Rules,
    T,
    aval_of,
    avals_of,
    decide,
    to_integers,
)
from dmlax._core.axis_names import AxisNames, along, placed
from dmlax._core.partitions import partition_by_names
from dmlax._core.plans import BasePlan
from dmlax._core.requantize import Arithmetic, check_modes
from dmlax.errors import UnsupportedError

Kind = Literal["average", "global_average", "max"]
Integers = int | Sequence[int]
_MOST_ELEMENTS = (2**31 - 1) // 255  # the sum of a window of so many elements fits int32

AVERAGE_RULES = Rules("quantized_linear_average_pooling")
GLOBAL_RULES = Rules("quantized_linear_global_average_pooling")
MAX_RULES = Rules("max_pooling")
_KINDS: dict[Rules, Kind] = {
    AVERAGE_RULES: "average",
    GLOBAL_RULES: "global_average",
    MAX_RULES: "max",
}


class Pooling(NamedTuple, Generic[T, OptionalT]):
    """The operands of every pooling; absent ones are None, a maximum has the input only."""

    input: T
    input_scale: OptionalT = ABSENT
    output_scale: OptionalT = ABSENT
    input_zero_point: OptionalT = ABSENT
    output_zero_point: OptionalT = ABSENT


Operands = Pooling[Array, Any]  # parameters are there where the kind has them
Avals = Pooling[Aval, Aval | None]


class Windows(NamedTuple):
    """The windows along every spatial axis."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    @property
    def elements(self) -> int:
        """The elements of a window."""
        return math.prod(self.size)


class Layouts(NamedTuple):
    """The axes of N, C and the spatial ones."""

    input: tuple[int, ...]
    output: tuple[int, ...]


MeanRequantization = Literal["fixed_point_double"]


class Options(NamedTuple):
    """The static options of every pooling, canonical."""

    kind: Kind
    windows: Windows
    layouts: Layouts
    include_padding: bool
    arithmetic: Arithmetic
    output_dtype: np.dtype
    requantization: MeanRequantization | None = None


@dataclass(frozen=True)
class PoolingPlan(BasePlan):
    """Everything static that a lowering reads."""

    operands: Avals
    options: Options
    output_sizes: tuple[int, ...]

    @property
    def input(self) -> Aval:
        """The input's dtype and shape."""
        return self.operands.input

    @property
    def windows(self) -> Windows:
        """The windows along every spatial axis."""
        return self.options.windows

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        """The spatial axes of the input."""
        return self.options.layouts.input[2:]

    @property
    def pooled_shape(self) -> tuple[int, ...]:
        """The output's shape in the input's layout."""
        return windows.replace_axes(self.input.shape, self.spatial_axes, self.output_sizes)

    @property
    def to_output_layout(self) -> tuple[int, ...]:
        """The transposition from the input's layout to the output's."""
        layouts = self.options.layouts
        return tuple(layouts.input[layouts.output.index(axis)] for axis in range(len(self.shape)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The input's shape."""
        return self.input.shape

    @property
    def output(self) -> Aval:
        """The dtype and shape of the result."""
        pooled = self.pooled_shape
        shape = tuple(pooled[axis] for axis in self.to_output_layout)
        return Aval(self.options.output_dtype, shape)

    @property
    def counts_padding(self) -> bool:
        """True if every window has the same number of elements."""
        return self.options.include_padding or not any(map(any, self.windows.padding))

    def spread(self, parameter: Array) -> Array:
        """Reshapes one value or one per channel so that it broadcasts to the input; None stays."""
        if parameter is None:
            return None
        ones, channels = (1,) * len(self.shape), self.options.layouts.input[1]
        return parameter.reshape(windows.replace_axes(ones, [channels], [parameter.size]))

    def __str__(self) -> str:
        size = "x".join(map(str, self.windows.size))
        return f"{self.input}, windows of {size} -> {self.output}"


@functools.lru_cache(maxsize=4096)
def parse_layouts(rules: Rules, input: Aval, dimension_numbers: object) -> Layouts:
    """Checks the input's dtype and rank, and returns the axes of both sides."""
    rules.expect_dtype("InputTensor", input, jnp.int8, jnp.uint8)
    rank = len(input.shape)
    wanted = f"is {input}, expected rank 3 to 5"
    rules.expect(3 <= rank <= 5, "dimension_count", "InputTensor", wanted)
    if dimension_numbers is None:
        return Layouts(tuple(range(rank)), tuple(range(rank)))
    orders = _orders(dimension_numbers)
    if orders is not None:
        longest = max(map(len, orders))
        text = f"is {input}, expected rank {longest} for dimension_numbers {dimension_numbers!r}"
        rules.expect(rank == longest, "dimension_count", "InputTensor", text)
    try:
        axes = lax.conv_dimension_numbers((1,) * rank, (1,) * rank, orders or dimension_numbers)
    except (TypeError, ValueError, AttributeError):
        wanted = "one order of axes, as 'NHWC', or the convolution's three"
        rules.fail("option", "dimension_numbers", f"is {dimension_numbers!r}, expected {wanted}")
    return Layouts(tuple(axes.lhs_spec), tuple(axes.out_spec))


def _orders(dimension_numbers: object) -> tuple[str, str, str] | None:
    """The three orders of a convolution with these axes; None if they are no text."""
    if isinstance(dimension_numbers, str):
        filter = dimension_numbers.replace("N", "O").replace("C", "I")
        return dimension_numbers, filter, dimension_numbers
    orders = dimension_numbers if isinstance(dimension_numbers, tuple) else ()
    if len(orders) != 3 or not all(isinstance(order, str) and order for order in orders):
        return None
    return orders


@functools.lru_cache(maxsize=4096)
def pooling_plan(rules: Rules, operands: Avals, options: Options) -> PoolingPlan:
    """Checks every tensor against every other, and the output size."""
    _check_sizes(rules, operands.input, options)
    _check_parameters(rules, operands, options)
    sizes = tuple(
        _output_size(rules, operands.input, options, axis)
        for axis in range(len(options.windows.size))
    )
    windows.check_padded(rules, operands.input, options.layouts.input[2:], options.windows.padding)
    elements = options.windows.elements
    if options.kind == "max":
        rules.expect_at_most(MOST_SIZE, elements, "WindowSize", f"has {elements} elements")
    elif not decide(lambda: elements <= _MOST_ELEMENTS, True):
        text = f"WindowSize has {elements} elements, expected at most {_MOST_ELEMENTS}"
        raise UnsupportedError(f"{rules.operator}: {text}, whose sum fits int32")
    return PoolingPlan(operands, options, sizes)


def _check_sizes(rules: Rules, input: Aval, options: Options) -> None:
    """Checks that there are pixels: without images or channels the output is empty."""
    for axis in options.layouts.input[2:]:
        size = input.shape[axis]
        text = f"is {input}, expected no spatial axis of size 0"
        rules.expect(decide(functools.partial(lt, 0, size), True), "sizes", "InputTensor", text)


def parameter_dtypes(input: np.dtype, output: np.dtype) -> dict[str, np.dtype]:
    """The dtypes of all scales and zero points, for tensors of these dtypes."""
    scales = dict.fromkeys(("input_scale", "output_scale"), np.dtype(np.float32))
    return scales | {"input_zero_point": input, "output_zero_point": output}


def _check_parameters(rules: Rules, operands: Avals, options: Options) -> None:
    channels = operands.input.shape[options.layouts.input[1]]
    dtypes = parameter_dtypes(operands.input.dtype, options.output_dtype)
    for _, field, aval in rules.expect_dtypes(operands, dtypes):
        good = len(aval.shape) <= 5 and sum(size != 1 for size in aval.shape) <= 1
        good = good and aval.size in (1, channels)
        wanted = f"one value or {channels}, one per channel"
        rules.expect(good, "sizes", field, f"is {aval}, expected {wanted}")


def _output_size(rules: Rules, input: Aval, options: Options, axis: int) -> int:
    size = input.shape[options.layouts.input[axis + 2]]
    of = options.windows
    start, end = of.padding[axis]
    padded = size + start + end
    span = windows.dilated_size(of.size[axis], of.dilations[axis])
    message = (
        f"is {of.size}, spans {span} pixels at dilation {of.dilations[axis]}, expected at most "
        f"the {padded} of the padded InputTensor {input}"
    )
    rules.expect(decide(lambda: span <= padded, True), "sizes", "WindowSize", message)
    remedy = f'{message}; give symbolic_shape the constraint "{size} >= {span - start - end}"'
    rules.expect(decide(lambda: span <= padded, False), "sizes", "WindowSize", remedy)
    windows.check_axis(rules, input, padded, of.strides[axis], of.dilations[axis])
    return windows.output_size(padded, span, of.strides[axis])


def axis_names(plan: PoolingPlan, operands: Operands) -> AxisNames:
    """Images and channels may be split."""
    channels = plan.shape[plan.options.layouts.input[1]]
    input, output = (
        placed({axes[0]: "image", axes[1]: "channel"}, len(axes)) for axes in plan.options.layouts
    )
    parameters = jax.tree.map(lambda x: along(x.shape, "channel", channels), operands[1:])
    return AxisNames((input, *parameters), output)


output_partition = partition_by_names(axis_names)


def local_plan(plan: PoolingPlan, operands: Operands) -> tuple[PoolingPlan, Operands]:
    """Plans for a part of the images and channels."""
    return replace(plan, operands=Pooling(*avals_of(operands))), operands


def plan(
    rules: Rules,
    input: ArrayLike,
    *,
    window_size: Integers | None = None,
    strides: Integers | None = None,
    start_padding: Integers | None = None,
    end_padding: Integers | None = None,
    dilations: Integers | None = None,
    include_padding: bool = False,
    output_dtype: DTypeLike | None = None,
    dimension_numbers: object = None,
    arithmetic: Arithmetic = "exact",
    requantization: MeanRequantization | None = None,
    **parameters: ArrayLike | None,
) -> tuple[PoolingPlan, Operands]:
    """Plans a call, and returns its operands; the parameters are scales and zero points."""
    is_bool = f"is {include_padding!r}, expected True or False"
    rules.expect(type(include_padding) is bool, "option", "IncludePadding", is_bool)
    array = rules.to_array("InputTensor", input)
    if isinstance(dimension_numbers, list):
        dimension_numbers = tuple(dimension_numbers)
    layouts = parse_layouts(rules, aval_of(array), dimension_numbers)
    kind = _KINDS[rules]
    if kind == "global_average":
        windows = _whole_image(tuple(array.shape[axis] for axis in layouts.input[2:]))
    else:
        given = window_size, strides, start_padding, end_padding, dilations
        windows = _windows(rules, len(layouts.input) - 2, *given)
    operands: Operands = Pooling(array)
    dtype = np.dtype(array.dtype)
    if kind != "max":
        check_modes(rules, arithmetic, requantization, get_args(MeanRequantization))
        arguments: Pooling[Any, Any] = Pooling(array, **parameters)
        dtype = rules.choose_output_dtype(
            output_dtype, "OutputZeroPointTensor", arguments.output_zero_point, dtype
        )
        dtypes = parameter_dtypes(array.dtype, dtype)
        operands = Pooling(array, **rules.to_parameters(arguments, dtypes))
    modes = arithmetic, dtype, requantization
    options = Options(kind, windows, layouts, include_padding, *modes)
    return pooling_plan(rules, Pooling(*avals_of(operands)), options), operands


def _whole_image(sizes: tuple[int, ...]) -> Windows:
    """One window over all spatial axes."""
    ones = (1,) * len(sizes)
    return Windows(sizes, ones, ones, ((0, 0),) * len(sizes))


def _windows(
    rules: Rules,
    count: int,
    window_size: Integers | None,
    strides: Integers | None,
    start_padding: Integers | None,
    end_padding: Integers | None,
    dilations: Integers | None,
) -> Windows:
    """Converts the options of the windows to their canonical forms."""
    is_known = window_size is not None
    rules.expect(is_known, "option", "WindowSize", f"is None, expected {count} integers")
    sizes = to_integers(rules, "WindowSize", window_size, count, 1, 1)
    strides = to_integers(rules, "Strides", strides, count, 1, 1)
    dilations = to_integers(rules, "Dilations", dilations, count, 1, 1)
    start = to_integers(rules, "StartPadding", start_padding, count, 0, 0)
    end = to_integers(rules, "EndPadding", end_padding, count, 0, 0)
    return Windows(sizes, strides, dilations, tuple(zip(start, end, strict=True)))
