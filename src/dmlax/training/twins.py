"""Runs a quantized operator on floats, with the derivative of its float twin.

A call quantizes its operands, runs the integer operator and dequantizes the result. Derivatives
come from the float twin, at the dequantized operands.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from dmlax._add_multiply import api as binary
from dmlax._add_multiply.plan import BinaryPlan
from dmlax._convolution import api as convolution
from dmlax._convolution.plan import ConvolutionPlan
from dmlax._core import dispatch
from dmlax._core.arguments import (
    Aval,
    Rules,
    aval_of,
    directml_name,
    expand_rank,
    narrow_float64,
    strong_dtype,
    structs,
)
from dmlax._core.windows import replace_axes
from dmlax._matmul import api as matmul
from dmlax._matmul.plan import ProductPlan
from dmlax._pooling import api as pooling
from dmlax._pooling.plan import PoolingPlan
from dmlax.training import rounding

FLOATS = (jnp.float32, jnp.bfloat16, jnp.float16)
BIAS = "bias"
Values = dict[str, Any]  # arguments by keyword


@dataclass(frozen=True)
class Twin:
    """A quantized operator beside the float operator that it stands for.

    Attributes:
      operator: the quantized operator.
      tensors: the names of its tensors in order, the bias among them.
      compute: the float operator of a plan and the tensors.
      axis: the axis of a tensor along which parameters lie that are one value per channel; None if
        they broadcast as they are.
      as_output: reshapes a parameter of the output, whose axes a plan knows, to broadcast to it.
      with_bias: reshapes a bias and its scale to fit each other and the output.
      weights: the name of the tensor that is int8 by default; others are uint8.
    """

    operator: dispatch.Operator[Any, Any, Array]
    tensors: tuple[str, ...]
    compute: Callable[..., Array]
    axis: Callable[[Any, str], int | None] = lambda plan, name: None
    as_output: Callable[[Any, Array], Array] = lambda plan, parameter: parameter
    with_bias: Callable[[Any, Array, Array], tuple[Array, Array]] | None = None
    weights: str = ""

    @property
    def rules(self) -> Rules:
        """The rules, which name the operator in errors."""
        return Rules(self.operator.name)


def _convolve(plan: ConvolutionPlan, input: Array, filter: Array, bias: Array | None) -> Array:
    """A float convolution with the plan's windows and layouts."""
    options = plan.options
    layouts = options.input_layout, plan.filter.specification, options.output_layout
    result = lax.conv_general_dilated(
        input,
        filter,
        options.strides,
        options.padding,
        rhs_dilation=options.dilations,
        dimension_numbers=lax.ConvDimensionNumbers(*layouts),
        feature_group_count=plan.filter.group_count,
    )
    channels = options.output_layout[1]
    return result if bias is None else result + along(bias, result.ndim, channels)


def _filter_axis(plan: ConvolutionPlan, name: str) -> int | None:
    """The filter's axis of output channels."""
    return plan.filter.specification[0] if name == "filter" else None


def _per_channel(plan: ConvolutionPlan, bias: Array, scale: Array) -> tuple[Array, Array]:
    """A bias (K,), and a scale () or (K,)."""
    return bias.reshape(-1), scale.reshape(() if scale.size == 1 else -1)


def _multiply_matrices(plan: ProductPlan, a: Array, b: Array, bias: Array | None) -> Array:
    """A float matrix product."""
    product = jnp.matmul(a, b)
    return product if bias is None else product + expand_rank(bias, product.ndim)


def _as_product(plan: ProductPlan, parameter: Array) -> Array:
    """Removes the axes of M and N that the output of a vector lacks."""
    missing = [-1] * (len(plan.matrix.matrix.shape) == 1) + [-2] * (len(plan.input.shape) == 1)
    return parameter.squeeze(tuple(axis for axis in missing if -axis <= parameter.ndim))


def _broadcast_bias(plan: ProductPlan, bias: Array, scale: Array) -> tuple[Array, Array]:
    """A scale that broadcasts to the output, and a bias as large as both."""
    scale = _trimmed(_as_product(plan, scale), len(plan.output.shape))
    shape = jnp.broadcast_shapes(bias.shape, scale.shape)
    return jnp.broadcast_to(bias, shape), scale


def _combine(
    function: Callable[[Array, Array], Array], plan: BinaryPlan, a: Array, b: Array
) -> Array:
    """A float sum or product, element by element."""
    rank = len(plan.output.shape)
    return function(expand_rank(a, rank), expand_rank(b, rank))


def _average(plan: PoolingPlan, input: Array) -> Array:
    """Float averages of windows; of a window without elements 0."""
    windows, ones = plan.windows, (1,) * input.ndim
    sizes, strides, dilations = (
        replace_axes(ones, plan.spatial_axes, values)
        for values in (windows.size, windows.strides, windows.dilations)
    )
    padding = replace_axes(((0, 0),) * input.ndim, plan.spatial_axes, windows.padding)

    def sums(x: Array) -> Array:
        total: Array = lax.reduce_window(
            x, np.float32(0), lax.add, sizes, strides, padding, window_dilation=dilations
        )
        return total

    whole = plan.counts_padding
    count = math.prod(sizes) if whole else jnp.maximum(sums(jnp.ones_like(input)), 1)
    return jnp.transpose(sums(input) / count, plan.to_output_layout)


def _channel_axis(plan: PoolingPlan, name: str) -> int:
    """The axis of channels, of the input or of the output."""
    layouts = plan.options.layouts
    return (layouts.input if name == "input" else layouts.output)[1]


CONVOLUTION = Twin(
    convolution.QUANTIZED,
    ("input", "filter", BIAS),
    _convolve,
    _filter_axis,
    with_bias=_per_channel,
    weights="filter",
)
PRODUCT = Twin(
    matmul.QUANTIZED,
    ("a", "b", BIAS),
    _multiply_matrices,
    as_output=_as_product,
    with_bias=_broadcast_bias,
    weights="b",
)
ADD = Twin(binary.ADD, ("a", "b"), functools.partial(_combine, jnp.add))
MULTIPLY = Twin(binary.MULTIPLY, ("a", "b"), functools.partial(_combine, jnp.multiply))
AVERAGE = Twin(pooling.AVERAGE, ("input",), _average, _channel_axis)
GLOBAL_AVERAGE = Twin(pooling.GLOBAL, ("input",), _average, _channel_axis)


class Call(NamedTuple):
    """A checked call.

    Attributes:
      plan: the integer operator's.
      floats: the tensors by name, float32; the bias may be None.
      dtypes: their quantized dtypes.
      options: the other arguments.
    """

    plan: Any
    floats: Mapping[str, Array | None]
    dtypes: Mapping[str, np.dtype]
    options: Values


def call(twin: Twin, arguments: Values) -> Array:
    """Runs an operator on floats, by the arguments of its public function."""
    checked = check(twin, arguments)
    options = checked.options
    options.update(_parameters(twin, checked))
    pairs = [_quantize(twin, checked, name, x) for name, x in checked.floats.items()]
    integers, reals = zip(*pairs, strict=True)
    implementation = options.pop("implementation")
    plan, operands = twin.operator.plan(*integers, **rounding.stopped(options))
    output = twin.operator.call(plan, operands, implementation)
    of_output = _spread(twin, checked, "output", output.ndim)
    return rounding.dequantize_to(twin.compute(plan, *reals), output, *of_output)


def check(twin: Twin, arguments: Values) -> Call:
    """Converts the tensors, and plans the integer operator before anything runs."""
    options, rules = dict(arguments), twin.rules
    tensors = {name: options.pop(name) for name in twin.tensors}
    floats = {
        name: None if x is None and name == BIAS else to_float(rules, name, x)
        for name, x in tensors.items()
    }
    dtypes = {name: _dtype(twin, name, options) for name in tensors}
    avals = [None if x is None else Aval(dtypes[name], x.shape) for name, x in floats.items()]
    planned = {name: value for name, value in options.items() if name != "implementation"}
    plans: list[Any] = []
    jax.eval_shape(lambda *x: plans.append(twin.operator.plan(*x, **planned)[0]), *structs(avals))
    return Call(plans[0], floats, dtypes, options)


def field(name: str) -> str:
    """DirectML's field of a tensor: of `input_scale` InputScaleTensor."""
    return directml_name(f"{name}_tensor")


def to_float(rules: Rules, name: str, value: object) -> Array:
    """Takes a float tensor as float32."""
    array = narrow_float64(rules.to_array(field(name), value))
    rules.expect_dtype(field(name), aval_of(array), *FLOATS)
    return jnp.asarray(array).astype(jnp.float32)


def dtype_of(
    rules: Rules,
    name: str,
    asked: DTypeLike | None,
    zero_point: object,
    default: DTypeLike,
    *more: DTypeLike,
) -> np.dtype:
    """The dtype asked for, else a zero point's, else the default."""
    choices = asked, strong_dtype(zero_point), default
    try:
        dtype = np.dtype(next(choice for choice in choices if choice is not None))
    except TypeError:
        rules.fail("data_type", field(name), f"has dtype {asked!r}, expected int8 or uint8")
    rules.expect_dtype(field(name), Aval(dtype, ()), np.int8, np.uint8, *more)
    return dtype


def _dtype(twin: Twin, name: str, options: Values) -> np.dtype:
    """The quantized dtype of a tensor, whose keyword is taken out of the options."""
    if name == BIAS:
        return np.dtype(np.int32)
    default = np.int8 if name == twin.weights else np.uint8
    zero_point = options[f"{name}_zero_point"]
    return dtype_of(twin.rules, name, options.pop(f"{name}_dtype"), zero_point, default)


def _parameters(twin: Twin, checked: Call) -> Values:
    """Converts scales and zero points to arrays."""
    dtypes = {**checked.dtypes, "output": checked.plan.output.dtype}
    dtypes.pop(BIAS, None)
    result: Values = {}
    for name, dtype in dtypes.items():
        scale, zero = f"{name}_scale", f"{name}_zero_point"
        result[scale] = twin.rules.to_scale(field(scale), checked.options[scale], np.float32)
        result[zero] = twin.rules.to_parameter(field(zero), checked.options[zero], dtype)
    return result


def _quantize(
    twin: Twin, checked: Call, name: str, x: Array | None
) -> tuple[Array | None, Array | None]:
    """The integers of a tensor, and the floats that they stand for."""
    if x is None:
        return None, None
    options = checked.options
    if name == BIAS and twin.with_bias is not None:
        scales = (options[f"{factor}_scale"] for factor in twin.tensors[:2])
        x, scale = twin.with_bias(checked.plan, x, rounding.bias_scale(*scales))
        integers = rounding.round_bias(*rounding.stopped((x, scale)))
        return integers, rounding.dequantize_to(x, integers, scale)
    parameters = _spread(twin, checked, name, x.ndim)
    integers = rounding.quantize(x, *parameters, checked.dtypes[name], options["arithmetic"])
    return integers, rounding.dequantize_to(x, integers, *parameters)


def _spread(twin: Twin, checked: Call, name: str, rank: int) -> tuple[Array, Array | None]:
    """A tensor's scale and zero point, in shapes that broadcast to it."""

    def spread(parameter: Array) -> Array:
        if parameter.size == 1:
            return parameter.reshape(())
        axis = twin.axis(checked.plan, name)
        if axis is not None:
            return along(parameter, rank, axis)
        is_output = name == "output"
        return _trimmed(twin.as_output(checked.plan, parameter) if is_output else parameter, rank)

    scale, zero_point = (checked.options[f"{name}_{part}"] for part in ("scale", "zero_point"))
    return spread(scale), None if zero_point is None else spread(zero_point)


def _trimmed(parameter: Array, rank: int) -> Array:
    """Without the leading axes of size 1 beyond a rank."""
    return parameter.reshape(parameter.shape[-rank:] if rank else ())


def along(parameter: Array, rank: int, axis: int) -> Array:
    """One value per channel, along an axis."""
    return parameter.reshape([-1 if i == axis else 1 for i in range(rank)])
