"""dynamic_quantize_linear."""

import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import dispatch, eager, requantize, splitting
from dmlax._cpu import library
from dmlax._operators.dynamic_quantize import reference, xla
from dmlax._operators.dynamic_quantize.cpu import lowering as native_cpu
from dmlax._operators.dynamic_quantize.plan import RULES, DynamicQuantizePlan, plan
from dmlax._operators.dynamic_quantize.result import DynamicQuantizeLinear


def _output_partition(plan: DynamicQuantizePlan, input: Array) -> DynamicQuantizeLinear:
    """The output is split over a mesh as the input is; the parameters are whole everywhere."""
    return DynamicQuantizeLinear._make((splitting.partition(input), (), ()))


DYNAMIC_QUANTIZE = dispatch.Operator(
    RULES.operator,
    plan,
    (
        dispatch.kernel("native_cpu", native_cpu.run, library.why_not_for, "cpu"),
        dispatch.Lowering("xla", xla.run),
        dispatch.Lowering("reference", reference.run),
    ),
    tangent=reference.tangent,
    partition=_output_partition,
)


@eager.public_function(DYNAMIC_QUANTIZE)
def dynamic_quantize_linear(
    input: ArrayLike,
    /,
    *,
    output_dtype: DTypeLike = np.uint8,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> DynamicQuantizeLinear:
    """Quantizes a tensor by the scale and zero point of its range, correctly rounded.

    With low the least and high the greatest of 0 and all values, the scale is
    `(high - low) / 255`, a real number rounded once to float32; it is 1 where that is 0. The zero
    point is `clamp(round(lowest - low / scale))`, lowest that of the output dtype, and the output
    `clamp(round(input / scale) + zero_point)`; `round` is to nearest, ties to even.

    Args:
      input: float32 or float16, of rank 1 to 8; any size may be 0. NumPy's float64 is rounded to
        float32. With a NaN or an infinity all three results are unspecified.
      output_dtype: int8 or uint8.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's DynamicQuantizeLinear: the
        difference and each quotient rounded to float32.
      implementation: "auto", or exactly one of "native_cpu", "xla", "reference".

    Returns:
      `DynamicQuantizeLinear(output, scale, zero_point)`: output of the output dtype and the input's
      shape, scale float32 of shape (), zero_point of the output dtype and shape (). The scale is
      differentiable.
      The output's gradient is zero: train with `dmlax.training.fake_quantize`.

    Raises:
      SpecError: code `data_type` (InputTensor, OutputTensor), `dimension_count` (InputTensor),
        `option` (arithmetic).
      UnsupportedError: the named implementation does not exist for this operator.

    DirectML:
      DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC. The page's formula lacks what ONNX's has: 0 in the
      range, a zero point rounded and clamped, a range of one value. An int8 output has -128 to 127.
      A difference above float32's largest has a scale; in "float32" all results are unspecified.

    Lowering:
      cpu: native_cpu, else xla. cuda, tpu: xla. reference runs everywhere when named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> y, scale, zero_point = dmlax.dynamic_quantize_linear(jnp.float32([-1.0, 0.0, 1.55]))
      >>> y.tolist(), float(scale).hex(), int(zero_point)
      ([0, 100, 255], '0x1.47ae140000000p-7', 100)
    """
    return DYNAMIC_QUANTIZE.call(
        *plan(input, output_dtype=output_dtype, arithmetic=arithmetic), implementation
    )
