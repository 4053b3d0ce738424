"""Binds a convolution's arguments: converts them to their canonical forms, and plans the call."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._convolution.plan import (
    CHANNELS_FIRST,
    FIELDS,
    Convolution,
    ConvolutionPlan,
    FilterShape,
    Options,
    check_filter_zero_point,
    convolution_plan,
    filter_shape,
    parse_layouts,
)
from dmlax._convolution.prepare import pack_constant, to_filter_zero_point
from dmlax._convolution.prepared_filter import PreparedFilter
from dmlax._core import compat, requantize
from dmlax._core.arguments import Aval, Rules, aval_of, is_static, to_integers
from dmlax._core.prepared_weights import Prepared
from dmlax._core.windows import dilated_size, same_padding

INTEGER_RULES = Rules("convolution_integer")
_DEAD_CHANNEL = "a dead channel has scale 1 and a zero filter and bias"


class Windows(NamedTuple):
    """The options of the windows, as given."""

    strides: Any
    dilations: Any
    start_padding: Any
    end_padding: Any
    padding: Any


def leaves(filter: Any) -> tuple[Any, ...]:
    """The arrays of a prepared filter."""
    return filter.arrays if isinstance(filter, PreparedFilter) else ()


def bind(
    rules: Rules,
    arguments: Convolution,
    windows: Windows,
    group_count: Any,
    dimension_numbers: Any,
    arithmetic: requantize.Arithmetic = "exact",
    output_dtype: Any = None,
) -> tuple[ConvolutionPlan, Convolution]:
    """Converts arrays and options to their canonical forms, and plans the call."""
    input = rules.to_array("InputTensor", arguments.input)
    rules.expect_dtype("InputTensor", aval_of(input), jnp.int8, jnp.uint8)
    shape, filter, prepared = _filter(rules, arguments, input.ndim, group_count, dimension_numbers)
    rank = f"is {aval_of(input)}, expected rank {len(shape.filter.shape)}, as FilterTensor"
    same = input.ndim == len(shape.filter.shape)
    rules.expect(same, "dimension_count", "InputTensor", f"{rank} is {shape.filter}")
    dtype = np.dtype(np.int32)
    if rules != INTEGER_RULES:
        zero_point = arguments.output_zero_point
        dtype = rules.choose_output_dtype(
            output_dtype, FIELDS.output_zero_point, zero_point, input.dtype
        )
    operands = _operands(rules, arguments, input, filter, shape, dtype)
    canonical = _windows(rules, windows, input.shape, shape)
    options = Options(*canonical, shape.layouts[0], shape.layouts[2], arithmetic, dtype)
    avals = Convolution(*map(_aval, operands._replace(filter=None)))
    if compat.is_constant_of_trace(arguments.filter, input):
        check_filter_zero_point(rules, shape, avals.filter_zero_point)
        packed = pack_constant(shape, filter, operands.filter_zero_point)
        operands = operands._replace(filter=packed, filter_zero_point=None)
    plan = convolution_plan(rules, avals, shape, prepared, options)
    scales = operands.input_scale, operands.filter_scale, operands.output_scale
    threshold = requantize.threshold_of_constants(scales, input, arithmetic)
    return plan, operands._replace(threshold=threshold)


def _aval(array: Any) -> Aval | None:
    return None if array is None else aval_of(array)


def _filter(
    rules: Rules, arguments: Convolution, input_rank: int, group_count: Any, dimension_numbers: Any
) -> tuple[FilterShape, Array | np.ndarray | Prepared, tuple[Aval | None, ...] | None]:
    """Takes the filter, raw or prepared, and the avals of a prepared one's arrays.

    A prepared filter's options may be left out, or repeated, not contradicted.
    """
    filter = arguments.filter
    group_count = rules.to_integer("GroupCount", group_count, 1)
    if not isinstance(filter, PreparedFilter):
        array = rules.to_array("FilterTensor", filter)
        if dimension_numbers is None:
            dimension_numbers = CHANNELS_FIRST[3 if input_rank == array.ndim == 3 else 4]
        shape = filter_shape(rules, aval_of(array), group_count, _hashable(dimension_numbers))
        return shape, array, None
    _expect_as_prepared(rules, filter.weights, arguments, group_count, dimension_numbers)
    leaves: list[Any] = [
        x if x is None else rules.to_array(FIELDS.filter, x) for x in filter.arrays
    ]
    return filter.weights, Prepared(*leaves), tuple(map(_aval, leaves))


def _expect_as_prepared(
    rules: Rules, shape: FilterShape, arguments: Convolution, group_count: int, layouts: Any
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


def _hashable(dimension_numbers: Any) -> Any:
    return tuple(dimension_numbers) if isinstance(dimension_numbers, list) else dimension_numbers


def _operands(
    rules: Rules,
    arguments: Convolution,
    input: Array | np.ndarray,
    filter: Array | np.ndarray | Prepared,
    shape: FilterShape,
    dtype: np.dtype,
) -> Convolution:
    """Converts every parameter to an array; weakly typed ones take their tensor's dtype."""
    quantized = dtype != np.int32
    dtypes = Convolution(
        input=input.dtype,
        filter=None,
        input_zero_point=input.dtype,
        bias=jnp.int32,
        output_zero_point=dtype,
    )
    found = {
        name: rules.to_parameter(getattr(FIELDS, name), getattr(arguments, name), wanted)
        for name, wanted in dtypes._asdict().items()
        if name not in ("input", "filter") and wanted is not None
    }
    found["filter_zero_point"] = to_filter_zero_point(rules, shape, arguments.filter_zero_point)
    for name in ("input_scale", "filter_scale", "output_scale") if quantized else ():
        remedy = _DEAD_CHANNEL if name == "filter_scale" else ""
        field, value = getattr(FIELDS, name), getattr(arguments, name)
        found[name] = rules.to_scale(field, value, jnp.float32, remedy)
    return Convolution(input, filter, **found)


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
    missing = list(map(same_padding, sizes, spans, strides))
    return strides, dilations, _same(rules, windows.padding, missing)


def _same(rules: Rules, padding: str, missing: list[Any]) -> tuple[tuple[int, int], ...]:
    """The missing pixels of each axis, shared by its start and its end."""
    symbolic = f"is {padding!r}, which a symbolic size leaves open: give pairs (start, end)"
    rules.expect(is_static(missing), "option", "padding", symbolic)
    halves = [(total // 2, total - total // 2) for total in (max(each, 0) for each in missing)]
    lower = padding == "SAME_LOWER"  # the odd pixel comes first
    return tuple((b, a) if lower else (a, b) for a, b in halves)


def _pairs(rules: Rules, padding: Any, count: int) -> tuple[tuple[int, int], ...]:
    """Converts to a (start, end) pair for each spatial axis."""
    pairs = isinstance(padding, Sequence | np.ndarray) and len(padding) == count
    pairs = pairs and all(isinstance(pair, Sequence | np.ndarray) for pair in padding)
    wanted = f'expected "SAME", "SAME_LOWER", "VALID" or {count} pairs (start, end)'
    rules.expect(pairs, "option", "padding", f"is {padding!r}, {wanted}")
    rows = (to_integers(rules, "padding", pair, 2, 0, 0) for pair in padding)
    return tuple((start, end) for start, end in rows)
