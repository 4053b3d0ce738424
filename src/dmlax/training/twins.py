"""Runs a quantized operator on floats, with the derivative of its float twin.

A call quantizes its operands, runs the integer operator and dequantizes the result. Derivatives
come from the float twin, at the dequantized operands.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from dmlax._core import dispatch
from dmlax._core.arguments import (
    Aval,
    Rules,
    aval_of,
    directml_name,
    expand_rank,
    is_static,
    narrow_float64,
    strong_dtype,
)
from dmlax._core.axis_names import WHOLE, Names
from dmlax._core.windows import replace_axes
from dmlax._operators.add_multiply import api as binary
from dmlax._operators.add_multiply.plan import BinaryPlan
from dmlax._operators.convolution import api as convolution
from dmlax._operators.convolution.plan import ConvolutionPlan
from dmlax._operators.convolution_add import api as convolution_add
from dmlax._operators.matmul import api as matmul
from dmlax._operators.matmul.plan import ProductPlan
from dmlax._operators.pooling import api as pooling
from dmlax._operators.pooling.plan import PoolingPlan
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
      weights: the name of the tensor that is int8 by default; others are uint8.
    """

    operator: dispatch.Operator[Any, Any, Array]
    tensors: tuple[str, ...]
    compute: Callable[..., Array]
    weights: str = ""

    @property
    def rules(self) -> Rules:
        """The rules, which name the operator in errors."""
        return Rules(self.operator.name)

    def default_dtype(self, name: str) -> type[np.integer]:
        """The quantized dtype of a tensor."""
        return np.int8 if name == self.weights else np.uint8


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
    return result if bias is None else result + bias


def _multiply_matrices(plan: ProductPlan, a: Array, b: Array, bias: Array | None) -> Array:
    """A float matrix product."""
    product = jnp.matmul(a, b)
    return product if bias is None else product + bias


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


CONVOLUTION = Twin(convolution.QUANTIZED, ("input", "filter", BIAS), _convolve, "filter")
CONVOLUTION_ADD = replace(
    CONVOLUTION, operator=convolution_add.QUANTIZED_ADD, tensors=("input", "filter", BIAS, "addend")
)
PRODUCT = Twin(matmul.QUANTIZED, ("a", "b", BIAS), _multiply_matrices, "b")
ADD = Twin(binary.ADD, ("a", "b"), functools.partial(_combine, jnp.add))
MULTIPLY = Twin(binary.MULTIPLY, ("a", "b"), functools.partial(_combine, jnp.multiply))
AVERAGE = Twin(pooling.AVERAGE, ("input",), _average)
GLOBAL_AVERAGE = Twin(pooling.GLOBAL, ("input",), _average)


class Call(NamedTuple):
    """A checked call.

    Attributes:
      plan: the integer operator's.
      operands: its operands, with placeholders of the tensors.
      names: the names of the axes of its operands and its output.
      floats: the tensors by name, float32; the bias may be None.
      dtypes: their quantized dtypes.
      options: the other arguments.
    """

    plan: Any
    operands: Any
    names: Mapping[str, Names]
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
    compute = functools.partial(twin.compute, plan)
    of_output, is_nan = _spread(checked, "output"), _is_nan(compute, reals, output)
    return rounding.dequantize_to(compute(*reals), output, *of_output, is_nan)


def _is_nan(compute: Callable[..., Array], reals: tuple[Array | None, ...], output: Array) -> Array:
    """Where the float operator gives NaN; it runs if a tensor has one."""
    fixed = rounding.stopped(reals)
    has_nan = [jnp.isnan(x).any() for x in fixed if x is not None]
    is_nan: Array = lax.cond(
        functools.reduce(jnp.logical_or, has_nan),
        lambda: jnp.isnan(compute(*fixed)),
        lambda: jnp.zeros_like(output, bool),
    )
    return is_nan


def call_sum(arguments: Values) -> Array:
    """Runs a convolution and a sum on floats, by the arguments of the one operator's function."""
    plan = check(CONVOLUTION_ADD, arguments).plan
    dtypes = {"output_dtype": plan.convolution.output.dtype, "sum_dtype": plan.output.dtype}
    options = arguments | dtypes
    terms = ("addend", "output") if options["addend_first"] else ("output", "addend")
    of_convolution = [name for name in options if not name.startswith(("addend", "sum"))]
    options["output"] = call(CONVOLUTION, {name: options[name] for name in of_convolution})
    operands = {
        f"{new}{part}": options[f"{old}{part}"]
        for old, new in zip((*terms, "sum"), ("a", "b", "output"), strict=True)
        for part in ("", "_scale", "_zero_point", "_dtype")
        if f"{old}{part}" in options
    }
    operands |= {name: options[name] for name in ("arithmetic", "implementation")}
    return call(ADD, operands)


def check(twin: Twin, arguments: Values) -> Call:
    """Converts the tensors, and plans the integer operator before anything runs."""
    options, rules = dict(arguments), twin.rules
    tensors = {name: options.pop(name) for name in twin.tensors}
    floats = {
        name: None if x is None and name == BIAS else to_float(rules, name, x)
        for name, x in tensors.items()
    }
    dtypes = {name: _dtype(twin, name, options) for name in tensors}
    is_known = all(is_static(x.shape) for x in floats.values() if x is not None)
    zeros = _small_zeros if is_known else jnp.zeros
    placeholders = [None if x is None else zeros(x.shape, dtypes[n]) for n, x in floats.items()]
    planned = {name: value for name, value in options.items() if name != "implementation"}
    plan, operands = twin.operator.plan(*placeholders, **planned)
    return Call(plan, operands, _axis_names(twin, plan, operands), floats, dtypes, options)


def _small_zeros(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Zeros that share one element."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def _axis_names(twin: Twin, plan: Any, operands: Any) -> Mapping[str, Names]:
    """The names of the axes of operands and output, by which an operator can be split."""
    assert twin.operator.splitting is not None
    names = twin.operator.splitting.names(plan, operands)
    assert names is not None
    return {**dict(zip(operands._fields, names.operands, strict=True)), "output": names.outputs}


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
    asked, zero_point = options.pop(f"{name}_dtype"), options[f"{name}_zero_point"]
    return dtype_of(twin.rules, name, asked, zero_point, twin.default_dtype(name))


def _parameters(twin: Twin, checked: Call) -> Values:
    """The scales and zero points as arrays."""
    operands = checked.operands._asdict().items()
    return {name: value for name, value in operands if name in checked.options}


def _quantize(
    twin: Twin, checked: Call, name: str, x: Array | None
) -> tuple[Array | None, Array | None]:
    """The integers of a tensor, and the floats that they stand for."""
    if x is None:
        return None, None
    if name == BIAS:
        return _quantize_bias(twin, checked, x)
    parameters, options = _spread(checked, name), checked.options
    integers = rounding.quantize(x, *parameters, checked.dtypes[name], options["arithmetic"])
    return integers, rounding.dequantize_to(x, integers, *parameters)


def _quantize_bias(twin: Twin, checked: Call, bias: Array) -> tuple[Array, Array]:
    """The integers of a bias in units of two scales, and the floats that the output adds."""
    scales = (f"{name}_scale" for name in twin.tensors[:2])
    factors = (_place(checked, name, checked.options[name], "output") for name in scales)
    scale, floats = rounding.bias_scale(*factors), _place(checked, BIAS, bias, "output")
    floats = jnp.broadcast_to(floats, jnp.broadcast_shapes(floats.shape, scale.shape))
    integers = rounding.round_bias(*rounding.stopped((floats, scale)))
    reals = rounding.dequantize_to(floats, integers, scale)
    return integers.reshape(bias.shape) if integers.size == bias.size else integers, reals


def _spread(checked: Call, name: str) -> tuple[Array, Array | None]:
    """A tensor's scale and zero point, in shapes that broadcast to it."""
    names = (f"{name}_scale", f"{name}_zero_point")
    scale, zero_point = (_place(checked, x, checked.options[x], name) for x in names)
    return scale, zero_point


def _place(checked: Call, name: str, parameter: Any, tensor: str) -> Any:
    """Reshapes a parameter so that its axes are where a tensor has axes of their names."""
    if parameter is None or parameter.size == 1:
        return jax.tree.map(lambda x: x.reshape(()), parameter)
    sizes = dict(zip(checked.names[name].split(), parameter.shape, strict=True)) | {WHOLE: 1}
    return parameter.reshape([sizes.get(axis, 1) for axis in checked.names[tensor].split()])
