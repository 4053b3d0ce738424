"""The operators on floats: the integer arithmetic forward, the float operator's slopes backward.

A function has its operator's name, and the operator's arguments except those that its docstring
lists. `twins.call` takes all of them.
"""

from collections.abc import Sequence

from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import dispatch, requantize
from dmlax._core.keywords import name_right_keywords
from dmlax.training import convolution_add, twins


@name_right_keywords
def quantized_linear_convolution(
    input: ArrayLike,
    filter: ArrayLike,
    bias: ArrayLike | None = None,
    /,
    *,
    input_scale: ArrayLike,
    filter_scale: ArrayLike,
    output_scale: ArrayLike,
    input_zero_point: ArrayLike | None = None,
    filter_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    input_dtype: DTypeLike | None = None,
    filter_dtype: DTypeLike | None = None,
    output_dtype: DTypeLike | None = None,
    strides: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    start_padding: int | Sequence[int] | None = None,
    end_padding: int | Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] | None = None,
    group_count: int = 1,
    dimension_numbers: object = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Convolves floats with the bits of `dmlax.quantized_linear_convolution`.

    The arguments that are not listed are the operator's.

    Args:
      input: float32, bfloat16 or float16.
      filter: float32, bfloat16 or float16.
      bias: float32, bfloat16 or float16; rounded to int32 as by `dmlax.calibration.quantize_bias`.
      input_dtype: int8 or uint8; default that of an `input_zero_point` array, else uint8.
      filter_dtype: int8 or uint8; default that of a `filter_zero_point` array, else int8.

    Returns:
      The operator's result, dequantized, as float32.

    Raises:
      SpecError: as the operator; code `data_type` for a tensor that is not of floats.
      UnsupportedError: as the operator.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from dmlax import training
      >>> x, w = jnp.float32([[[[1.1, 2.0, 900.0]]]]), jnp.float32([[[[1.0]]]])
      >>> scales = dict(input_scale=0.5, filter_scale=0.25, output_scale=1.0)
      >>> training.quantized_linear_convolution(x, w, **scales).tolist()
      [[[[1.0, 2.0, 128.0]]]]
      >>> def total(x, w):
      ...     return training.quantized_linear_convolution(x, w, **scales).sum()
      >>> jax.grad(total)(x, w).tolist()  # 900 is outside of the input's range
      [[[[1.0, 1.0, 0.0]]]]
    """
    return twins.call(twins.CONVOLUTION, locals())


@name_right_keywords
def quantized_linear_convolution_add(
    input: ArrayLike,
    filter: ArrayLike,
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
    input_dtype: DTypeLike | None = None,
    filter_dtype: DTypeLike | None = None,
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
    addend_dtype: DTypeLike | None = None,
    sum_scale: ArrayLike,
    sum_zero_point: ArrayLike | None = None,
    sum_dtype: DTypeLike | None = None,
    addend_first: bool = False,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Convolves floats and adds, with the bits of `dmlax.quantized_linear_convolution_add`.

    The arguments that are not listed are the operator's.

    Args:
      input: float32, bfloat16 or float16.
      filter: float32, bfloat16 or float16.
      bias: float32, bfloat16 or float16; rounded to int32 as by `dmlax.calibration.quantize_bias`.
      addend: float32, bfloat16 or float16.
      input_dtype: int8 or uint8; default that of an `input_zero_point` array, else uint8.
      filter_dtype: int8 or uint8; default that of a `filter_zero_point` array, else int8.
      addend_dtype: int8 or uint8; default that of an `addend_zero_point` array, else uint8.

    Returns:
      The operator's result, dequantized, as float32.

    Raises:
      SpecError: as the operator; code `data_type` for a tensor that is not of floats.
      UnsupportedError: as the operator.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> x, w = jnp.float32([[[[1.0, 2.0]]]]), jnp.float32([[[[1.0]]]])
      >>> scales = dict(input_scale=0.5, filter_scale=0.25, output_scale=0.5)
      >>> sums = dict(addend_scale=0.5, sum_scale=1.0)
      >>> y = training.quantized_linear_convolution_add(x, w, None, 2 * x, **scales, **sums)
      >>> y.tolist()
      [[[[3.0, 6.0]]]]
    """
    return convolution_add.call(locals())


@name_right_keywords
def quantized_linear_matrix_multiply(
    a: ArrayLike,
    b: ArrayLike,
    bias: ArrayLike | None = None,
    /,
    *,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    output_scale: ArrayLike,
    a_zero_point: ArrayLike | None = None,
    b_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    a_dtype: DTypeLike | None = None,
    b_dtype: DTypeLike | None = None,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Multiplies float matrices with the bits of `dmlax.quantized_linear_matrix_multiply`.

    The arguments that are not listed are the operator's.

    Args:
      a: float32, bfloat16 or float16.
      b: float32, bfloat16 or float16.
      bias: float32, bfloat16 or float16; rounded to int32 as by `dmlax.calibration.quantize_bias`.
      a_dtype: int8 or uint8; default that of an `a_zero_point` array, else uint8.
      b_dtype: int8 or uint8; default that of a `b_zero_point` array, else int8.

    Returns:
      The operator's result, dequantized, as float32.

    Raises:
      SpecError: as the operator; code `data_type` for a tensor that is not of floats.
      UnsupportedError: as the operator.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> a, b = jnp.float32([[1.0, 2.0]]), jnp.float32([[1.0], [0.6]])
      >>> scales = dict(a_scale=0.5, b_scale=0.25, output_scale=0.25)
      >>> training.quantized_linear_matrix_multiply(a, b, **scales).tolist()
      [[2.0]]
    """
    return twins.call(twins.PRODUCT, locals())


@name_right_keywords
def element_wise_quantized_linear_add(
    a: ArrayLike,
    b: ArrayLike,
    /,
    *,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    output_scale: ArrayLike,
    a_zero_point: ArrayLike | None = None,
    b_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    a_dtype: DTypeLike | None = None,
    b_dtype: DTypeLike | None = None,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Adds floats with the bits of `dmlax.element_wise_quantized_linear_add`.

    The arguments that are not listed are the operator's.

    Args:
      a: float32, bfloat16 or float16.
      b: float32, bfloat16 or float16.
      a_dtype: int8 or uint8; default that of an `a_zero_point` array, else uint8.
      b_dtype: int8 or uint8; default that of a `b_zero_point` array, else uint8.

    Returns:
      The operator's result, dequantized, as float32.

    Raises:
      SpecError: as the operator; code `data_type` for a tensor that is not of floats.
      UnsupportedError: as the operator.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> a, b = jnp.float32([1.0, 2.0]), jnp.float32([0.6, 3.0])
      >>> scales = dict(a_scale=0.5, b_scale=0.5, output_scale=0.25)
      >>> training.element_wise_quantized_linear_add(a, b, **scales).tolist()
      [1.5, 5.0]
    """
    return twins.call(twins.ADD, locals())


@name_right_keywords
def element_wise_quantized_linear_multiply(
    a: ArrayLike,
    b: ArrayLike,
    /,
    *,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    output_scale: ArrayLike,
    a_zero_point: ArrayLike | None = None,
    b_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    a_dtype: DTypeLike | None = None,
    b_dtype: DTypeLike | None = None,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Multiplies floats with the bits of `dmlax.element_wise_quantized_linear_multiply`.

    The arguments that are not listed are the operator's.

    Args:
      a: float32, bfloat16 or float16.
      b: float32, bfloat16 or float16.
      a_dtype: int8 or uint8; default that of an `a_zero_point` array, else uint8.
      b_dtype: int8 or uint8; default that of a `b_zero_point` array, else uint8.

    Returns:
      The operator's result, dequantized, as float32.

    Raises:
      SpecError: as the operator; code `data_type` for a tensor that is not of floats.
      UnsupportedError: as the operator.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> a, b = jnp.float32([1.0, 2.0]), jnp.float32([0.6, 3.0])
      >>> scales = dict(a_scale=0.5, b_scale=0.5, output_scale=0.25)
      >>> training.element_wise_quantized_linear_multiply(a, b, **scales).tolist()
      [0.5, 6.0]
    """
    return twins.call(twins.MULTIPLY, locals())


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
    input_dtype: DTypeLike | None = None,
    output_dtype: DTypeLike | None = None,
    dimension_numbers: object = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Averages windows of floats with the bits of `dmlax.quantized_linear_average_pooling`.

    The arguments that are not listed are the operator's.

    Args:
      input: float32, bfloat16 or float16.
      input_dtype: int8 or uint8; default that of an `input_zero_point` array, else uint8.

    Returns:
      The operator's result, dequantized, as float32.

    Raises:
      SpecError: as the operator; code `data_type` for a tensor that is not of floats.
      UnsupportedError: as the operator.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> x = jnp.float32([[[1.0, 2.0, 4.0, 9.0]]])
      >>> training.quantized_linear_average_pooling(
      ...     x, window_size=2, strides=2, input_scale=1.0, output_scale=0.5
      ... ).tolist()
      [[[1.5, 6.5]]]
    """
    return twins.call(twins.AVERAGE, locals())


@name_right_keywords
def quantized_linear_global_average_pooling(
    input: ArrayLike,
    /,
    *,
    input_scale: ArrayLike,
    output_scale: ArrayLike,
    input_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    input_dtype: DTypeLike | None = None,
    output_dtype: DTypeLike | None = None,
    dimension_numbers: object = None,
    arithmetic: requantize.Arithmetic = "exact",
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Averages channels with the bits of `dmlax.quantized_linear_global_average_pooling`.

    The arguments that are not listed are the operator's.

    Args:
      input: float32, bfloat16 or float16.
      input_dtype: int8 or uint8; default that of an `input_zero_point` array, else uint8.

    Returns:
      The operator's result, dequantized, as float32.

    Raises:
      SpecError: as the operator; code `data_type` for a tensor that is not of floats.
      UnsupportedError: as the operator.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> x = jnp.float32([[[1.0, 2.0, 4.0], [7.0, 7.0, 7.0]]])
      >>> scales = dict(input_scale=1.0, output_scale=0.5)
      >>> training.quantized_linear_global_average_pooling(x, **scales).tolist()
      [[[2.5], [7.0]]]
    """
    return twins.call(twins.GLOBAL_AVERAGE, locals())
