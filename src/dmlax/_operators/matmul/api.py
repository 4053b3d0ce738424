"""matrix_multiply_integer and its two forms with scales."""

import functools
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import dispatch, eager, requantize
from dmlax._cuda import first_use
from dmlax._operators.matmul import bind, reference, xla
from dmlax._operators.matmul.cpu import lowering as native_cpu
from dmlax._operators.matmul.cuda import lowering as mosaic_gpu
from dmlax._operators.matmul.epilogue import finish
from dmlax._operators.matmul.plan import (
    INTEGER_RULES,
    QUANTIZED_RULES,
    TO_FLOAT_RULES,
    Product,
    axis_names,
    local_plan,
    output_partition,
    without_scales,
)
from dmlax._operators.matmul.prepare import PreparedMatrix

_XLA = dispatch.Lowering("xla", xla.run)


def _first_calls() -> first_use.Calls:
    """Several tiles and steps, and a few rows."""
    b = first_use.draw(2, np.int8, 400, 136)
    options = {"a_scale": 0.02, "b_scale": 0.03, "output_scale": 3.0, "b_zero_point": np.int8(5)}
    return [QUANTIZED.plan(first_use.draw(1, np.uint8, m, 400), b, **options) for m in (300, 3)]


_KERNELS = (
    dispatch.Lowering("native_cpu", native_cpu.run, native_cpu.why_not, ("cpu",)),
    first_use.checked(
        dispatch.Lowering("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, ("cuda",)),
        _XLA,
        _first_calls,
    ),
)
INTEGER = dispatch.Operator(
    INTEGER_RULES.operator,
    functools.partial(bind.plan, INTEGER_RULES),
    (
        *(dispatch.requantized_after(kernel, without_scales, finish) for kernel in _KERNELS),
        _XLA,
        dispatch.Lowering("reference", reference.run),
    ),
    partition=output_partition,
    splitting=dispatch.Splitting(axis_names, local_plan),
)
QUANTIZED = replace(
    INTEGER, name=QUANTIZED_RULES.operator, plan=functools.partial(bind.plan, QUANTIZED_RULES)
)
TO_FLOAT = replace(
    INTEGER,
    name=TO_FLOAT_RULES.operator,
    plan=functools.partial(bind.plan, TO_FLOAT_RULES, output_dtype=jnp.float32),
    tangent=xla.to_float_tangent,
)


@eager.public_function(INTEGER, *Product._fields)
def matrix_multiply_integer(
    a: ArrayLike,
    b: ArrayLike | PreparedMatrix,
    /,
    *,
    a_zero_point: ArrayLike | None = None,
    b_zero_point: ArrayLike | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Multiplies 8-bit matrices less their zero points into int32.

    The sum of `(a - a_zero_point) * (b - b_zero_point)` over K, in int32, wrapping; over an empty
    K it is 0.

    Args:
      a: int8 or uint8, (..., M, K) or (K,); batch axes broadcast as in `jnp.matmul`.
      b: int8 or uint8, (..., K, N) or (K,); or a `PreparedMatrix`.
      a_zero_point: of the dtype of `a`, one value, or one per row: (..., M, 1); default 0.
      b_zero_point: of the dtype of `b`, one value, or one per column: (N,) or (..., 1, N);
        default 0.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int32, (..., M, N), without M where `a` is a vector and without N where `b` is one.
      Its gradients are zero: train with `dmlax.training.quantized_linear_matrix_multiply`.

    Raises:
      SpecError: code `data_type`, `dimension_count` or `sizes` (the tensor's field), `option`
        (BZeroPointTensor, which a prepared matrix holds), `value` (a Python or NumPy zero point
        out of range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC. Accepted beyond the page: vectors, any number of
      batch axes, and batch axes that broadcast.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      in an export, or where no kernel is available. tpu: xla. reference runs where named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> a = jnp.array([[1, 2, 3], [255, 0, 7]], jnp.uint8)
      >>> b = jnp.array([[1, -1], [2, -2], [3, -3]], jnp.int8)
      >>> dmlax.matrix_multiply_integer(a, b, a_zero_point=1).tolist()
      [[8, -8], [270, -270]]
    """
    return INTEGER.call(
        *bind.plan(INTEGER_RULES, a, b, a_zero_point=a_zero_point, b_zero_point=b_zero_point),
        implementation,
    )


@eager.public_function(QUANTIZED, *Product._fields)
def quantized_linear_matrix_multiply(
    a: ArrayLike,
    b: ArrayLike | PreparedMatrix,
    bias: ArrayLike | None = None,
    /,
    *,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    output_scale: ArrayLike,
    a_zero_point: ArrayLike | None = None,
    b_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
    requantization: requantize.Requantization | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Multiplies quantized matrices and quantizes the result, correctly rounded.

    `clamp(round((sum + bias) * a_scale * b_scale / output_scale) + output_zero_point)`, where sum
    is `matrix_multiply_integer`'s, adding the bias does not wrap, `round` is to nearest, ties to
    even, of the real number, and the clamp is the output dtype's range.

    Args:
      a: int8 or uint8, (..., M, K) or (K,); batch axes broadcast as in `jnp.matmul`.
      b: int8 or uint8, (..., K, N) or (K,); or a `PreparedMatrix`.
      bias: int32, (N,) or what broadcasts to the output, in units of a_scale * b_scale; default 0.
      a_scale: float32, one value, or one per row: (..., M, 1); as all scales finite and not zero.
      b_scale: float32, one value, or one per column: (N,) or (..., 1, N).
      output_scale: float32, one value, or one per row: (..., M, 1).
      a_zero_point: of the dtype of `a`, one value, or one per row; default 0.
      b_zero_point: of the dtype of `b`, one value, or one per column; default 0.
      output_zero_point: of the output's dtype, one value, or one per row; default 0.
      output_dtype: int8 or uint8; default that of an `output_zero_point` array, else that of `a`.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's CPU kernels:
        `rint(float32(sum + bias) * ((a_scale * b_scale) / output_scale))`.
      requantization: instead, a formula of microcontrollers and NPUs, of `q * 2**e / 2**31`, the
        31-bit multiplier that is nearest to the float64 `a_scale * b_scale / output_scale`:
        "fixed_point_single", its product rounded once, half up; "fixed_point_double", rounded
        half up, then its right shift half away from zero; "fixed_point_half_up", both half up; or
        "float64", a float64 product, half away from zero. In all, adding the bias wraps, as does
        a left shift beyond int32.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int8 or uint8, (..., M, N), without M where `a` is a vector and without N where `b` is one.
      Its gradients are zero: train with `dmlax.training.quantized_linear_matrix_multiply`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field), `option` (BZeroPointTensor, which a prepared matrix holds; arithmetic,
        requantization), `value` (a Python or NumPy scale that is 0, NaN or infinite; a Python or
        NumPy zero point or bias out of range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC. The page leaves `round` open: here ties
      go to even; and a missing zero point: here 0. Accepted beyond the page: a bias, vectors, any
      number of batch axes, and batch axes that broadcast. Traced scales that are 0, NaN or
      infinite give unspecified elements.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      in an export, or where no kernel is available. tpu: xla. reference runs where named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> a = jnp.array([[5, 7, 200]], jnp.uint8)
      >>> scales = dict(a_scale=0.5, b_scale=1.0, output_scale=1.0)
      >>> y = dmlax.quantized_linear_matrix_multiply(
      ...     a.T, jnp.ones((1, 1), jnp.int8), output_zero_point=1, **scales
      ... )
      >>> y.tolist()
      [[3], [5], [101]]
    """
    return QUANTIZED.call(
        *bind.plan(
            QUANTIZED_RULES,
            a,
            b,
            bias,
            a_scale=a_scale,
            b_scale=b_scale,
            output_scale=output_scale,
            a_zero_point=a_zero_point,
            b_zero_point=b_zero_point,
            output_zero_point=output_zero_point,
            output_dtype=output_dtype,
            arithmetic=arithmetic,
            requantization=requantization,
        ),
        implementation,
    )


@eager.public_function(TO_FLOAT, *Product._fields)
def matrix_multiply_integer_to_float(
    a: ArrayLike,
    b: ArrayLike | PreparedMatrix,
    bias: ArrayLike | None = None,
    /,
    *,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    a_zero_point: ArrayLike | None = None,
    b_zero_point: ArrayLike | None = None,
    output_dtype: DTypeLike = jnp.float32,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Multiplies quantized matrices into floats, rounded once.

    `sum * a_scale * b_scale + bias` as a real number, where sum is `matrix_multiply_integer`'s,
    rounded to nearest, ties to even. Overflow is an infinity, a real 0 is +0, subnormals are kept,
    and a NaN or an infinity of the bias is the result. Differentiable in the scales and the bias.

    Args:
      a: int8 or uint8, (..., M, K) or (K,); batch axes broadcast as in `jnp.matmul`.
      b: int8 or uint8, (..., K, N) or (K,); or a `PreparedMatrix`.
      bias: of the output's dtype, (N,) or what broadcasts to the output; default 0.
      a_scale: float32, one value, or one per row: (..., M, 1); as all scales finite and not zero.
      b_scale: float32, one value, or one per column: (N,) or (..., 1, N).
      a_zero_point: of the dtype of `a`, one value, or one per row; default 0.
      b_zero_point: of the dtype of `b`, one value, or one per column; default 0.
      output_dtype: float32 or float16.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's CPU kernels:
        `float32(sum) * (a_scale * b_scale)`, then `+ bias`, each rounded.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      float32 or float16, (..., M, N), without M where `a` is a vector and without N where `b` is
      one.
      The integers `a` and `b` have no gradients: train with
      `dmlax.training.quantized_linear_matrix_multiply`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field), `option` (BZeroPointTensor, which a prepared matrix holds; arithmetic), `value` (a
        Python or NumPy scale that is 0, NaN or infinite; a Python or NumPy zero point out of
        range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC. Accepted beyond the page: int8 mixed with
      uint8, a bias that broadcasts, vectors, any number of batch axes, and batch axes that
      broadcast. The page's 16- and 32-bit integers are valid in a descriptor, and
      `create_operator` raises `UnsupportedError`. Traced scales that are 0, NaN or infinite give
      unspecified elements.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      in an export, or where no kernel is available. tpu: xla. reference runs where named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> a, b = jnp.array([[5, 7]], jnp.uint8), jnp.array([[1], [-3]], jnp.int8)
      >>> dmlax.matrix_multiply_integer_to_float(a, b, a_scale=0.5, b_scale=0.25).tolist()
      [[-2.0]]
    """
    return TO_FLOAT.call(
        *bind.plan(
            TO_FLOAT_RULES,
            a,
            b,
            bias,
            a_scale=a_scale,
            b_scale=b_scale,
            a_zero_point=a_zero_point,
            b_zero_point=b_zero_point,
            output_dtype=output_dtype,
            arithmetic=arithmetic,
        ),
        implementation,
    )
