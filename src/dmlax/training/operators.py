"""The operators on floats: the integer arithmetic forward, the float operator's slopes backward.

A function has its operator's name, and the operator's arguments except the tensors and their
dtypes. `twins.call` takes all of them.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Literal, ParamSpec

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import dispatch, requantize
from dmlax._core.arguments import Rules
from dmlax._core.keywords import name_right_keywords
from dmlax._core.quantized_sum import SumRequantization
from dmlax._operators.pooling.plan import MeanRequantization
from dmlax.training import rounding, twins

_P = ParamSpec("_P")
_FOUR_BITS = (jnp.int4, jnp.uint4)
_FLOATS = "float32, bfloat16 or float16"
_BIAS = f"{_FLOATS}; rounded to int32 as by `dmlax.calibration.quantize_bias`"
_SECTIONS = """\
The arguments that are not listed are the operator's.

Args:
{arguments}

Returns:
  The operator's result, dequantized, as float32.

Raises:
  SpecError: as the operator; code `data_type` for a tensor that is not of floats.
  UnsupportedError: as the operator."""


def _documented(twin: twins.Twin) -> Callable[[Callable[_P, Array]], Callable[_P, Array]]:
    """Puts the sections that all functions share before a docstring's example."""
    lines = [f"  {name}: {_BIAS if name == twins.BIAS else _FLOATS}." for name in twin.tensors]
    lines += [
        f"  {name}_dtype: int8 or uint8; default that of the array `{name}_zero_point`, else "
        f"{twin.default_dtype(name).__name__}."
        for name in twin.tensors
        if name != twins.BIAS
    ]

    def decorate(function: Callable[_P, Array]) -> Callable[_P, Array]:
        summary, _, example = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        sections = _SECTIONS.format(arguments="\n".join(lines))
        function.__doc__ = f"{summary}\n\n{sections}\n\n{example}"
        return name_right_keywords(function)

    return decorate


@_documented(twins.CONVOLUTION)
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
    requantization: requantize.Requantization | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Convolves floats with the bits of `dmlax.quantized_linear_convolution`.

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


@_documented(twins.CONVOLUTION_ADD)
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
    return twins.call_sum(locals())


@_documented(twins.PRODUCT)
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
    requantization: requantize.Requantization | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Multiplies float matrices with the bits of `dmlax.quantized_linear_matrix_multiply`.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> a, b = jnp.float32([[1.0, 2.0]]), jnp.float32([[1.0], [0.6]])
      >>> scales = dict(a_scale=0.5, b_scale=0.25, output_scale=0.25)
      >>> training.quantized_linear_matrix_multiply(a, b, **scales).tolist()
      [[2.0]]
    """
    return twins.call(twins.PRODUCT, locals())


@_documented(twins.ADD)
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
    requantization: SumRequantization | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Adds floats with the bits of `dmlax.element_wise_quantized_linear_add`.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> a, b = jnp.float32([1.0, 2.0]), jnp.float32([0.6, 3.0])
      >>> scales = dict(a_scale=0.5, b_scale=0.5, output_scale=0.25)
      >>> training.element_wise_quantized_linear_add(a, b, **scales).tolist()
      [1.5, 5.0]
    """
    return twins.call(twins.ADD, locals())


@_documented(twins.MULTIPLY)
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
    requantization: Literal["fixed_point_double"] | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Multiplies floats with the bits of `dmlax.element_wise_quantized_linear_multiply`.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> a, b = jnp.float32([1.0, 2.0]), jnp.float32([0.6, 3.0])
      >>> scales = dict(a_scale=0.5, b_scale=0.5, output_scale=0.25)
      >>> training.element_wise_quantized_linear_multiply(a, b, **scales).tolist()
      [0.5, 6.0]
    """
    return twins.call(twins.MULTIPLY, locals())


@_documented(twins.AVERAGE)
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


@_documented(twins.GLOBAL_AVERAGE)
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
    requantization: MeanRequantization | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Averages channels with the bits of `dmlax.quantized_linear_global_average_pooling`.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import training
      >>> x = jnp.float32([[[1.0, 2.0, 4.0], [7.0, 7.0, 7.0]]])
      >>> scales = dict(input_scale=1.0, output_scale=0.5)
      >>> training.quantized_linear_global_average_pooling(x, **scales).tolist()
      [[[2.5], [7.0]]]
    """
    return twins.call(twins.GLOBAL_AVERAGE, locals())


@name_right_keywords
def fake_quantize(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    /,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    arithmetic: requantize.Arithmetic = "exact",
) -> Array:
    """Rounds floats to the values that quantized integers can have, differentiably.

    `element_wise_dequantize_linear` of `element_wise_quantize_linear`. The gradient of the input
    passes where the clamp changes nothing and is zero elsewhere. The gradient of the scale is
    LSQ's: `quantized - zero_point`, less `input / scale` inside of the clamp.

    Args:
      input: float32, bfloat16 or float16.
      scale: float32: one value, (K,) with `axis`, or any shape that broadcasts to the input;
        finite and not zero.
      zero_point: of the quantized dtype, of 4 bits int8 or uint8; shapes as the scale's; default 0.
      dtype: int8, uint8, or of 4 bits `jnp.int4` or `jnp.uint4`; default that of a `zero_point`
        array, else int8.
      axis: the axis along which (K,) parameters lie.
      arithmetic: "exact" or "float32", as of `dmlax.element_wise_quantize_linear`.

    Returns:
      float32, of the input's shape.

    Raises:
      SpecError: as `dmlax.element_wise_quantize_linear`, and code `data_type` for another input or
        dtype.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from dmlax import training
      >>> x = jnp.float32([0.3, -0.8, 100.0])
      >>> training.fake_quantize(x, 0.5).tolist()
      [0.5, -1.0, 63.5]
      >>> jax.grad(lambda x: training.fake_quantize(x, 0.5).sum())(x).tolist()
      [1.0, 1.0, 0.0]
    """
    rules = Rules("fake_quantize")
    array = twins.to_float(rules, "input", input)
    chosen = twins.dtype_of(rules, "output", dtype, zero_point, np.int8, *_FOUR_BITS)
    limits = rounding.limits_of(chosen)
    container = np.dtype(np.int8 if limits[0] else np.uint8)
    scale = rules.to_scale("ScaleTensor", scale, np.float32)
    zero = rules.to_parameter("ZeroPointTensor", zero_point, container)
    quantized = rounding.quantize(array, scale, zero, container, arithmetic, axis)
    quantized = jnp.clip(quantized, *map(container.type, limits))
    if axis is not None:
        scale, zero = jax.tree.map(functools.partial(_along, array.ndim, axis), (scale, zero))
    return rounding.dequantize(limits, array, quantized, scale, zero, jnp.isnan(array))


def scale_gradient(scale: ArrayLike, /, count: int, *, dtype: DTypeLike = jnp.int8) -> Array:
    """Returns a scale whose gradient is multiplied by `1 / sqrt(count * greatest)`, as in LSQ.

    The factor makes a scale learn as fast as the weights do. See section 2.2 of Esser et al.,
    "Learned Step Size Quantization", ICLR 2020. Pass the result wherever an operator takes a scale.

    Args:
      scale: float32.
      count: the elements that share the scale: weights of a filter, or features of an image.
      dtype: int8, uint8, `jnp.int4` or `jnp.uint4`, whose greatest value counts.

    Returns:
      The same values.

    Raises:
      SpecError: code `option` for a count below 1, `data_type` for another dtype.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from dmlax import training
      >>> def loss(scale):
      ...     scale = training.scale_gradient(scale, 100)
      ...     return training.fake_quantize(jnp.ones(100), scale).sum()
      >>> round(float(jax.grad(loss)(jnp.float32(0.03))), 4)
      -0.2958
    """
    rules = Rules("scale_gradient")
    chosen = twins.dtype_of(rules, "output", dtype, None, np.int8, *_FOUR_BITS)
    count = rules.to_integer("count", count, 1)
    array = jnp.asarray(rules.to_scale("ScaleTensor", scale, np.float32))
    constant = lax.stop_gradient(array)
    return constant + (array - constant) / math.sqrt(count * rounding.limits_of(chosen)[1])


def _along(rank: int, axis: int, parameter: Array) -> Array:
    """Reshapes one value per channel to lie along an axis, and a single value to a scalar."""
    sizes = [-1 if i == axis % rank else 1 for i in range(rank)]
    return parameter.reshape(() if parameter.size == 1 else sizes)
