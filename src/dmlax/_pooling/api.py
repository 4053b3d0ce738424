"""The average poolings of quantized tensors, and max_pooling of 8 bits."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import dispatch, eager, requantize
from dmlax._core.arguments import Rules, aval_of, to_integers
from dmlax._core.keywords import name_right_keywords
from dmlax._cpu import library
from dmlax._pooling import reference, xla
from dmlax._pooling.cpu import lowering as native_cpu
from dmlax._pooling.cuda import lowering as mosaic_gpu
from dmlax._pooling.plan import (
    FIELDS,
    Kind,
    Layouts,
    Options,
    Pooling,
    PoolingPlan,
    Windows,
    output_partition,
    parse_layouts,
    pooling_plan,
)

_AVERAGE = Rules("quantized_linear_average_pooling")
_GLOBAL = Rules("quantized_linear_global_average_pooling")
_MAX = Rules("max_pooling")


def _operator(
    rules: Rules, kernels: tuple[dispatch.Lowering, ...], fast: Any, definition: Any
) -> dispatch.Operator:
    lowerings = dispatch.Lowering("xla", fast), dispatch.Lowering("reference", definition)
    return dispatch.Operator(rules.operator, (*kernels, *lowerings), partition=output_partition)


_AVERAGE_ON_CPU, _MAX_ON_CPU = (
    dispatch.kernel("native_cpu", run, library.why_not_for, "cpu")
    for run in (native_cpu.average, native_cpu.maximum)
)
_MAX_ON_GPU = dispatch.kernel("mosaic_gpu", mosaic_gpu.maximum, mosaic_gpu.why_not, "cuda")
AVERAGE, GLOBAL = (
    _operator(rules, (_AVERAGE_ON_CPU,), xla.average, reference.average)
    for rules in (_AVERAGE, _GLOBAL)
)
MAX = _operator(_MAX, (_MAX_ON_CPU, _MAX_ON_GPU), xla.maximum, reference.maximum)


@eager.jit_eager_calls(*Pooling._fields)
@name_right_keywords
def quantized_linear_average_pooling(
    input: ArrayLike,
    /,
    *,
    window_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    start_padding: int | Sequence[int] | None = None,
    end_padding: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    include_padding: bool = False,
    input_scale: ArrayLike,
    output_scale: ArrayLike,
    input_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    output_dtype: DTypeLike | None = None,
    dimension_numbers: Any = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Averages the windows of a quantized tensor and quantizes the result, correctly rounded.

    `clamp(round(S * input_scale / (output_scale * n)) + output_zero_point)`, where S is the sum of
    `input - input_zero_point` over a window of n elements, `round` is to nearest, ties to even, of
    the real number, and the clamp is the output dtype's range. A padded element is the input zero
    point, so it adds nothing to S.

    Args:
      input: int8 or uint8, (N, C, spatial ...) of rank 3 to 5, or as `dimension_numbers` says.
      window_size: elements of a window, one integer or one for each spatial axis.
      strides: the step between windows, likewise; default 1.
      start_padding: elements before each spatial axis; default 0.
      end_padding: elements after each spatial axis; default 0.
      dilations: the step between a window's elements; default 1.
      include_padding: True if n counts padded elements. Else n is smaller at the border; where it
        is 0, the result is the output zero point.
      input_scale: float32, one value or one per channel, as all scales finite and not zero.
      output_scale: float32, one value or one per channel.
      input_zero_point: of the input's dtype, one value or one per channel; default 0.
      output_zero_point: of the output's dtype, one value or one per channel; default 0.
      output_dtype: int8 or uint8; default that of an `output_zero_point` array, else the input's.
      dimension_numbers: the axes of input and output, as "NHWC", or the convolution's three orders,
        of which the filter's is not read; default channels first.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's QLinearAveragePool: reals in
        float32, added row-major, `rint(sum / n / output_scale + output_zero_point)`.
      implementation: "auto", or exactly one of "native_cpu", "xla", "reference".

    Returns:
      int8 or uint8, (N, C, spatial ...), each `(size + start + end - span) // stride + 1`, where
      span is `(window - 1) * dilation + 1`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field; WindowSize for a window that does not fit), `option` (WindowSize, Strides,
        Dilations, StartPadding, EndPadding, IncludePadding, dimension_numbers, arithmetic),
        `value` (a Python or NumPy scale that is 0, NaN or infinite; a Python or NumPy zero point
        out of range).
      UnsupportedError: a window has more than 8,421,504 elements, or the named implementation does
        not exist.

    DirectML:
      DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC. The page's output size forgets dilation;
      here it counts. Accepted beyond the page: rank 3, any layout, parameters in any shape with one
      size above 1.

    Lowering:
      cpu: native_cpu, else xla. cuda, tpu: xla. reference runs everywhere when named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([[[1, 2, 4, 9]]], jnp.uint8)
      >>> dmlax.quantized_linear_average_pooling(
      ...     x, window_size=3, end_padding=1, input_scale=1.0, output_scale=0.5
      ... ).tolist()
      [[[5, 10, 13]]]
    """
    if type(include_padding) is not bool:
        wanted = f"is {include_padding!r}, expected True or False"
        _AVERAGE.fail("option", "IncludePadding", wanted)
    array, layouts = _tensor(_AVERAGE, input, dimension_numbers)
    windows = _windows(
        _AVERAGE, layouts, window_size, strides, start_padding, end_padding, dilations
    )
    given = Pooling(array, input_scale, output_scale, input_zero_point, output_zero_point)
    plan, operands = _bind(
        _AVERAGE, "average", given, layouts, windows, include_padding, output_dtype, arithmetic
    )
    return dispatch.call(AVERAGE, plan, operands, implementation)  # type: ignore[no-any-return]


@eager.jit_eager_calls(*Pooling._fields)
@name_right_keywords
def quantized_linear_global_average_pooling(
    input: ArrayLike,
    /,
    *,
    input_scale: ArrayLike,
    output_scale: ArrayLike,
    input_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    output_dtype: DTypeLike | None = None,
    dimension_numbers: Any = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Averages each channel of a quantized image and quantizes the result, correctly rounded.

    `quantized_linear_average_pooling` with a window that is the image.

    Args:
      input: int8 or uint8, (N, C, spatial ...) of rank 3 to 5, or as `dimension_numbers` says.
      input_scale: float32, one value or one per channel, as all scales finite and not zero.
      output_scale: float32, one value or one per channel.
      input_zero_point: of the input's dtype, one value or one per channel; default 0.
      output_zero_point: of the output's dtype, one value or one per channel; default 0.
      output_dtype: int8 or uint8; default that of an `output_zero_point` array, else the input's.
      dimension_numbers: the axes of input and output, as "NHWC", or the convolution's three orders,
        of which the filter's is not read; default channels first.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's QLinearGlobalAveragePool:
        `rint(float32(S) * (input_scale / (output_scale * n)))`, S the integer sum.
      implementation: "auto", or exactly one of "native_cpu", "xla", "reference".

    Returns:
      int8 or uint8, (N, C, 1 ...), of the input's rank.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field), `option` (dimension_numbers, arithmetic), `value` (a Python or NumPy scale that is
        0, NaN or infinite; a Python or NumPy zero point out of range).
      UnsupportedError: an image has more than 8,421,504 elements in a channel, or the named
        implementation does not exist.

    DirectML:
      No operator of its own: DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC has a WindowSize
      that is the image. ONNX Runtime's QLinearGlobalAveragePool.

    Lowering:
      cpu: native_cpu, else xla. cuda, tpu: xla. reference runs everywhere when named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([[[1, 2, 4], [7, 7, 7]]], jnp.uint8)
      >>> y = dmlax.quantized_linear_global_average_pooling(x, input_scale=1.0, output_scale=0.5)
      >>> y.tolist()
      [[[5], [14]]]
    """
    array, layouts = _tensor(_GLOBAL, input, dimension_numbers)
    sizes = tuple(array.shape[axis] for axis in layouts.input[2:])
    ones = (1,) * len(sizes)
    windows = Windows(sizes, ones, ones, ((0, 0),) * len(sizes))
    given = Pooling(array, input_scale, output_scale, input_zero_point, output_zero_point)
    plan, operands = _bind(
        _GLOBAL, "global_average", given, layouts, windows, False, output_dtype, arithmetic
    )
    return dispatch.call(GLOBAL, plan, operands, implementation)  # type: ignore[no-any-return]


@eager.jit_eager_calls()
@name_right_keywords
def max_pooling(
    input: ArrayLike,
    /,
    *,
    window_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    start_padding: int | Sequence[int] | None = None,
    end_padding: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    dimension_numbers: Any = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Finds the greatest element of each window of an 8-bit tensor.

    A padded element is never the greatest; a window of padded elements only gives the dtype's
    lowest value.

    Args:
      input: int8 or uint8, (N, C, spatial ...) of rank 3 to 5, or as `dimension_numbers` says.
      window_size: elements of a window, one integer or one for each spatial axis.
      strides: the step between windows, likewise; default 1.
      start_padding: elements before each spatial axis; default 0.
      end_padding: elements after each spatial axis; default 0.
      dilations: the step between a window's elements; default 1.
      dimension_numbers: the axes of input and output, as "NHWC", or the convolution's three orders,
        of which the filter's is not read; default channels first.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla",
        "reference".

    Returns:
      Of the input's dtype, (N, C, spatial ...), each `(size + start + end - span) // stride + 1`,
      where span is `(window - 1) * dilation + 1`.

    Raises:
      SpecError: code `data_type`, `dimension_count` or `sizes` (InputTensor; WindowSize for a
        window that does not fit), `option` (WindowSize, Strides, Dilations, StartPadding,
        EndPadding, dimension_numbers).
      UnsupportedError: the named implementation does not exist for this operator.

    DirectML:
      DML_MAX_POOLING_OPERATOR_DESC, and its versions 1 and 2. The pages' output size forgets
      dilation; here it counts. Floats, wider integers and the indices of the maxima are not
      supported. Accepted beyond the pages: rank 3, any layout.

    Lowering:
      cpu: native_cpu, else xla. cuda: mosaic_gpu, where a GPU of compute capability 9.0 is attached
      and four channels or a multiple are last; else xla. tpu: xla. reference runs everywhere when
      named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([[[-5, -3, -8, 2]]], jnp.int8)
      >>> dmlax.max_pooling(x, window_size=2, strides=2, start_padding=1, end_padding=1).tolist()
      [[[-5, -3, 2]]]
    """
    array, layouts = _tensor(_MAX, input, dimension_numbers)
    windows = _windows(_MAX, layouts, window_size, strides, start_padding, end_padding, dilations)
    options = Options("max", windows, layouts, False, "exact", np.dtype(array.dtype))
    operands = Pooling(array)
    plan = pooling_plan(_MAX, Pooling(aval_of(array)), options)
    return dispatch.call(MAX, plan, operands, implementation)  # type: ignore[no-any-return]


def _tensor(
    rules: Rules, input: ArrayLike, dimension_numbers: Any
) -> tuple[Array | np.ndarray, Layouts]:
    """Takes the input, and finds its axes."""
    array = rules.to_array(FIELDS.input, input)
    if isinstance(dimension_numbers, list):
        dimension_numbers = tuple(dimension_numbers)
    return array, parse_layouts(rules, aval_of(array), dimension_numbers)


def _windows(
    rules: Rules,
    layouts: Layouts,
    window_size: Any,
    strides: Any,
    start_padding: Any,
    end_padding: Any,
    dilations: Any,
) -> Windows:
    """Converts the options of the windows to their canonical forms."""
    count = len(layouts.input) - 2
    given = window_size is not None
    rules.expect(given, "option", "WindowSize", f"is None, expected {count} integers")
    sizes = to_integers(rules, "WindowSize", window_size, count, 1, 1)
    strides = to_integers(rules, "Strides", strides, count, 1, 1)
    dilations = to_integers(rules, "Dilations", dilations, count, 1, 1)
    start = to_integers(rules, "StartPadding", start_padding, count, 0, 0)
    end = to_integers(rules, "EndPadding", end_padding, count, 0, 0)
    return Windows(sizes, strides, dilations, tuple(zip(start, end, strict=True)))


def _bind(
    rules: Rules,
    kind: Kind,
    given: Pooling,
    layouts: Layouts,
    windows: Windows,
    include_padding: bool,
    output_dtype: Any,
    arithmetic: requantize.Arithmetic,
) -> tuple[PoolingPlan, Pooling]:
    """Converts the parameters of an average to arrays, and plans the call."""
    rules.expect_choice("arithmetic", arithmetic, requantize.ARITHMETICS)
    dtype = rules.choose_output_dtype(
        output_dtype, FIELDS.output_zero_point, given.output_zero_point, given.input.dtype
    )
    operands = Pooling(
        given.input,
        rules.to_scale(FIELDS.input_scale, given.input_scale, jnp.float32),
        rules.to_scale(FIELDS.output_scale, given.output_scale, jnp.float32),
        rules.to_parameter(FIELDS.input_zero_point, given.input_zero_point, given.input.dtype),
        rules.to_parameter(FIELDS.output_zero_point, given.output_zero_point, dtype),
    )
    avals = Pooling(*(None if array is None else aval_of(array) for array in operands))
    options = Options(kind, windows, layouts, include_padding, arithmetic, dtype)
    return pooling_plan(rules, avals, options), operands
