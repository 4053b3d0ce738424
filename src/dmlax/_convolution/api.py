"""convolution_integer and quantized_linear_convolution."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._convolution import reference, xla
from dmlax._convolution.cpu import lowering as native_cpu
from dmlax._convolution.cuda import lowering as mosaic_gpu
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
    output_partition,
    parse_layouts,
)
from dmlax._convolution.prepare import pack_constant, to_filter_zero_point
from dmlax._convolution.prepared_filter import PreparedFilter
from dmlax._core import compat, dispatch, eager, requantize
from dmlax._core.arguments import Aval, Rules, aval_of, is_static, to_integers
from dmlax._core.keywords import name_right_keywords
from dmlax._core.prepared_weights import Prepared
from dmlax._core.windows import dilated_size, same_padding

_INTEGER = Rules("convolution_integer")
_QUANTIZED = Rules("quantized_linear_convolution")
_FILTER = FIELDS.filter
_DEAD_CHANNEL = "a dead channel has scale 1 and a zero filter and bias"
_LOWERINGS = (
    dispatch.kernel("native_cpu", native_cpu.run, native_cpu.why_not, "cpu"),
    dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
    dispatch.Lowering("xla", xla.run),
    dispatch.Lowering("reference", reference.run, reference.why_not, ("cpu", "tpu")),
)
INTEGER, QUANTIZED = (
    dispatch.Operator(rules.operator, _LOWERINGS, partition=output_partition)
    for rules in (_INTEGER, _QUANTIZED)
)


class _Windows(NamedTuple):
    """The options of the windows, as given."""

    strides: Any
    dilations: Any
    start_padding: Any
    end_padding: Any
    padding: Any


def _leaves(filter: Any) -> tuple[Any, ...]:
    return filter.arrays if isinstance(filter, PreparedFilter) else ()


@name_right_keywords
@eager.jit_eager_calls(*Convolution._fields, leaves=_leaves)
def convolution_integer(
    input: ArrayLike,
    filter: ArrayLike | PreparedFilter,
    /,
    *,
    input_zero_point: ArrayLike | None = None,
    filter_zero_point: ArrayLike | None = None,
    strides: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    start_padding: int | Sequence[int] | None = None,
    end_padding: int | Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] | None = None,
    group_count: int = 1,
    dimension_numbers: Any = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Convolves 8-bit tensors less their zero points into int32.

    The sum of `(input - input_zero_point) * (filter - filter_zero_point)` over each window, in
    int32, wrapping. A padded pixel is the input zero point.

    Args:
      input: int8 or uint8, (N, C, height, width), or as `dimension_numbers` says.
      filter: int8 or uint8, (K, C / group_count, height, width); or a `PreparedFilter`.
      input_zero_point: of the input's dtype, one value; default 0.
      filter_zero_point: of the filter's dtype, one value or one per output channel; default 0.
      strides: the step between windows in pixels, one integer or one for each spatial axis;
        default 1.
      dilations: the step between the filter's taps in pixels, likewise; default 1.
      start_padding: pixels before each spatial axis; default 0.
      end_padding: pixels after each spatial axis; default 0.
      padding: both as in `jax.lax`, instead of these: "SAME", "SAME_LOWER", "VALID", or a pair
        (start, end) for each spatial axis.
      group_count: the number of groups, a static integer that divides K and C.
      dimension_numbers: as in `jax.lax`; default channels first: ("NCHW", "OIHW", "NCHW"), or
        ("NCW", "OIW", "NCW") for an input and a filter of rank 3. A prepared filter holds it.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int32, (N, K, height, width), each `(size + start + end - span) // stride + 1`, where span
      is `(kernel - 1) * dilation + 1`.

    Raises:
      SpecError: code `data_type`, `dimension_count` or `sizes` (the tensor's field), `option`
        (Strides, Dilations, StartPadding, EndPadding, padding, GroupCount, dimension_numbers),
        `value` (a Python or NumPy zero point out of range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_CONVOLUTION_INTEGER_OPERATOR_DESC. Accepted beyond the page: any layout, the
      filter zero point per channel in any shape with one size above 1, rank 3 as {N, C, W}.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where a GPU of compute capability 9.0 is attached; or xla
      in an export, over several devices, or where no kernel is available. tpu: xla. reference runs
      where named, not on cuda.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([[[[1, 2], [3, 4]]]], jnp.uint8)
      >>> w = jnp.ones((1, 1, 2, 2), jnp.int8)
      >>> dmlax.convolution_integer(x, w, input_zero_point=1, start_padding=(1, 1)).tolist()
      [[[[0, 1], [2, 6]]]]
    """
    arguments = Convolution(
        input, filter, input_zero_point=input_zero_point, filter_zero_point=filter_zero_point
    )
    windows = _Windows(strides, dilations, start_padding, end_padding, padding)
    plan, operands = _bind(_INTEGER, arguments, windows, group_count, dimension_numbers)
    return dispatch.call(INTEGER, plan, operands, implementation)  # type: ignore[no-any-return]


@name_right_keywords
@eager.jit_eager_calls(*Convolution._fields, leaves=_leaves)
def quantized_linear_convolution(
    input: ArrayLike,
    filter: ArrayLike | PreparedFilter,
    bias: ArrayLike | None = None,
    /,
    *,
    input_scale: ArrayLike,
    filter_scale: ArrayLike,
    output_scale: ArrayLike,
    input_zero_point: ArrayLike | None = None,
    filter_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    output_dtype: DTypeLike | None = None,
    strides: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    start_padding: int | Sequence[int] | None = None,
    end_padding: int | Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] | None = None,
    group_count: int = 1,
    dimension_numbers: Any = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Convolves quantized tensors and quantizes the result, correctly rounded.

    `clamp(round((acc + bias) * input_scale * filter_scale / output_scale) + output_zero_point)`,
    where acc is `convolution_integer`'s sum, `round` is to nearest, ties to even, of the real
    number, and the clamp is the output dtype's range.

    Args:
      input: int8 or uint8, (N, C, height, width), or as `dimension_numbers` says.
      filter: int8 or uint8, (K, C / group_count, height, width); or a `PreparedFilter`.
      bias: int32, (K,) or (1, K, 1, 1), in units of input_scale * filter_scale; default 0.
      input_scale: float32, one value, as all scales finite and not zero.
      filter_scale: float32, one value or one per output channel.
      output_scale: float32, one value.
      input_zero_point: of the input's dtype, one value; default 0.
      filter_zero_point: of the filter's dtype, one value or one per output channel; default 0.
      output_zero_point: of the output's dtype, one value; default 0.
      output_dtype: int8 or uint8; default that of an `output_zero_point` array, else the input's.
      strides: the step between windows in pixels, one integer or one for each spatial axis;
        default 1.
      dilations: the step between the filter's taps in pixels, likewise; default 1.
      start_padding: pixels before each spatial axis; default 0. They hold the input zero point.
      end_padding: pixels after each spatial axis; default 0.
      padding: both as in `jax.lax`, instead of these: "SAME", "SAME_LOWER", "VALID", or a pair
        (start, end) for each spatial axis.
      group_count: the number of groups, a static integer that divides K and C.
      dimension_numbers: as in `jax.lax`; default channels first: ("NCHW", "OIHW", "NCHW"), or
        ("NCW", "OIW", "NCW") for an input and a filter of rank 3. A prepared filter holds it.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's CPU kernels:
        `rint(float32(acc + bias) * ((input_scale * filter_scale) / output_scale))`.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int8 or uint8, (N, K, height, width), each `(size + start + end - span) // stride + 1`,
      where span is `(kernel - 1) * dilation + 1`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field), `option` (Strides, Dilations, StartPadding, EndPadding, padding, GroupCount,
        dimension_numbers, arithmetic), `value` (a Python or NumPy scale that is 0, NaN or
        infinite; a Python or NumPy zero point or bias out of range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC. The page leaves `round` open: here ties go
      to even; and a missing zero point: here 0. Accepted beyond the page: any layout, parameters
      in any shape with one size above 1, rank 3 as {N, C, W}. Traced scales that are 0, NaN or
      infinite give unspecified elements.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where a GPU of compute capability 9.0 is attached; or xla
      in an export, over several devices, or where no kernel is available. tpu: xla. reference runs
      where named, not on cuda.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([[[[5, 7, 200]]]], jnp.uint8)
      >>> w = jnp.ones((1, 1, 1, 1), jnp.int8)
      >>> scales = dict(input_scale=0.5, filter_scale=1.0, output_scale=1.0)
      >>> y = dmlax.quantized_linear_convolution(x, w, output_zero_point=1, **scales)
      >>> y.tolist()
      [[[[3, 5, 101]]]]
    """
    arguments = Convolution(
        input,
        filter,
        input_zero_point,
        filter_zero_point,
        bias,
        input_scale,
        filter_scale,
        output_scale,
        output_zero_point,
    )
    _QUANTIZED.expect_choice("arithmetic", arithmetic, requantize.ARITHMETICS)
    windows = _Windows(strides, dilations, start_padding, end_padding, padding)
    plan, operands = _bind(
        _QUANTIZED, arguments, windows, group_count, dimension_numbers, arithmetic, output_dtype
    )
    return dispatch.call(QUANTIZED, plan, operands, implementation)  # type: ignore[no-any-return]


def _bind(
    rules: Rules,
    arguments: Convolution,
    windows: _Windows,
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
    if rules is _QUANTIZED:
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
    return convolution_plan(rules, avals, shape, prepared, options), operands


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
    shape = filter.weights
    groups = f"is {group_count}, but the filter was prepared with {shape.group_count}"
    rules.expect(group_count in (1, shape.group_count), "option", "GroupCount", groups)
    again = "is given again: the prepared filter holds it"
    alone = arguments.filter_zero_point is None
    rules.expect(alone, "option", "FilterZeroPointTensor", again)
    if dimension_numbers is not None:
        layouts = parse_layouts(rules, shape.filter, dimension_numbers)
        other = f"is {dimension_numbers!r}, but the filter was prepared with another"
        rules.expect(layouts == shape.layouts, "option", "dimension_numbers", other)
    leaves: list[Any] = [
        x if x is None else rules.to_array(FIELDS.filter, x) for x in filter.arrays
    ]
    return shape, Prepared(*leaves), tuple(map(_aval, leaves))


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
    rules: Rules, windows: _Windows, input: tuple[int, ...], filter: FilterShape
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
    symbolic = f"is {windows.padding!r}, which a symbolic size leaves open: give pairs (start, end)"
    rules.expect(is_static(missing), "option", "padding", symbolic)
    halves = [(total // 2, total - total // 2) for total in (max(each, 0) for each in missing)]
    lower = windows.padding == "SAME_LOWER"  # the odd pixel comes first
    return strides, dilations, tuple((b, a) if lower else (a, b) for a, b in halves)


def _pairs(rules: Rules, padding: Any, count: int) -> tuple[tuple[int, int], ...]:
    """Converts to a (start, end) pair for each spatial axis."""
    pairs = isinstance(padding, Sequence | np.ndarray) and len(padding) == count
    pairs = pairs and all(isinstance(pair, Sequence | np.ndarray) for pair in padding)
    wanted = f'expected "SAME", "SAME_LOWER", "VALID" or {count} pairs (start, end)'
    rules.expect(pairs, "option", "padding", f"is {padding!r}, {wanted}")
    rows = (to_integers(rules, "padding", pair, 2, 0, 0) for pair in padding)
    return tuple((start, end) for start, end in rows)
