"""quantized_linear_convolution_add."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import dispatch, eager, requantize
from dmlax._cuda import first_use
from dmlax._operators.convolution.prepare import PreparedFilter
from dmlax._operators.convolution_add import reference, xla
from dmlax._operators.convolution_add.cpu import lowering as native_cpu
from dmlax._operators.convolution_add.cuda import lowering as mosaic_gpu
from dmlax._operators.convolution_add.plan import (
    RULES,
    ConvolutionAdd,
    ConvolutionAddPlan,
    Operands,
    axis_names,
    local_plan,
    output_partition,
    plan,
)

_XLA = dispatch.Lowering("xla", xla.run)


def _first_calls() -> first_use.Calls:
    """Windows and a residual of several tiles."""
    x, w = first_use.draw(1, np.uint8, 2, 19, 18, 32), first_use.draw(2, np.int8, 72, 32, 1, 1)
    options: dict[str, Any] = {"dimension_numbers": ("NHWC", "OIHW", "NHWC"), "input_scale": 0.02}
    options |= {"filter_scale": 0.03, "addend_scale": 0.3, "sum_scale": 0.7, "output_scale": 1.5}
    return [plan(x, w, None, first_use.draw(3, np.uint8, 2, 19, 18, 72), **options)]


QUANTIZED_ADD: dispatch.Operator[ConvolutionAddPlan, Operands, Array] = dispatch.Operator(
    RULES.operator,
    plan,
    (
        dispatch.kernel("native_cpu", native_cpu.run, native_cpu.why_not, "cpu"),
        first_use.checked(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
            _XLA,
            _first_calls,
        ),
        _XLA,
        dispatch.Lowering("reference", reference.run, reference.why_not, ("cpu", "tpu")),
    ),
    partition=output_partition,
    splitting=dispatch.Splitting(axis_names, local_plan),
)


@eager.public_function(QUANTIZED_ADD, *ConvolutionAdd._fields)
def quantized_linear_convolution_add(
    input: ArrayLike,
    filter: ArrayLike | PreparedFilter,
    bias: ArrayLike | None,
    addend: ArrayLike,
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
    addend_scale: ArrayLike,
    addend_zero_point: ArrayLike | None = None,
    sum_scale: ArrayLike,
    sum_zero_point: ArrayLike | None = None,
    sum_dtype: DTypeLike | None = None,
    addend_first: bool = False,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Convolves quantized tensors, adds a residual, and rounds both results once.

    `clamp(round(((y - output_zero_point) * output_scale + (addend - addend_zero_point) *
    addend_scale) / sum_scale) + sum_zero_point)`, where y is `quantized_linear_convolution`'s
    result, rounded and clamped as there, and `round` and `clamp` are those of
    `element_wise_quantized_linear_add`: the bits of the two operators, one after the other.

    Args:
      input: int8 or uint8, (N, C, height, width), or as `dimension_numbers` says.
      filter: int8 or uint8, (K, C / group_count, height, width); or a `PreparedFilter`.
      bias: int32, (K,) or (1, K, 1, 1), in units of input_scale * filter_scale; None for 0.
      addend: int8 or uint8, of the shape of the convolution's result.
      input_scale: float32, one value, as all scales finite and not zero.
      filter_scale: float32, one value or one per output channel.
      output_scale: float32, one value: of the convolution's result.
      input_zero_point: of the input's dtype, one value; default 0.
      filter_zero_point: of the filter's dtype, one value or one per output channel; default 0.
      output_zero_point: of `output_dtype`, one value; default 0.
      output_dtype: int8 or uint8, of the convolution's result; default that of an
        `output_zero_point` array, else the input's.
      strides: the step between windows in pixels, one integer or one per spatial axis; default 1.
      dilations: the step between the filter's taps in pixels, as `strides`; default 1.
      start_padding: pixels before the spatial axes, which hold the input zero point; default 0.
      end_padding: pixels after the spatial axes; default 0.
      padding: start and end as in `jax.lax`, instead of these: "SAME", "SAME_LOWER", "VALID", or a
        pair (start, end) per spatial axis.
      group_count: the number of groups, a static integer that divides K and C.
      dimension_numbers: as in `jax.lax`; default channels first: ("NCHW", "OIHW", "NCHW"), or
        ("NCW", "OIW", "NCW") for an input and a filter of rank 3. A prepared filter holds it.
      addend_scale: float32, one value.
      addend_zero_point: of the addend's dtype, one value; default 0.
      sum_scale: float32, one value.
      sum_zero_point: of `sum_dtype`, one value; default 0.
      sum_dtype: int8 or uint8; default that of a `sum_zero_point` array, else `output_dtype`.
      addend_first: True if the addend is the sum's first operand, on which the bits of "float32"
        depend; those of "exact" do not.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's QLinearConv and QLinearAdd.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int8 or uint8, (N, K, height, width). A spatial size is
      `(size + start + end - span) // stride + 1`, where span is `(kernel - 1) * dilation + 1`.
      Its gradients are zero: train with `dmlax.training.quantized_linear_convolution_add`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field: AddendTensor, SumScaleTensor and so on), `option` (Strides, Dilations,
        StartPadding, EndPadding, padding, GroupCount, dimension_numbers, AddendFirst, arithmetic),
        `value` (a Python or NumPy scale that is 0, NaN or infinite; a Python or NumPy zero point
        or bias out of range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      It has no such operator: DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC, then
      DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC. Traced scales that are 0, NaN or
      infinite give unspecified elements.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      in an export, or where no kernel is available. tpu: xla. reference runs
      where named, not on cuda. mosaic_gpu adds in its kernel unless the convolution is depthwise.
      Otherwise the sum follows in the same program: on a CPU a second kernel, elsewhere plain XLA.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([[[[5, 7, 200]]]], jnp.uint8)
      >>> w = jnp.ones((1, 1, 1, 1), jnp.int8)
      >>> residual = jnp.array([[[[-4, 1, 120]]]], jnp.int8)
      >>> scales = dict(input_scale=0.5, filter_scale=1.0, output_scale=1.0)
      >>> sums = dict(addend_scale=0.25, sum_scale=0.5, sum_zero_point=1)
      >>> y = dmlax.quantized_linear_convolution_add(x, w, None, residual, **scales, **sums)
      >>> y.tolist()
      [[[[3, 9, 255]]]]
    """
    return QUANTIZED_ADD.call(
        *plan(
            input,
            filter,
            bias,
            addend,
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
            addend_scale=addend_scale,
            addend_zero_point=addend_zero_point,
            sum_scale=sum_scale,
            sum_zero_point=sum_zero_point,
            sum_dtype=sum_dtype,
            addend_first=addend_first,
            arithmetic=arithmetic,
        ),
        implementation,
    )
