"""convolution_integer and quantized_linear_convolution."""

import functools
from collections.abc import Sequence

import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import dispatch, eager, requantize
from dmlax._cuda import first_use
from dmlax._operators.convolution import bind, reference, xla
from dmlax._operators.convolution.cpu import lowering as native_cpu
from dmlax._operators.convolution.cuda import lowering as mosaic_gpu
from dmlax._operators.convolution.epilogue import finish
from dmlax._operators.convolution.plan import (
    INTEGER_RULES,
    QUANTIZED_RULES,
    Convolution,
    axis_names,
    local_plan,
    output_partition,
    without_scales,
)
from dmlax._operators.convolution.prepare import PreparedFilter

_XLA = dispatch.Lowering("xla", xla.run)


def _first_calls() -> first_use.Calls:
    """Windows of several tiles, and a depthwise convolution."""
    x = first_use.draw(1, np.uint8, 2, 19, 18, 32)
    options = {"dimension_numbers": ("NHWC", "OIHW", "NHWC"), "start_padding": 1}
    options |= {"input_scale": 0.02, "filter_scale": 0.03, "output_scale": 1.5}
    filters = ((2, 72, 32, 1), (3, 32, 1, 32))  # seeds, outputs, channels, groups
    return [
        QUANTIZED.plan(x, first_use.draw(seed, np.int8, k, c, 3, 3), group_count=groups, **options)
        for seed, k, c, groups in filters
    ]


_KERNELS = (
    dispatch.kernel("native_cpu", native_cpu.run, native_cpu.why_not, "cpu"),
    first_use.checked(
        dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
        _XLA,
        _first_calls,
    ),
)
_LOWERINGS = (
    *(dispatch.requantized_after(kernel, without_scales, finish) for kernel in _KERNELS),
    _XLA,
    dispatch.Lowering("reference", reference.run, reference.why_not, ("cpu", "tpu")),
)
INTEGER, QUANTIZED = (
    dispatch.Operator(
        rules.operator,
        functools.partial(bind.plan, rules),
        _LOWERINGS,
        partition=output_partition,
        splitting=dispatch.Splitting(axis_names, local_plan),
    )
    for rules in (INTEGER_RULES, QUANTIZED_RULES)
)


@eager.public_function(INTEGER, *Convolution._fields)
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
    dimension_numbers: object = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Convolves 8-bit tensors less their zero points into int32.

    The sum of `(input - input_zero_point) * (filter - filter_zero_point)` over a window, in
    int32, wrapping. A padded pixel is the input zero point.

    Args:
      input: int8 or uint8, (N, C, height, width), or as `dimension_numbers` says.
      filter: int8 or uint8, (K, C / group_count, height, width); or a `PreparedFilter`.
      input_zero_point: of the input's dtype, one value; default 0.
      filter_zero_point: of the filter's dtype, one value or one per output channel; default 0.
      strides: the step between windows in pixels, one integer or one per spatial axis; default 1.
      dilations: the step between the filter's taps in pixels, as `strides`; default 1.
      start_padding: pixels before the spatial axes; default 0.
      end_padding: pixels after the spatial axes; default 0.
      padding: start and end as in `jax.lax`, instead of these: "SAME", "SAME_LOWER", "VALID", or a
        pair (start, end) per spatial axis.
      group_count: the number of groups, a static integer that divides K and C.
      dimension_numbers: as in `jax.lax`; default channels first: ("NCHW", "OIHW", "NCHW"), or
        ("NCW", "OIW", "NCW") for an input and a filter of rank 3. A prepared filter holds it.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int32, (N, K, height, width). A spatial size is `(size + start + end - span) // stride + 1`,
      where span is `(kernel - 1) * dilation + 1`.
      Its gradients are zero: train with `dmlax.training.quantized_linear_convolution`.

    Raises:
      SpecError: code `data_type`, `dimension_count` or `sizes` (the tensor's field), `option`
        (Strides, Dilations, StartPadding, EndPadding, padding, GroupCount, dimension_numbers),
        `value` (a Python or NumPy zero point out of range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_CONVOLUTION_INTEGER_OPERATOR_DESC. Accepted beyond the page: any layout, the
      filter zero point per channel in any shape with one size above 1, rank 3 as {N, C, W}.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      in an export, or where no kernel is available. tpu: xla. reference runs
      where named, not on cuda.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([[[[1, 2], [3, 4]]]], jnp.uint8)
      >>> w = jnp.ones((1, 1, 2, 2), jnp.int8)
      >>> dmlax.convolution_integer(x, w, input_zero_point=1, start_padding=(1, 1)).tolist()
      [[[[0, 1], [2, 6]]]]
    """
    return INTEGER.call(
        *bind.plan(
            INTEGER_RULES,
            input,
            filter,
            input_zero_point=input_zero_point,
            filter_zero_point=filter_zero_point,
            strides=strides,
            dilations=dilations,
            start_padding=start_padding,
            end_padding=end_padding,
            padding=padding,
            group_count=group_count,
            dimension_numbers=dimension_numbers,
        ),
        implementation,
    )


@eager.public_function(QUANTIZED, *Convolution._fields)
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
    dimension_numbers: object = None,
    arithmetic: requantize.Arithmetic = "exact",
    requantization: requantize.Requantization | None = None,
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
      strides: the step between windows in pixels, one integer or one per spatial axis; default 1.
      dilations: the step between the filter's taps in pixels, as `strides`; default 1.
      start_padding: pixels before the spatial axes, which hold the input zero point; default 0.
      end_padding: pixels after the spatial axes; default 0.
      padding: start and end as in `jax.lax`, instead of these: "SAME", "SAME_LOWER", "VALID", or a
        pair (start, end) per spatial axis.
      group_count: the number of groups, a static integer that divides K and C.
      dimension_numbers: as in `jax.lax`; default channels first: ("NCHW", "OIHW", "NCHW"), or
        ("NCW", "OIW", "NCW") for an input and a filter of rank 3. A prepared filter holds it.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's CPU kernels:
        `rint(float32(acc + bias) * ((input_scale * filter_scale) / output_scale))`.
      requantization: instead, a formula of microcontrollers and NPUs, of `q * 2**e / 2**31`, the
        31-bit multiplier that is nearest to the float64 `input_scale * filter_scale /
        output_scale`: "fixed_point_single", its product rounded once, half up;
        "fixed_point_double", rounded half up, then its right shift half away from zero;
        "fixed_point_half_up", both half up; or "float64", a float64 product, half away from zero.
        In all, adding the bias wraps, as does a left shift beyond int32.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int8 or uint8, (N, K, height, width). A spatial size is
      `(size + start + end - span) // stride + 1`, where span is `(kernel - 1) * dilation + 1`.
      Its gradients are zero: train with `dmlax.training.quantized_linear_convolution`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field), `option` (Strides, Dilations, StartPadding, EndPadding, padding, GroupCount,
        dimension_numbers, arithmetic, requantization), `value` (a Python or NumPy scale that is 0,
        NaN or infinite; a Python or NumPy zero point or bias out of range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC. The page leaves `round` open: here ties go
      to even; and a missing zero point: here 0. Accepted beyond the page: any layout, parameters
      in any shape with one size above 1, rank 3 as {N, C, W}. Traced scales that are 0, NaN or
      infinite give unspecified elements.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      in an export, or where no kernel is available. tpu: xla. reference runs
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
    return QUANTIZED.call(
        *bind.plan(
            QUANTIZED_RULES,
            input,
            filter,
            bias,
            input_scale=input_scale,
            filter_scale=filter_scale,
            output_scale=output_scale,
            input_zero_point=input_zero_point,
            filter_zero_point=filter_zero_point,
            output_zero_point=output_zero_point,
            output_dtype=output_dtype,
            strides=strides,
            dilations=dilations,
            start_padding=start_padding,
            end_padding=end_padding,
            padding=padding,
            group_count=group_count,
            dimension_numbers=dimension_numbers,
            arithmetic=arithmetic,
            requantization=requantization,
        ),
        implementation,
    )
