"""fake_quantize, and LSQ's scale for the gradients of scales."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import requantize
from dmlax._core.arguments import Rules
from dmlax._core.keywords import name_right_keywords
from dmlax.training import rounding, twins

_RULES = Rules("fake_quantize")
_FOUR_BITS = (jnp.int4, jnp.uint4)


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
    array = twins.to_float(_RULES, "input", input)
    chosen = twins.dtype_of(_RULES, "output", dtype, zero_point, np.int8, *_FOUR_BITS)
    limits = rounding.limits_of(chosen)
    container = np.dtype(np.int8 if limits[0] else np.uint8)
    scale = _RULES.to_scale("ScaleTensor", scale, np.float32)
    zero = _RULES.to_parameter("ZeroPointTensor", zero_point, container)
    quantized = rounding.quantize(array, scale, zero, container, arithmetic, axis)
    quantized = jnp.clip(quantized, *map(container.type, limits))
    if axis is not None:
        scale, zero = jax.tree.map(lambda x: _along(x, array.ndim, axis), (scale, zero))
    return rounding.dequantize(limits, array, quantized, scale, zero)


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


def _along(parameter: Array, rank: int, axis: int) -> Array:
    single = parameter.size == 1
    return parameter.reshape(()) if single else twins.along(parameter, rank, axis % rank)
