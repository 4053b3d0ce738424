"""The average poolings of quantized tensors, and max_pooling of 8 bits."""

import functools
from collections.abc import Sequence

import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import dispatch, eager, requantize
from dmlax._cuda import first_use
from dmlax._operators.pooling import reference, xla
from dmlax._operators.pooling.cpu import lowering as native_cpu
from dmlax._operators.pooling.cuda import lowering as mosaic_gpu
from dmlax._operators.pooling.plan import (
    AVERAGE_RULES,
    GLOBAL_RULES,
    MAX_RULES,
    MeanRequantization,
    Pooling,
    axis_names,
    local_plan,
    output_partition,
    plan,
)


def _first_calls() -> first_use.Calls:
    """Overlapping windows."""
    x = first_use.draw(1, np.int8, 2, 13, 12, 32)
    return [MAX.plan(x, window_size=3, strides=2, dimension_numbers="NHWC")]


_XLA = dispatch.Lowering("xla", xla.run)
_MOSAIC_GPU = first_use.checked(
    dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
    _XLA,
    _first_calls,
)
AVERAGE, GLOBAL, MAX = (
    dispatch.Operator(
        rules.operator,
        functools.partial(plan, rules),
        (
            dispatch.kernel("native_cpu", native_cpu.run, native_cpu.why_not, "cpu"),
            *([_MOSAIC_GPU] if rules is MAX_RULES else []),
            _XLA,
            dispatch.Lowering("reference", reference.run),
        ),
        partition=output_partition,
        splitting=dispatch.Splitting(axis_names, local_plan),
    )
    for rules in (AVERAGE_RULES, GLOBAL_RULES, MAX_RULES)
)


@eager.public_function(AVERAGE, *Pooling._fields)
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
    dimension_numbers: object = None,
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
      window_size: elements of a window, one integer or one per spatial axis.
      strides: the step between windows, as `window_size`; default 1.
      start_padding: elements before the spatial axes, as `window_size`; default 0.
      end_padding: elements after the spatial axes, as `window_size`; default 0.
      dilations: the step between a window's elements, as `window_size`; default 1.
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
      int8 or uint8, (N, C, spatial ...). A spatial size is
      `(size + start + end - span) // stride + 1`, where span is `(window - 1) * dilation + 1`.
      Its gradients are zero: train with `dmlax.training.quantized_linear_average_pooling`.

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
    return AVERAGE.call(
        *plan(
            AVERAGE_RULES,
            input,
            window_size=window_size,
            strides=strides,
            start_padding=start_padding,
            end_padding=end_padding,
            dilations=dilations,
            include_padding=include_padding,
            input_scale=input_scale,
            output_scale=output_scale,
            input_zero_point=input_zero_point,
            output_zero_point=output_zero_point,
            output_dtype=output_dtype,
            dimension_numbers=dimension_numbers,
            arithmetic=arithmetic,
        ),
        implementation,
    )


@eager.public_function(GLOBAL, *Pooling._fields)
def quantized_linear_global_average_pooling(
    input: ArrayLike,
    /,
    *,
    input_scale: ArrayLike,
    output_scale: ArrayLike,
    input_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    output_dtype: DTypeLike | None = None,
    dimension_numbers: object = None,
    arithmetic: requantize.Arithmetic = "exact",
    requantization: MeanRequantization | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Averages every channel of a quantized image and quantizes the result, correctly rounded.

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
      requantization: "fixed_point_double" for the formula of LiteRT's reference mean instead: with
        `q * 2**e / 2**31` the 31-bit multiplier of `input_scale / output_scale`, n the elements
        and k the least of `floor(log2(n))` and `31 + e`, the sum of differences times the integer
        `floor(q * 2**k / n)` and `2**(e - k) / 2**31`, rounded half up, then its right shift half
        away from zero.
      implementation: "auto", or exactly one of "native_cpu", "xla", "reference".

    Returns:
      int8 or uint8, (N, C, 1 ...), of the input's rank.
      Its gradients are zero: train with
      `dmlax.training.quantized_linear_global_average_pooling`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field), `option` (dimension_numbers, arithmetic, requantization), `value` (a Python or
        NumPy scale that is 0, NaN or infinite; a Python or NumPy zero point out of range).
      UnsupportedError: an image has more than 8,421,504 elements in a channel, or the named
        implementation does not exist.

    DirectML:
      It has no such operator: DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC has a WindowSize
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
    return GLOBAL.call(
        *plan(
            GLOBAL_RULES,
            input,
            input_scale=input_scale,
            output_scale=output_scale,
            input_zero_point=input_zero_point,
            output_zero_point=output_zero_point,
            output_dtype=output_dtype,
            dimension_numbers=dimension_numbers,
            arithmetic=arithmetic,
            requantization=requantization,
        ),
        implementation,
    )


@eager.public_function(MAX)
def max_pooling(
    input: ArrayLike,
    /,
    *,
    window_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    start_padding: int | Sequence[int] | None = None,
    end_padding: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    dimension_numbers: object = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Returns the greatest element of every window of an 8-bit tensor.

    A padded element is never the greatest; a window of padded elements only gives the dtype's
    lowest value.

    Args:
      input: int8 or uint8, (N, C, spatial ...) of rank 3 to 5, or as `dimension_numbers` says.
      window_size: elements of a window, one integer or one per spatial axis.
      strides: the step between windows, as `window_size`; default 1.
      start_padding: elements before the spatial axes, as `window_size`; default 0.
      end_padding: elements after the spatial axes, as `window_size`; default 0.
      dilations: the step between a window's elements, as `window_size`; default 1.
      dimension_numbers: the axes of input and output, as "NHWC", or the convolution's three orders,
        of which the filter's is not read; default channels first.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      Of the input's dtype, (N, C, spatial ...). A spatial size is
      `(size + start + end - span) // stride + 1`, where span is `(window - 1) * dilation + 1`.
      Its gradients are zero: train with `jax.lax.reduce_window` on floats.

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
      cpu: native_cpu, else xla. cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached
      and four channels or a multiple are last; else xla. tpu: xla. reference runs everywhere when
      named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([[[-5, -3, -8, 2]]], jnp.int8)
      >>> dmlax.max_pooling(x, window_size=2, strides=2, start_padding=1, end_padding=1).tolist()
      [[[-5, -3, 2]]]
    """
    return MAX.call(
        *plan(
            MAX_RULES,
            input,
            window_size=window_size,
            strides=strides,
            start_padding=start_padding,
            end_padding=end_padding,
            dilations=dilations,
            dimension_numbers=dimension_numbers,
        ),
        implementation,
    )
