"""The observers' constructors, and the scales and zero points that they give."""

import functools
from types import EllipsisType
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core.arguments import Aval, Rules
from dmlax._core.keywords import name_right_keywords
from dmlax._operators.quantize.api import element_wise_quantize_linear
from dmlax.calibration.observers import LEAST_EXPONENT, Histogram, Range, Target
from dmlax.training import rounding


class Quantization(NamedTuple):
    """The parameters of `real = scale * (integer - zero_point)`: one value, or one per channel."""

    scale: Array
    zero_point: Array


class _Weights(NamedTuple):
    values: Array
    scale: Array
    zero_point: Array


class QuantizedWeights(_Weights):
    """Integers of the weights' shape and their parameters, one value or one per channel.

    Attributes:
      axis: the axis of the channels, counted from the last, -1; None for one value.
    """

    axis: int | None

    def __new__(
        cls, values: Array, scale: Array, zero_point: Array, axis: int | None = None
    ) -> Self:
        """Makes the named tuple."""
        weights = super().__new__(cls, values, scale, zero_point)
        weights.axis = axis
        return weights

    def __getnewargs__(self) -> tuple[Any, ...]:  # copies and pickles call it
        return (*self, self.axis)


def _with_axis(axis: int | None, leaves: Any) -> QuantizedWeights:
    values, scale, zero_point = leaves
    return QuantizedWeights(values, scale, zero_point, axis)


# As a named tuple alone it would lose the axis.
jax.tree_util.register_pytree_node(QuantizedWeights, lambda x: ((*x,), x.axis), _with_axis)


def min_max(*, axis: int | None = None, channels: int | None = None) -> Range:
    """Makes an observer of the least and the greatest value of all tensors.

    Args:
      axis: the axis of channels; default one range for whole tensors.
      channels: the size of that axis.

    Returns:
      An observer that has seen nothing. `observer.observe(x)` returns the observer after a tensor.

    Raises:
      SpecError: code `option` if only one of `axis` and `channels` is given.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> observer = calibration.min_max()
      >>> for batch in jnp.float32([[0.0, 2.0], [-1.0, 4.1]]):
      ...     observer = observer.observe(batch)
      >>> calibration.quantization(observer, jnp.uint8).zero_point.item()
      50
    """
    return _range("min_max", axis, channels)


def moving_average(
    momentum: float = 0.99, /, *, axis: int | None = None, channels: int | None = None
) -> Range:
    """Makes an observer of moving averages of the tensors' least and greatest values.

    Args:
      momentum: the weight of the earlier tensors, from 0 to 1.
      axis: the axis of channels; default one range for whole tensors.
      channels: the size of that axis.

    Returns:
      An observer that has seen nothing.

    Raises:
      SpecError: code `option`.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> observer = calibration.moving_average(0.5).observe(jnp.float32([-1.0, 2.0]))
      >>> observer.observe(jnp.float32([-2.0, 4.0])).high.tolist()
      [3.0]
    """
    _expect_share("moving_average", "momentum", momentum, 1)
    return _range("moving_average", axis, channels, float(momentum))


def percentile(
    kept: float = 99.99,
    /,
    *,
    bins: int = 4096,
    axis: int | None = None,
    channels: int | None = None,
) -> Histogram:
    """Makes an observer whose range keeps a percentage of all values.

    Args:
      kept: the percentage, above 1; half of the other values are cut off at each end.
      bins: of the histogram, a power of two; values of one sign use a quarter of them or more.
      axis: the axis of channels; default one range for whole tensors.
      channels: the size of that axis.

    Returns:
      An observer that has seen nothing.

    Raises:
      SpecError: code `option`.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> x = jnp.append(jnp.linspace(0, 1, 999), 8.0)
      >>> scale = calibration.quantization(calibration.percentile(99).observe(x)).scale
      >>> round(float(scale * 255), 2)
      1.0
    """
    _expect_share("percentile", "kept", kept, 100)
    share = f"is {kept!r}, expected a percentage above 1, as 99.9"
    Rules("percentile").expect(kept > 1, "option", "kept", share)
    return _histogram("percentile", bins, axis, channels, float(kept))


def mse(*, bins: int = 4096, axis: int | None = None, channels: int | None = None) -> Histogram:
    """Makes an observer whose range has the least square error, of 128 shares of `min_max`'s range.

    Args:
      bins: of the histogram, a power of two; values of one sign use a quarter of them or more.
      axis: the axis of channels; default one range for whole tensors.
      channels: the size of that axis.

    Returns:
      An observer that has seen nothing.

    Raises:
      SpecError: code `option`.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> x = jnp.append(jnp.linspace(-1, 1, 100_000), 1.5)
      >>> observer = calibration.mse().observe(x)
      >>> bool(calibration.quantization(observer, jnp.int8, symmetric=True).scale < 1.1 / 127)
      True
    """
    return _histogram("mse", bins, axis, channels, None)


def quantization(
    observer: Range,
    dtype: DTypeLike = np.uint8,
    /,
    *,
    symmetric: bool = False,
    per_channel: bool | None = None,
) -> Quantization:
    """Returns the scale and zero point that map an observer's range to 8 bits.

    The range is extended to hold 0, so that 0 is exact. A range that is only 0 has the scale 1.

    Args:
      observer: of this module.
      dtype: int8 or uint8.
      symmetric: True for the zero point 0 of int8, or 128 of uint8, and 127 steps on both sides.
      per_channel: False for one scale of an observer with channels; default True for one with them.

    Returns:
      A `Quantization(scale, zero_point)`.

    Raises:
      SpecError: code `value` (observer) if it has seen nothing, NaN or an infinity, where that is
        known; `data_type` (dtype); `option` (per_channel) for an observer without channels, or
        (observer) for anything else.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> observer = calibration.min_max(axis=0, channels=2).observe(jnp.float32([[127], [-254]]))
      >>> scale, zero_point = calibration.quantization(observer, jnp.int8, symmetric=True)
      >>> scale.tolist(), zero_point.tolist()
      ([1.0, 2.0], [0, 0])
    """
    return _quantization(Rules("quantization"), observer, dtype, symmetric, 8, per_channel)


def _quantization(
    rules: Rules,
    observer: Range,
    dtype: DTypeLike,
    symmetric: bool,
    bits: int,
    per_channel: bool | None = None,
) -> Quantization:
    """The parameters for integers of `bits`, which the dtype holds."""
    text = f"has type {type(observer).__name__}, expected one as calibration.min_max().observe(x)"
    rules.expect(isinstance(observer, Range), "option", "observer", text)
    chosen = np.dtype(dtype)
    wanted = f"is {chosen.name}, expected int8 or uint8, also for the `bits` of quantize_weights"
    rules.expect(chosen.name in ("int8", "uint8"), "data_type", "dtype", wanted)
    has_channels = observer.axis is not None
    several = has_channels if per_channel is None else per_channel
    alone = "is True, of an observer without channels"
    rules.expect(has_channels or not several, "option", "per_channel", alone)
    _expect_values(rules, observer)
    target = Target(*_limits(chosen, bits), symmetric)
    scale, zero_point = _parameters(target, several, observer)
    return Quantization(scale, zero_point.astype(chosen))


def _limits(dtype: np.dtype, bits: int) -> rounding.Limits:
    """The least and the greatest integer of `bits` that the dtype holds."""
    low, high = rounding.limits_of(dtype)
    return low >> (8 - bits), high >> (8 - bits)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _parameters(target: Target, several: bool, observer: Range) -> tuple[Array, Array]:
    """The scale and the zero point as floats."""
    observer = observer if several else observer.merged()
    scale, zero_point = target.parameters(*observer.limits(target))
    scale = jnp.where(observer.low > observer.high, jnp.nan, scale)
    shape = scale.shape if several else ()
    return scale.reshape(shape), zero_point.reshape(shape)


def quantize_weights(
    weights: ArrayLike,
    /,
    *,
    axis: int | EllipsisType | None = ...,
    dtype: DTypeLike = np.int8,
    symmetric: bool = True,
    bits: int = 8,
    observer: Range | None = None,
) -> QuantizedWeights:
    """Quantizes weights, by default each output channel of a filter to -127..127.

    The scale has no gradient: weights that train with it adapt to the rounding.

    Args:
      weights: float32, bfloat16 or float16.
      axis: the axis of output channels: 0 of a filter OIHW, the default for rank 3 and more; -1 of
        a filter HWIO or a matrix (K, N), for which it must be given; None for one scale.
      dtype: int8 or uint8.
      symmetric: as of `quantization`.
      bits: 2 to 8. Fewer than 8 also are int8 or uint8: 4 bits are -7..7. If the observer cuts off
        values, 4 bits are -8..7: train with weights that `training.fake_quantize` clamps to these.
      observer: one that has seen nothing and has the axis, then the default, and its size; default
        `min_max`.

    Returns:
      A `QuantizedWeights(values, scale, zero_point)`.

    Raises:
      SpecError: as `quantization`; code `sizes` for an observer of another number of channels;
        `option` (bits), or (axis) if it is not an axis of the weights, or not given for a matrix.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> matrix = jnp.float32([[0.5, 0.1], [-1.27, 0.2]])
      >>> calibration.quantize_weights(matrix, axis=-1).values.tolist()
      [[50, 64], [-127, 127]]
    """
    rules = Rules("quantize_weights")
    array = rounding.stopped(rules.to_array("weights", weights).astype(np.float32))
    bits = rules.to_integer("bits", bits, 2, 8)
    axis = _weights_axis(rules, array, axis, observer)
    if observer is None:
        observer = _range(rules.operator, axis, None if axis is None else array.shape[axis])
    scale, zero_point = _quantization(rules, observer.observe(array), dtype, symmetric, bits)
    values = element_wise_quantize_linear(array, scale, zero_point, axis=axis)
    if bits < 8:
        values = jnp.clip(values, *_limits(values.dtype, bits))
    return QuantizedWeights(values, scale, zero_point, axis)


def _weights_axis(
    rules: Rules, weights: Array, axis: int | EllipsisType | None, observer: Range | None
) -> int | None:
    """The axis of output channels, counted from the last."""
    described = f"weights {Aval(weights.dtype, weights.shape)}"
    if axis is ... and isinstance(observer, Range):
        axis = observer.axis
    if axis is ...:
        remedy = f"has no default for {described}: -1 for a matrix (K, N), 0 for (N, K), or None"
        rules.expect(weights.ndim > 2, "option", "axis", remedy)
        axis = 0
    if axis is None:
        return None
    fits = isinstance(axis, int | np.integer) and -weights.ndim <= axis < weights.ndim
    rules.expect(fits, "option", "axis", f"is {axis!r}, which {described} do not have")
    axis = int(axis) % weights.ndim - weights.ndim
    if isinstance(observer, Range) and observer.axis is not None:
        other = f"has axis {observer.axis}, expected {axis}, that of {described}"
        rules.expect((observer.axis - axis) % weights.ndim == 0, "option", "observer", other)
    return axis


@name_right_keywords
def quantize_bias(bias: ArrayLike, /, *, input_scale: ArrayLike, filter_scale: ArrayLike) -> Array:
    """Quantizes a bias to int32 in units of `input_scale * filter_scale`, as `dmlax.training` does.

    The product is rounded to float32, and the float32 quotient half to even; it saturates.

    Args:
      bias: float32, bfloat16 or float16.
      input_scale: float32, one value.
      filter_scale: float32, one value or one per channel.

    Returns:
      int32, of the bias' shape.

    Raises:
      SpecError: code `value` for a known scale that is 0, NaN or infinite.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> bias, scale = jnp.float32([3.0, 3.2]), jnp.float32([0.5, 0.25])
      >>> calibration.quantize_bias(bias, input_scale=0.5, filter_scale=scale).tolist()
      [12, 26]
    """
    rules = Rules("quantize_bias")
    array = jnp.asarray(rules.to_array("BiasTensor", bias)).astype(jnp.float32)
    scale = rounding.bias_scale(
        rules.to_scale("InputScaleTensor", input_scale, np.float32),
        rules.to_scale("FilterScaleTensor", filter_scale, np.float32),
    )
    return rounding.round_bias(array, scale.reshape(array.shape if scale.size > 1 else ()))


def fold_batch_norm(
    weights: ArrayLike,
    bias: ArrayLike | None,
    mean: ArrayLike,
    variance: ArrayLike,
    scale: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    /,
    *,
    axis: int | EllipsisType = ...,
    epsilon: float = 1e-5,
) -> tuple[Array, Array]:
    """Folds the batch norm that follows a convolution or a product into its weights and bias.

    `quantize` of `dmlax.quantization` folds by itself.

    Args:
      weights: float32, bfloat16 or float16.
      bias: (channels,); None is 0.
      mean: (channels,).
      variance: (channels,).
      scale: (channels,); None is 1.
      offset: (channels,); None is 0.
      axis: of the weights' output channels, as of `quantize_weights`.
      epsilon: added to the variance; 1e-5 is Flax's, PyTorch's and ONNX's default.

    Returns:
      The weights, of the weights' shape, and the bias, (channels,), float32.

    Raises:
      SpecError: code `sizes` for statistics of another number of channels; `option` (axis) if it
        is not an axis of the weights, or not given for a matrix.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> x, w = jnp.float32([[1.0, 2.0]]), jnp.float32([[3.0], [0.5]])
      >>> mean, variance, scale, offset = jnp.float32([[2.0], [4.0], [6.0], [1.0]])
      >>> statistics = mean, variance, scale, offset
      >>> w, b = calibration.fold_batch_norm(w, None, *statistics, axis=-1, epsilon=0.0)
      >>> (x @ w + b).tolist()
      [[7.0]]
    """
    rules = Rules("fold_batch_norm")
    array = jnp.asarray(rules.to_array("weights", weights)).astype(jnp.float32)
    given = _weights_axis(rules, array, axis, None)
    rules.expect(given is not None, "option", "axis", "is None, expected an axis of the weights")
    assert given is not None
    shape = (array.shape[given],)
    named = {"bias": bias, "mean": mean, "variance": variance, "scale": scale, "offset": offset}
    ones = {"scale": 1.0}
    values = {}
    for name, value in named.items():
        found = jnp.full(shape, ones.get(name, 0.0)) if value is None else jnp.asarray(value)
        text = f"has shape {found.shape}, expected {shape}, one value per channel of the weights"
        rules.expect(found.shape == shape, "sizes", name, text)
        values[name] = found.astype(jnp.float32)
    factor = values["scale"] / jnp.sqrt(values["variance"] + epsilon)
    along = [-1 if i == given % array.ndim else 1 for i in range(array.ndim)]
    return array * factor.reshape(along), (values["bias"] - values["mean"]) * factor + values[
        "offset"
    ]


def corrected_bias(
    bias: ArrayLike, expected: ArrayLike, actual: ArrayLike, /, *, axis: int = 1
) -> Array:
    """Adds to a bias the mean error of each output channel, which quantized weights cause.

    The bias correction of Nagel et al., "Data-Free Quantization Through Weight Equalization and
    Bias Correction", ICCV 2019, with measured means.

    Args:
      bias: float32 (channels,).
      expected: outputs of the float layer, before its activation.
      actual: outputs of the quantized layer.
      axis: the axis of channels, 1 of NCHW and -1 of NHWC.

    Returns:
      float32 (channels,).

    Raises:
      SpecError: code `sizes` for outputs of different shapes, or a bias of another size.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> expected = jnp.float32([[1.0, 2.0], [3.0, 2.0]])
      >>> calibration.corrected_bias(jnp.float32([0.0, 1.0]), expected, expected - 0.25).tolist()
      [0.25, 1.25]
    """
    left, right = jnp.asarray(expected, jnp.float32), jnp.asarray(actual, jnp.float32)
    differ = f"has shape {right.shape}, expected {left.shape}, that of `expected`"
    rules, array = Rules("corrected_bias"), jnp.asarray(bias, jnp.float32)
    rules.expect(left.shape == right.shape, "sizes", "actual", differ)
    fits = -left.ndim <= axis < left.ndim and array.shape in ((), (left.shape[axis],))
    wanted = f"one value for each channel, axis {axis} of `expected` {left.shape}"
    rules.expect(fits, "sizes", "bias", f"has shape {array.shape}, expected {wanted}")
    others = tuple(i for i in range(left.ndim) if i != axis % left.ndim)
    return array + (left - right).mean(others)


def keywords(**tensors: Quantization | QuantizedWeights) -> dict[str, Array]:
    """Names the scales and zero points of tensors as the operators' keywords do.

    Args:
      **tensors: the quantization of each tensor, by the tensor's name.

    Returns:
      A `<name>_scale` and a `<name>_zero_point` for each tensor.

    Raises:
      SpecError: code `option` for a tensor that is neither kind of quantization, or for the weights
        `b` of a product whose scales lie along another axis than the last.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration, training
      >>> a, b = jnp.float32([[1.0, 2.0]]), jnp.float32([[0.5], [0.25]])
      >>> of_a, of_y = (
      ...     calibration.quantization(calibration.min_max().observe(x)) for x in (a, a @ b)
      ... )
      >>> scales = calibration.keywords(
      ...     a=of_a, b=calibration.quantize_weights(b, axis=-1), output=of_y
      ... )
      >>> training.quantized_linear_matrix_multiply(a, b, **scales).round(2).tolist()
      [[1.0]]
    """
    parts = ("scale", "zero_point")
    for name, x in tensors.items():
        text = f"has type {type(x).__name__}, expected a Quantization or QuantizedWeights"
        Rules("keywords").expect(all(hasattr(x, part) for part in parts), "option", name, text)
        if name == "b" and isinstance(x, QuantizedWeights):
            other = f"has scales along axis {x.axis}, expected -1: quantize_weights(b, axis=-1)"
            Rules("keywords").expect(x.axis in (None, -1), "option", name, other)
    return {f"{name}_{part}": getattr(x, part) for name, x in tensors.items() for part in parts}


def _range(
    name: str, axis: int | None, channels: int | None, momentum: float | None = None
) -> Range:
    rules = Rules(name)
    together = (axis is None) == (channels is None)
    rules.expect(together, "option", "channels", f"is {channels!r}, and axis is {axis!r}")
    size = 1 if channels is None else rules.to_integer("channels", channels, 1)
    low, high = jnp.full(size, jnp.inf), jnp.full(size, -jnp.inf)
    return Range(low=low, high=high, axis=axis, momentum=momentum)


def _histogram(
    name: str, bins: int, axis: int | None, channels: int | None, kept: float | None
) -> Histogram:
    rules, range = Rules(name), _range(name, axis, channels)
    bins = rules.to_integer("bins", bins, 2, 1 << 24)
    power = bins & (bins - 1) == 0
    rules.expect(power, "option", "bins", f"is {bins}, expected a power of two")
    counts = jnp.zeros((*range.low.shape, bins), jnp.int32)
    exponent = jnp.full(range.low.shape, LEAST_EXPONENT, jnp.int32)
    return Histogram(**vars(range), counts=counts, exponent=exponent, kept=kept)


def _expect_share(name: str, field: str, value: float, whole: int) -> None:
    good = isinstance(value, int | float) and 0 <= value <= whole
    Rules(name).expect(good, "option", field, f"is {value!r}, expected 0 to {whole}")


def _expect_values(rules: Rules, observer: Range) -> None:
    """Refuses a known observer that has no finite range."""
    if isinstance(observer.low, jax.core.Tracer):
        return
    low, high = np.asarray(observer.low), np.asarray(observer.high)
    rules.expect(not np.any(low > high), "value", "observer", "has seen nothing")
    finite = bool(np.all(np.isfinite(low) & np.isfinite(high)))
    rules.expect(finite, "value", "observer", "has seen NaN or an infinity")
