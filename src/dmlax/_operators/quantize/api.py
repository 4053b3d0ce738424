"""element_wise_quantize_linear and element_wise_dequantize_linear."""

from dataclasses import replace

from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import dispatch, eager, requantize
from dmlax._cpu import library
from dmlax._operators.quantize import reference, xla
from dmlax._operators.quantize.cpu import lowering as native_cpu
from dmlax._operators.quantize.plan import (
    DEQUANTIZE_RULES,
    QUANTIZE_RULES,
    axis_names,
    local_plan,
    output_partition,
    plan_dequantize,
    plan_quantize,
)

QUANTIZE = dispatch.Operator(
    QUANTIZE_RULES.operator,
    plan_quantize,
    (
        dispatch.Lowering("native_cpu", native_cpu.run, library.why_not_for, ("cpu",)),
        dispatch.Lowering("xla", xla.run),
        dispatch.Lowering("reference", reference.run),
    ),
    partition=output_partition,
    splitting=dispatch.Splitting(axis_names, local_plan),
)
DEQUANTIZE = replace(
    QUANTIZE, name=DEQUANTIZE_RULES.operator, plan=plan_dequantize, tangent=xla.dequantize_tangent
)


@eager.public_function(QUANTIZE)
def element_wise_quantize_linear(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    /,
    *,
    axis: int | None = None,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Quantizes each element: `clamp(round(input / scale) + zero_point)`, correctly rounded.

    `round` is to nearest, ties to even, of the rational quotient, before the zero point is added;
    the clamp is the output dtype's range. Infinities saturate; NaN gives the lowest value.

    Args:
      input: float32, float16 or int32, of rank 1 to 8. NumPy's float64 is rounded to float32.
      scale: of the input's dtype, float32 for int32: one value, (K,) with `axis`, or any shape
        that broadcasts to the input; finite and not zero. A float64 one is rounded to it.
      zero_point: of the output's dtype, of any shape that a scale may have; default 0.
      axis: the axis along which (K,) parameters lie.
      output_dtype: int8 or uint8; default that of a `zero_point` array, else uint8.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's CPU kernel:
        `rint(input / scale)` with the quotient rounded to float32.
      implementation: "auto", or exactly one of "native_cpu", "xla", "reference".

    Returns:
      int8 or uint8, of the input's shape.
      Its gradients are zero: train with `dmlax.training.fake_quantize`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (InputTensor,
        ScaleTensor, ZeroPointTensor), `option` (axis, arithmetic), `value` (a Python or NumPy
        scale that is 0, NaN or infinite; a Python or NumPy zero point out of range).
      UnsupportedError: the named implementation does not exist for this operator.

    DirectML:
      DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC. The page leaves `round`, NaN and infinities
      open. Accepted beyond the page: parameters broadcast, and lie along an axis.

    Lowering:
      cpu: native_cpu, else xla. cuda, tpu: xla. reference runs everywhere when named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.float32([-1.0, 0.25, 0.75, 1e9])
      >>> dmlax.element_wise_quantize_linear(x, 0.5, 10).tolist()
      [8, 10, 12, 255]
    """
    return QUANTIZE.call(
        *plan_quantize(
            input, scale, zero_point, axis=axis, output_dtype=output_dtype, arithmetic=arithmetic
        ),
        implementation,
    )


@eager.public_function(DEQUANTIZE)
def element_wise_dequantize_linear(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    /,
    *,
    axis: int | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Dequantizes each element: `(input - zero_point) * scale`, rounded once.

    The real product to the nearest value of the scale's dtype, ties to even, subnormals kept; an
    exact zero is +0. Differentiable in `scale`.

    Args:
      input: (u)int8, (u)int16 or (u)int32, of rank 1 to 8.
      scale: float32 or float16: one value, (K,) with `axis`, or any shape that broadcasts to the
        input; finite and not zero. A Python number is float32. A traced NaN gives NaN.
      zero_point: of the input's dtype, of any shape that a scale may have; default 0.
      axis: the axis along which (K,) parameters lie.
      implementation: "auto", or exactly one of "native_cpu", "xla", "reference".

    Returns:
      Of the scale's dtype and the input's shape.
      The integer input has no gradient: train with `dmlax.training.fake_quantize`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (InputTensor,
        ScaleTensor, ZeroPointTensor), `option` (axis), `value` (a Python or NumPy scale that is 0,
        NaN or infinite; a Python or NumPy zero point out of range).
      UnsupportedError: the named implementation does not exist for this operator.

    DirectML:
      DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC. The page leaves rounding open, and whether
      32-bit differences wrap: here they do not. Accepted beyond the page: parameters broadcast, and
      lie along an axis.

    Lowering:
      cpu: native_cpu, else xla. cuda, tpu: xla. reference runs everywhere when named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([0, 10, 255], jnp.uint8)
      >>> dmlax.element_wise_dequantize_linear(x, 0.5, 10).tolist()
      [-5.0, 0.0, 122.5]
    """
    return DEQUANTIZE.call(*plan_dequantize(input, scale, zero_point, axis=axis), implementation)
