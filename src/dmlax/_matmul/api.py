"""matrix_multiply_integer and its two forms with scales."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import compat, dispatch, eager, requantize
from dmlax._core.arguments import Aval, Rules, aval_of
from dmlax._core.keywords import name_right_keywords
from dmlax._core.prepared_weights import Prepared
from dmlax._matmul import reference, xla
from dmlax._matmul.cpu import lowering as native_cpu
from dmlax._matmul.cuda import lowering as mosaic_gpu
from dmlax._matmul.plan import (
    FIELDS,
    MatrixShape,
    Product,
    ProductPlan,
    check_b_zero_point,
    matrix_shape,
    output_partition,
    product_plan,
)
from dmlax._matmul.prepare import pack_constant, to_b_zero_point
from dmlax._matmul.prepared_matrix import PreparedMatrix

_INTEGER = Rules("matrix_multiply_integer")
_QUANTIZED = Rules("quantized_linear_matrix_multiply")
_TO_FLOAT = Rules("matrix_multiply_integer_to_float")
_DEAD_COLUMN = "a dead column has scale 1 and zeros"
_LOWERINGS = (
    dispatch.Lowering("native_cpu", native_cpu.run, native_cpu.why_not, ("cpu",)),
    dispatch.Lowering("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, ("cuda",)),
    dispatch.Lowering("xla", xla.run),
    dispatch.Lowering("reference", reference.run),
)
INTEGER, QUANTIZED = (
    dispatch.Operator(rules.operator, _LOWERINGS, partition=output_partition)
    for rules in (_INTEGER, _QUANTIZED)
)
TO_FLOAT = dispatch.Operator(
    _TO_FLOAT.operator, _LOWERINGS, tangent=xla.to_float_tangent, partition=output_partition
)


def _leaves(b: Any) -> tuple[Any, ...]:
    return b.arrays if isinstance(b, PreparedMatrix) else ()


@eager.jit_eager_calls(*Product._fields, leaves=_leaves)
@name_right_keywords
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
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla",
        "reference".

    Returns:
      int32, (..., M, N), without M where `a` is a vector and without N where `b` is one.

    Raises:
      SpecError: code `data_type`, `dimension_count` or `sizes` (the tensor's field), `option`
        (BZeroPointTensor, which a prepared matrix holds), `value` (a Python or NumPy zero point
        out of range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC. Accepted beyond the page: vectors, any number of
      batch axes, and batch axes that broadcast.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where a GPU of compute capability 9.0 is attached; or xla
      in an export, over several devices, or where no kernel is available. tpu: xla. reference runs
      where named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> a = jnp.array([[1, 2, 3], [255, 0, 7]], jnp.uint8)
      >>> b = jnp.array([[1, -1], [2, -2], [3, -3]], jnp.int8)
      >>> dmlax.matrix_multiply_integer(a, b, a_zero_point=1).tolist()
      [[8, -8], [270, -270]]
    """
    arguments = Product(a, b, a_zero_point, b_zero_point)
    plan, operands = _bind(_INTEGER, arguments)
    return dispatch.call(INTEGER, plan, operands, implementation)  # type: ignore[no-any-return]


@eager.jit_eager_calls(*Product._fields, leaves=_leaves)
@name_right_keywords
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
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla",
        "reference".

    Returns:
      int8 or uint8, (..., M, N), without M where `a` is a vector and without N where `b` is one.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field), `option` (BZeroPointTensor, which a prepared matrix holds; arithmetic), `value` (a
        Python or NumPy scale that is 0, NaN or infinite; a Python or NumPy zero point or bias out
        of range).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC. The page leaves `round` open: here ties
      go to even; and a missing zero point: here 0. Accepted beyond the page: a bias, vectors, any
      number of batch axes, and batch axes that broadcast. Traced scales that are 0, NaN or
      infinite give unspecified elements.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where a GPU of compute capability 9.0 is attached; or xla
      in an export, over several devices, or where no kernel is available. tpu: xla. reference runs
      where named.

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
    arguments = Product(
        a,
        b,
        a_zero_point,
        b_zero_point,
        bias,
        a_scale,
        b_scale,
        output_scale,
        output_zero_point,
    )
    _QUANTIZED.expect_choice("arithmetic", arithmetic, requantize.ARITHMETICS)
    plan, operands = _bind(_QUANTIZED, arguments, arithmetic, output_dtype)
    return dispatch.call(QUANTIZED, plan, operands, implementation)  # type: ignore[no-any-return]


@eager.jit_eager_calls(*Product._fields, leaves=_leaves)
@name_right_keywords
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
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla",
        "reference".

    Returns:
      float32 or float16, (..., M, N), without M where `a` is a vector and without N where `b` is
      one.

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
      cpu: native_cpu; cuda: mosaic_gpu, where a GPU of compute capability 9.0 is attached; or xla
      in an export, over several devices, or where no kernel is available. tpu: xla. reference runs
      where named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> a, b = jnp.array([[5, 7]], jnp.uint8), jnp.array([[1], [-3]], jnp.int8)
      >>> dmlax.matrix_multiply_integer_to_float(a, b, a_scale=0.5, b_scale=0.25).tolist()
      [[-2.0]]
    """
    arguments = Product(a, b, a_zero_point, b_zero_point, bias, a_scale, b_scale)
    _TO_FLOAT.expect_choice("arithmetic", arithmetic, requantize.ARITHMETICS)
    plan, operands = _bind(_TO_FLOAT, arguments, arithmetic, output_dtype)
    return dispatch.call(TO_FLOAT, plan, operands, implementation)  # type: ignore[no-any-return]


def _bind(
    rules: Rules,
    arguments: Product,
    arithmetic: requantize.Arithmetic = "exact",
    output_dtype: Any = None,
) -> tuple[ProductPlan, Product]:
    """Converts arrays to their canonical forms, and plans the call."""
    a = rules.to_array(FIELDS.a, arguments.a)
    rules.expect_dtype(FIELDS.a, aval_of(a), jnp.int8, jnp.uint8)
    shape, b, prepared = _matrix(rules, arguments)
    dtype = _output_dtype(rules, arguments, a, output_dtype)
    operands = _operands(rules, arguments, a, b, shape, dtype)
    avals = Product(*map(_aval, operands._replace(b=None)))
    if compat.is_constant_of_trace(arguments.b, a):
        check_b_zero_point(rules, shape, avals.b_zero_point)
        packed = pack_constant(shape, b, operands.b_zero_point)
        operands = operands._replace(b=packed, b_zero_point=None)
    plan = product_plan(rules, avals, shape, prepared, dtype, arithmetic)
    scales = operands.a_scale, operands.b_scale, operands.output_scale
    has_bias = operands.bias is not None
    threshold = requantize.threshold_of_constants(scales, a, arithmetic, has_bias)
    if has_bias and requantize.saturates_beyond_int32(scales, a):
        plan = replace(plan, steep=True)
    return plan, operands._replace(threshold=threshold)


def _aval(array: Any) -> Aval | None:
    return None if array is None else aval_of(array)


def _output_dtype(rules: Rules, arguments: Product, a: Any, asked: Any) -> np.dtype:
    if rules is _QUANTIZED:
        zero_point = arguments.output_zero_point
        return rules.choose_output_dtype(asked, FIELDS.output_zero_point, zero_point, a.dtype)
    return rules.choose_float_dtype(asked) if rules is _TO_FLOAT else np.dtype(np.int32)


def _matrix(
    rules: Rules, arguments: Product
) -> tuple[MatrixShape, Array | np.ndarray | Prepared, tuple[Aval | None, ...] | None]:
    """Takes the right matrix, raw or prepared, and the avals of a prepared one's arrays."""
    b = arguments.b
    if not isinstance(b, PreparedMatrix):
        array = rules.to_array(FIELDS.b, b)
        return matrix_shape(rules, aval_of(array)), array, None
    again = "is given again: the prepared matrix holds it"
    rules.expect(arguments.b_zero_point is None, "option", FIELDS.b_zero_point, again)
    leaves: list[Any] = [x if x is None else rules.to_array(FIELDS.b, x) for x in b.arrays]
    return b.weights, Prepared(*leaves), tuple(map(_aval, leaves))


def _operands(
    rules: Rules,
    arguments: Product,
    a: Array | np.ndarray,
    b: Array | np.ndarray | Prepared,
    shape: MatrixShape,
    dtype: np.dtype,
) -> Product:
    """Converts every parameter to an array; weakly typed ones take their tensor's dtype."""
    found: dict[str, Any] = {
        "a_zero_point": rules.to_parameter(FIELDS.a_zero_point, arguments.a_zero_point, a.dtype),
        "b_zero_point": to_b_zero_point(rules, shape, arguments.b_zero_point),
    }
    if rules is _QUANTIZED:
        found["bias"] = rules.to_parameter(FIELDS.bias, arguments.bias, jnp.int32)
        found["output_zero_point"] = rules.to_parameter(
            FIELDS.output_zero_point, arguments.output_zero_point, dtype
        )
    elif rules is _TO_FLOAT:
        found["bias"] = rules.to_parameter(FIELDS.bias, arguments.bias, dtype)
    for name in _SCALES[rules.operator]:
        remedy = _DEAD_COLUMN if name == "b_scale" else ""
        field, value = getattr(FIELDS, name), getattr(arguments, name)
        found[name] = rules.to_scale(field, value, jnp.float32, remedy)
    return Product(a, b, **found)


_SCALES = {
    _INTEGER.operator: (),
    _QUANTIZED.operator: ("a_scale", "b_scale", "output_scale"),
    _TO_FLOAT.operator: ("a_scale", "b_scale"),
}
