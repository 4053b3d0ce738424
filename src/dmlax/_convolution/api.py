"""convolution_integer and quantized_linear_convolution."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._convolution import reference, xla
from dmlax._convolution.cpu import lowering as native_cpu
from dmlax._convolution.cuda import lowering as mosaic_gpu
from dmlax._convolution.plan import (
    FIELDS,
    Convolution,
    ConvolutionPlan,
    FilterShape,
    Options,
    convolution_plan,
    filter_shape,
    output_partition,
    parse_layouts,
)
from dmlax._convolution.prepare import to_filter_zero_point
from dmlax._convolution.prepared_filter import Prepared, PreparedFilter
from dmlax._core import dispatch, requantize
from dmlax._core.arguments import Rules, aval_of, to_integers

_INTEGER = Rules("convolution_integer")
_QUANTIZED = Rules("quantized_linear_convolution")
_DEFAULT_LAYOUT = ("NCHW", "OIHW", "NCHW")
_LOWERINGS = (
    dispatch.Lowering("native_cpu", native_cpu.run, native_cpu.why_not, ("cpu",)),
    dispatch.Lowering("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, ("cuda",)),
    dispatch.Lowering("xla", xla.run),
    dispatch.Lowering("reference", reference.run, reference.why_not, ("cpu", "tpu")),
)
INTEGER, QUANTIZED = (
    dispatch.Operator(rules.operator, _LOWERINGS, partition=output_partition)
    for rules in (_INTEGER, _QUANTIZED)
)


def convolution_integer(
    input: ArrayLike,
    filter: ArrayLike | PreparedFilter,
    /,
    *,
    input_zero_point: ArrayLike | None = None,
    filter_zero_point: ArrayLike | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    group_count: int = 1,
    dimension_numbers: Any = _DEFAULT_LAYOUT,
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
      strides: the step between windows in pixels, an integer for each spatial axis; default 1.
      dilations: the step between the filter's taps in pixels, likewise; default 1.
      start_padding: pixels before each spatial axis; default 0.
      end_padding: pixels after each spatial axis; default 0.
      group_count: the number of groups, a static integer that divides K and C.
      dimension_numbers: as in `jax.lax`: of rank 4, or ("NCW", "OIW", "NCW") for rank 3.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int32, (N, K, height, width), each `(size + start + end - span) // stride + 1`, where span
      is `(kernel - 1) * dilation + 1`.

    Raises:
      SpecError: code `data_type`, `dimension_count` or `sizes` (the tensor's field), `option`
        (Strides, Dilations, StartPadding, EndPadding, GroupCount, dimension_numbers), `value` (a
        Python zero point out of range).
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
    windows = (strides, dilations, start_padding, end_padding)
    plan, operands = _bind(_INTEGER, arguments, windows, group_count, dimension_numbers)
    return dispatch.call(INTEGER, plan, operands, implementation)  # type: ignore[no-any-return]


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
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    group_count: int = 1,
    dimension_numbers: Any = _DEFAULT_LAYOUT,
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
      strides: the step between windows in pixels, an integer for each spatial axis; default 1.
      dilations: the step between the filter's taps in pixels, likewise; default 1.
      start_padding: pixels before each spatial axis; default 0. They hold the input zero point.
      end_padding: pixels after each spatial axis; default 0.
      group_count: the number of groups, a static integer that divides K and C.
      dimension_numbers: as in `jax.lax`: of rank 4, or ("NCW", "OIW", "NCW") for rank 3.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's CPU kernels:
        `rint(float32(acc + bias) * ((input_scale * filter_scale) / output_scale))`.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int8 or uint8, (N, K, height, width), each `(size + start + end - span) // stride + 1`,
      where span is `(kernel - 1) * dilation + 1`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field), `option` (Strides, Dilations, StartPadding, EndPadding, GroupCount,
        dimension_numbers, arithmetic), `value` (a Python or NumPy scale that is 0, NaN or
        infinite; a Python zero point out of range).
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
    windows = (strides, dilations, start_padding, end_padding)
    plan, operands = _bind(
        _QUANTIZED, arguments, windows, group_count, dimension_numbers, arithmetic, output_dtype
    )
    return dispatch.call(QUANTIZED, plan, operands, implementation)  # type: ignore[no-any-return]


def _bind(
    rules: Rules,
    arguments: Convolution,
    windows: tuple[Any, Any, Any, Any],
    group_count: Any,
    dimension_numbers: Any,
    arithmetic: requantize.Arithmetic = "exact",
    output_dtype: Any = None,
) -> tuple[ConvolutionPlan, Convolution]:
    """Converts arrays and options to their canonical forms, and plans the call."""
    input = jnp.asarray(rules.to_array("InputTensor", arguments.input))
    rules.expect_dtype("InputTensor", aval_of(input), jnp.int8, jnp.uint8)
    shape, filter, filter_zero_point = _filter(rules, arguments, group_count, dimension_numbers)
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
    canonical = _windows(rules, windows, len(shape.kernel))
    options = Options(*canonical, shape.layouts[0], shape.layouts[2], arithmetic, dtype)
    known = operands._replace(filter=None)
    if filter_zero_point is not None:
        known = known._replace(filter_zero_point=filter_zero_point)
    avals = Convolution(*(None if x is None else aval_of(x) for x in known))
    prepared = isinstance(arguments.filter, PreparedFilter)
    return convolution_plan(rules, avals, shape, prepared, options), operands


def _filter(
    rules: Rules, arguments: Convolution, group_count: Any, dimension_numbers: Any
) -> tuple[FilterShape, Array | Prepared, Array | None]:
    """Takes the filter, raw or prepared, and a prepared one's zero point.

    A prepared filter's options may be left out, or repeated, not contradicted.
    """
    filter = arguments.filter
    group_count = rules.to_integer("GroupCount", group_count, 1)
    if not isinstance(filter, PreparedFilter):
        array = jnp.asarray(rules.to_array("FilterTensor", filter))
        shape = filter_shape(rules, aval_of(array), group_count, _hashable(dimension_numbers))
        return shape, array, None
    shape = filter.filter_shape
    groups = f"is {group_count}, but the filter was prepared with {shape.group_count}"
    rules.expect(group_count in (1, shape.group_count), "option", "GroupCount", groups)
    again = "is given again: the prepared filter holds it"
    alone = arguments.filter_zero_point is None
    rules.expect(alone, "option", "FilterZeroPointTensor", again)
    if _hashable(dimension_numbers) != _DEFAULT_LAYOUT:
        layouts = parse_layouts(rules, shape.filter, dimension_numbers)
        other = f"is {dimension_numbers!r}, but the filter was prepared with another"
        rules.expect(layouts == shape.layouts, "option", "dimension_numbers", other)
    return shape, filter.arrays, filter.arrays.zero_point


def _hashable(dimension_numbers: Any) -> Any:
    return tuple(dimension_numbers) if isinstance(dimension_numbers, list) else dimension_numbers


def _operands(
    rules: Rules,
    arguments: Convolution,
    input: Array,
    filter: Array | Prepared,
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
        found[name] = rules.to_scale(getattr(FIELDS, name), getattr(arguments, name), jnp.float32)
    return Convolution(input, filter, **found)


def _windows(
    rules: Rules, windows: tuple[Any, ...], count: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Converts to strides, dilations and (start, end) padding."""
    strides, dilations, start, end = windows
    start = to_integers(rules, "StartPadding", start, count, 0, 0)
    end = to_integers(rules, "EndPadding", end, count, 0, 0)
    return (
        to_integers(rules, "Strides", strides, count, 1, 1),
        to_integers(rules, "Dilations", dilations, count, 1, 1),
        tuple(zip(start, end, strict=True)),
    )
