"""quantized_linear_convolution_add."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._convolution.add import (
    FIELDS,
    ConvolutionAdd,
    ConvolutionAddPlan,
    add_to,
    convolution_add_plan,
    output_partition,
)
from dmlax._convolution.api import QUANTIZED
from dmlax._convolution.bind import Windows, bind, leaves
from dmlax._convolution.plan import Convolution, ConvolutionPlan
from dmlax._convolution.prepared_filter import PreparedFilter
from dmlax._core import dispatch, eager, requantize
from dmlax._core.arguments import Rules, aval_of
from dmlax._core.keywords import name_right_keywords

_RULES = Rules("quantized_linear_convolution_add")
QUANTIZED_ADD = dispatch.Operator(
    _RULES.operator, tuple(map(add_to, QUANTIZED.lowerings)), partition=output_partition
)


@eager.jit_eager_calls(*ConvolutionAdd._fields, leaves=leaves)
@name_right_keywords
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
    dimension_numbers: Any = None,
    addend_scale: ArrayLike,
    addend_zero_point: ArrayLike | None = None,
    sum_scale: ArrayLike,
    sum_zero_point: ArrayLike | None = None,
    sum_dtype: DTypeLike | None = None,
    addend_first: bool = False,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Convolves quantized tensors, adds a residual, and rounds each of the two results once.

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
      int8 or uint8, (N, K, height, width), each `(size + start + end - span) // stride + 1`,
      where span is `(kernel - 1) * dilation + 1`.

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
      cpu: native_cpu; cuda: mosaic_gpu, where a GPU of compute capability 9.0 is attached; or xla
      in an export, over several devices, or where no kernel is available. tpu: xla. reference runs
      where named, not on cuda. mosaic_gpu adds in its kernel, but to depthwise convolutions; else
      the sum follows in the same program: on a CPU a second kernel, elsewhere plain XLA.

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
    _RULES.expect_choice("arithmetic", arithmetic, requantize.ARITHMETICS)
    _expect_bool("AddendFirst", addend_first)
    windows = Windows(strides, dilations, start_padding, end_padding, padding)
    convolution, operands = bind(
        _RULES, arguments, windows, group_count, dimension_numbers, arithmetic, output_dtype
    )
    added = ConvolutionAdd(
        *operands,
        addend=addend,
        addend_scale=addend_scale,
        addend_zero_point=addend_zero_point,
        sum_scale=sum_scale,
        sum_zero_point=sum_zero_point,
    )
    plan, added = _bind_sum(convolution, added, addend_first, sum_dtype)
    return dispatch.call(QUANTIZED_ADD, plan, added, implementation)  # type: ignore[no-any-return]


def _expect_bool(field: str, value: Any) -> None:
    wanted = f"is {value!r}, expected True or False"
    _RULES.expect(type(value) is bool, "option", field, wanted)


def _bind_sum(
    convolution: ConvolutionPlan, arguments: ConvolutionAdd, addend_first: bool, sum_dtype: Any
) -> tuple[ConvolutionAddPlan, ConvolutionAdd]:
    """Converts the sum's operands to their canonical forms, and plans the call."""
    addend = _RULES.to_array(FIELDS.addend, arguments.addend)
    _RULES.expect_dtype(FIELDS.addend, aval_of(addend), jnp.int8, jnp.uint8)
    zero_point = arguments.sum_zero_point
    dtype = _RULES.choose_output_dtype(
        sum_dtype, FIELDS.sum_zero_point, zero_point, convolution.output.dtype, "sum_dtype"
    )
    found: dict[str, Any] = {
        name: _RULES.to_scale(getattr(FIELDS, name), getattr(arguments, name), jnp.float32)
        for name in ("addend_scale", "sum_scale")
    }
    for name, own in (("addend_zero_point", addend.dtype), ("sum_zero_point", dtype)):
        value = getattr(arguments, name)
        found[name] = _RULES.to_parameter(getattr(FIELDS, name), value, own)
    avals = {name: None if x is None else aval_of(x) for name, x in found.items()}
    empty = ConvolutionAdd(None, None)
    plan = convolution_add_plan(
        _RULES,
        convolution,
        empty._replace(addend=aval_of(addend), **avals),
        addend_first,
        np.dtype(dtype),
    )
    return plan, arguments._replace(addend=addend, **found)
