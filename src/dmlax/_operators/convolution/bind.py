"""Converts the arguments of the convolutions to operands."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import compat, requantize
from dmlax._core.arguments import ABSENT, Aval, Rules, aval_of, avals_of, is_static, to_integers
from dmlax._core.prepared_weights import Prepared
from dmlax._core.windows import dilated_size, same_padding
from dmlax._operators.convolution.plan import (
    CHANNELS_FIRST,
    INTEGER_RULES,
    SCALE_DTYPES,
    Convolution,
    ConvolutionPlan,
    FilterShape,
    Operands,
    Options,
    check_filter_zero_point,
    convolution_plan,
    filter_shape,
    parse_layouts,
)
from dmlax._operators.convolution.prepare import PACKER, PreparedFilter, to_filter_zero_point

Arguments = Convolution[Any, Any]  # arrays, numbers and a prepared filter
Integers = int | Sequence[int] | None
_ZERO_REMEDIES = {"filter_scale": "a dead channel has scale 1 and a zero filter and bias"}


class Windows(NamedTuple):
    """The options of the windows, as the caller wrote them."""

    strides: Integers
    dilations: Integers
    start_padding: Integers
    end_padding: Integers
    padding: str | Sequence[tuple[int, int]] | None


class Keywords(TypedDict, total=False):
    """The keywords of `plan`, for an operator that begins with a convolution."""

    input_scale: ArrayLike | None
    filter_scale: ArrayLike | None
    output_scale: ArrayLike | None
    input_zero_point: ArrayLike | None
    filter_zero_point: ArrayLike | None
    output_zero_point: ArrayLike | None
    output_dtype: DTypeLike | None
    strides: Integers
    dilations: Integers
    start_padding: Integers
    end_padding: Integers
    padding: str | Sequence[tuple[int, int]] | None
    group_count: int
    dimension_numbers: object
    arithmetic: requantize.Arithmetic


def plan(
    rules: Rules,
    input: ArrayLike,
    filter: ArrayLike | PreparedFilter,
    bias: ArrayLike | None = None,
    *,
    strides: Integers = None,
    dilations: Integers = None,
    start_padding: Integers = None,
    end_padding: Integers = None,
    padding: str | Sequence[tuple[int, int]] | None = None,
    group_count: int = 1,
    dimension_numbers: object = None,
    arithmetic: requantize.Arithmetic = "exact",
    requantization: requantize.Requantization | None = None,
    output_dtype: DTypeLike | None = None,
    **parameters: ArrayLike | None,
) -> tuple[ConvolutionPlan, Operands]:
    """Plans a call, and returns its operands; the parameters are scales and zero points."""
    requantize.check_modes(rules, arithmetic, requantization)
    windows = Windows(strides, dilations, start_padding, end_padding, padding)
    arguments = Convolution(input, filter, bias=bias, **parameters)
    array = rules.to_array("InputTensor", input)
    rules.expect_dtype("InputTensor", aval_of(array), jnp.int8, jnp.uint8)
    shape, weights, prepared = _filter(rules, arguments, array.ndim, group_count, dimension_numbers)
    rank = f"is {aval_of(array)}, expected rank {len(shape.filter.shape)}, as FilterTensor"
    same = array.ndim == len(shape.filter.shape)
    rules.expect(same, "dimension_count", "InputTensor", f"{rank} is {shape.filter}")
    dtype = np.dtype(np.int32)
    if rules != INTEGER_RULES:
        zero_point = arguments.output_zero_point
        dtype = rules.choose_output_dtype(
            output_dtype, "OutputZeroPointTensor", zero_point, array.dtype
        )
    operands = _operands(rules, arguments, array, weights, shape, dtype)
    canonical = _windows(rules, windows, array.shape, shape)
    layouts = shape.layouts[0], shape.layouts[2]
    options = Options(*canonical, *layouts, arithmetic, requantization, dtype)
    avals = Convolution(*avals_of(operands._replace(filter=ABSENT)))
    if isinstance(weights, Array | np.ndarray) and compat.is_constant_of_trace(filter, array):
        check_filter_zero_point(rules, shape, avals.filter_zero_point)
        packed = PACKER.pack_constant(shape, weights, operands.filter_zero_point)
        operands = operands._replace(filter=packed, filter_zero_point=None)
    plan = convolution_plan(rules, avals, shape, prepared, options)
    scales = operands.input_scale, operands.filter_scale, operands.output_scale
    threshold = requantize.factors_of_constants(
        scales, array, arithmetic, requantization=requantization
    )
    return plan, operands._replace(threshold=threshold)


def _filter(
    rules: Rules, arguments: Arguments, input_rank: int, group_count: int, dimension_numbers: object
) -> tuple[FilterShape, Array | Prepared, tuple[Aval | None, ...] | None]:
    """Takes the filter, raw or prepared, and the avals of a prepared filter's arrays."""
    filter = arguments.filter
    group_count = rules.to_integer("GroupCount", group_count, 1)
    if not isinstance(filter, PreparedFilter):
        array = rules.to_array("FilterTensor", filter)
        if dimension_numbers is None:
            dimension_numbers = CHANNELS_FIRST[3 if input_rank == array.ndim == 3 else 4]
        if isinstance(dimension_numbers, list):
            dimension_numbers = tuple(dimension_numbers)
        shape = filter_shape(rules, aval_of(array), group_count, dimension_numbers)
        return shape, array, None
    _expect_as_prepared(rules, filter.weights, arguments, group_count, dimension_numbers)
    to_array = functools.partial(rules.to_array, "FilterTensor")
    arrays: Prepared = jax.tree.map(to_array, filter.arrays)
    return filter.weights, arrays, tuple(avals_of(arrays))


def _expect_as_prepared(
    rules: Rules, shape: FilterShape, arguments: Arguments, group_count: int, layouts: object
) -> None:
    """Refuses options that contradict those with which the filter was prepared."""
    groups = f"is {group_count}, but the filter was prepared with {shape.group_count}"
    rules.expect(group_count in (1, shape.group_count), "option", "GroupCount", groups)
    again = "is given again: the prepared filter holds it"
    alone = arguments.filter_zero_point is None
    rules.expect(alone, "option", "FilterZeroPointTensor", again)
    if layouts is not None:
        same = parse_layouts(rules, shape.filter, layouts) == shape.layouts
        other = f"is {layouts!r}, but the filter was prepared with another"
        rules.expect(same, "option", "dimension_numbers", other)


def _operands(
    rules: Rules,
    arguments: Arguments,
    input: Array,
    filter: Array | Prepared,
    shape: FilterShape,
    dtype: np.dtype,
) -> Operands:
    """Converts every parameter to an array; weakly typed ones take their tensor's dtype."""
    dtypes: dict[str, DTypeLike] = {
        "input_zero_point": input.dtype,
        "bias": jnp.int32,
        "output_zero_point": dtype,
    }
    parameters = rules.to_parameters(arguments, dtypes)
    parameters["filter_zero_point"] = to_filter_zero_point(
        rules, shape, arguments.filter_zero_point
    )
    if dtype != np.int32:
        parameters |= rules.to_parameters(arguments, SCALE_DTYPES, _ZERO_REMEDIES)
    return Convolution(input, filter, **parameters)


def _windows(
    rules: Rules, windows: Windows, input: tuple[int, ...], filter: FilterShape
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Converts to strides, dilations and (start, end) padding."""
    count = len(filter.kernel)
    strides = to_integers(rules, "Strides", windows.strides, count, 1, 1)
    dilations = to_integers(rules, "Dilations", windows.dilations, count, 1, 1)
    if windows.padding is None:
        start = to_integers(rules, "StartPadding", windows.start_padding, count, 0, 0)
        end = to_integers(rules, "EndPadding", windows.end_padding, count, 0, 0)
        return strides, dilations, tuple(zip(start, end, strict=True))
    twice = windows.start_padding is not None or windows.end_padding is not None
    rules.expect(not twice, "option", "padding", "is given, and so is start_padding or end_padding")
    if not isinstance(windows.padding, str):
        return strides, dilations, _pairs(rules, windows.padding, count)
    rules.expect_choice("padding", windows.padding, ("SAME", "SAME_LOWER", "VALID"))
    if windows.padding == "VALID":
        return strides, dilations, ((0, 0),) * count
    sizes = (input[axis] for axis in filter.layouts[0][2:])
    spans = map(dilated_size, filter.kernel, dilations)
    missing = tuple(map(same_padding, sizes, spans, strides))
    return strides, dilations, _same(rules, windows.padding, missing)


def _same(rules: Rules, padding: str, missing: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The missing pixels of an axis, shared by its start and its end."""
    symbolic = f"is {padding!r}, which a symbolic size leaves open: give pairs (start, end)"
    rules.expect(is_static(missing), "option", "padding", symbolic)
    halves = [(pixels // 2, pixels - pixels // 2) for pixels in (max(0, n) for n in missing)]
    lower = padding == "SAME_LOWER"  # the odd pixel comes first
    return tuple((b, a) if lower else (a, b) for a, b in halves)


def _pairs(rules: Rules, padding: object, count: int) -> tuple[tuple[int, int], ...]:
    """Converts to a (start, end) pair per spatial axis."""
    pairs = list(padding) if isinstance(padding, Sequence | np.ndarray) else []
    good = len(pairs) == count and all(isinstance(pair, Sequence | np.ndarray) for pair in pairs)
    wanted = f'expected "SAME", "SAME_LOWER", "VALID" or {count} pairs (start, end)'
    rules.expect(good, "option", "padding", f"is {padding!r}, {wanted}")
    rows = (to_integers(rules, "padding", pair, 2, 0, 0) for pair in pairs)
    return tuple((start, end) for start, end in rows)
