"""Converts the arguments of the poolings to operands."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import requantize
from dmlax._core.arguments import Rules, aval_of, avals_of, to_integers
from dmlax._pooling.plan import (
    AVERAGE_RULES,
    FIELDS,
    GLOBAL_RULES,
    MAX_RULES,
    Kind,
    Layouts,
    Operands,
    Options,
    Pooling,
    PoolingPlan,
    Windows,
    parse_layouts,
    pooling_plan,
)

Integers = int | Sequence[int]
_KINDS: dict[Rules, Kind] = {
    AVERAGE_RULES: "average",
    GLOBAL_RULES: "global_average",
    MAX_RULES: "max",
}


def plan(
    rules: Rules,
    input: ArrayLike,
    /,
    *,
    include_padding: bool = False,
    output_dtype: DTypeLike | None = None,
    dimension_numbers: object = None,
    arithmetic: requantize.Arithmetic = "exact",
    **others: Any,
) -> tuple[PoolingPlan, Operands]:
    """Plans a call, and returns its operands; `others` are parameters and options of windows."""
    is_bool = f"is {include_padding!r}, expected True or False"
    rules.expect(type(include_padding) is bool, "option", "IncludePadding", is_bool)
    array = rules.to_array(FIELDS.input, input)
    if isinstance(dimension_numbers, list):
        dimension_numbers = tuple(dimension_numbers)
    layouts = parse_layouts(rules, aval_of(array), dimension_numbers)
    parameters = {name: others.pop(name) for name in Pooling._fields if name in others}
    kind = _KINDS[rules]
    if kind == "global_average":
        windows = _whole_image(tuple(array.shape[axis] for axis in layouts.input[2:]))
    else:
        windows = _windows(rules, layouts, **others)
    operands: Operands = Pooling(array)
    dtype = np.dtype(array.dtype)
    if kind != "max":
        rules.expect_choice("arithmetic", arithmetic, requantize.ARITHMETICS)
        arguments = Pooling(array, **parameters)
        dtype = rules.choose_output_dtype(
            output_dtype, FIELDS.output_zero_point, arguments.output_zero_point, dtype
        )
        dtypes = dict.fromkeys(("input_scale", "output_scale"), np.dtype(np.float32))
        dtypes |= {"input_zero_point": array.dtype, "output_zero_point": dtype}
        operands = Pooling(array, **rules.to_parameters(FIELDS, arguments, dtypes))
    options = Options(kind, windows, layouts, include_padding, arithmetic, dtype)
    return pooling_plan(rules, Pooling(*avals_of(operands)), options), operands


def _whole_image(sizes: tuple[int, ...]) -> Windows:
    """One window over all spatial axes."""
    ones = (1,) * len(sizes)
    return Windows(sizes, ones, ones, ((0, 0),) * len(sizes))


def _windows(
    rules: Rules,
    layouts: Layouts,
    window_size: Integers,
    strides: Integers | None = None,
    start_padding: Integers | None = None,
    end_padding: Integers | None = None,
    dilations: Integers | None = None,
) -> Windows:
    """Converts the options of the windows to their canonical forms."""
    count = len(layouts.input) - 2
    is_known = window_size is not None
    rules.expect(is_known, "option", "WindowSize", f"is None, expected {count} integers")
    sizes = to_integers(rules, "WindowSize", window_size, count, 1, 1)
    strides = to_integers(rules, "Strides", strides, count, 1, 1)
    dilations = to_integers(rules, "Dilations", dilations, count, 1, 1)
    start = to_integers(rules, "StartPadding", start_padding, count, 0, 0)
    end = to_integers(rules, "EndPadding", end_padding, count, 0, 0)
    return Windows(sizes, strides, dilations, tuple(zip(start, end, strict=True)))
