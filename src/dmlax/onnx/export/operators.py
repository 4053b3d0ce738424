"""The nodes of dmlax's operators, in QDQ form or as QOperators."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax import PreparedFilter, PreparedMatrix
from dmlax._fused.float_convolution import call as float_convolution
from dmlax._fused.matmul_epilogue import call as matmul_epilogue
from dmlax._operators.add_multiply.api import ADD
from dmlax._operators.convolution.api import QUANTIZED as CONVOLUTION
from dmlax._operators.convolution.plan import inverse
from dmlax._operators.convolution_add.plan import terms
from dmlax._operators.matmul.api import INTEGER as PRODUCT
from dmlax.onnx.export.nodes import mappable_node, node, nodes, window_attributes, without_dilations
from dmlax.onnx.export.writer import Form, Shape, Tensor, Unwritable, Writer
from dmlax.onnx.operators.n_bits import multiply_blocks

_UINT8, _INT8, _INT32 = np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.int32)


class Quantized(NamedTuple):
    """A tensor of 8 bits; scale and zero point are one value, or one per index of `axis`."""

    tensor: Array
    scale: Array
    zero_point: Array
    axis: int | None = None


class Call(NamedTuple):
    """A call of an operator.

    Attributes:
      form: how it is written.
      plan: the operator's plan.
      operands: a NamedTuple of arrays, or one.
      known: the operands' values, None for those that are no constants.
      node: puts a node into the program.
    """

    form: Form
    plan: Any
    operands: Any
    known: Any
    node: Callable[..., Array]


def write_call(w: Writer, params: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Writes the call that a label holds."""
    call, maps = params["call"], params["maps"]
    name, unflatten = call.operator.name, functools.partial(jax.tree.unflatten, params["operands"])
    if (compute := WRITERS.get(name) or COMPOSED.get(name)) is None:
        raise Unwritable("is not supported")
    if maps and name in WRITERS:
        flags = [any(axis is not None for axis in axes) for axes in zip(*maps, strict=True)]
        _expect_mappable(unflatten(flags))
    known = unflatten([x.values for x in tensors])

    def function(*arrays: Array) -> Any:
        to_node = mappable_node if maps else node
        return compute(Call(w.form, call.plan, unflatten(arrays), known, to_node))

    for dims in maps:
        function = jax.vmap(function, in_axes=dims)
    return w.run(function, *tensors)


def _expect_mappable(is_mapped: Any) -> None:
    fields = is_mapped._asdict() if hasattr(is_mapped, "_asdict") else {"tensor": is_mapped}
    for name, flags in fields.items():
        if name not in ("input", "a", "b") and any(jax.tree.leaves(flags)):
            raise Unwritable(f"is mapped by vmap over its {name}")


def _vector(parameter: Array) -> Array:
    """One value as a scalar, several as a vector."""
    sizes = [size for size in parameter.shape if size != 1]
    if len(sizes) > 1:
        raise Unwritable(f"has a parameter of shape {parameter.shape}, along several axes")
    return parameter.reshape(sizes)


def _or_zero(zero_point: Array | None, dtype: np.dtype) -> Any:
    return np.zeros((), dtype) if zero_point is None else zero_point


def _quantized(tensor: Array, scale: Array, zero_point: Array | None, axis: int = 0) -> Quantized:
    """A tensor and its parameters, which get the same sizes."""
    parameters = _vector(scale), _vector(_or_zero(zero_point, tensor.dtype))
    scale, zero_point = jnp.broadcast_arrays(*parameters)
    return Quantized(tensor, scale, zero_point, axis if scale.ndim else None)


def _shift(x: Array, dtype: np.dtype) -> Array:
    """Adds or subtracts 128, so that int8 becomes uint8 or the reverse."""
    if x.dtype == dtype:
        return x
    return (x.astype(jnp.int32) + (128 if dtype == _UINT8 else -128)).astype(dtype)


def _as_dtype(x: Quantized, dtype: np.dtype) -> Quantized:
    """Converts a tensor to the other dtype of 8 bits; its reals stay."""
    return x._replace(tensor=_shift(x.tensor, dtype), zero_point=_shift(x.zero_point, dtype))


def _dequantize(call: Call, x: Quantized) -> Array:
    axis = {} if x.axis is None else {"axis": x.axis}
    return call.node("DequantizeLinear", x[:3], x.scale.dtype, x.tensor.shape, **axis)


def _float_operator(
    call: Call,
    op: str,
    operands: Sequence[Quantized],
    shape: Sequence[int],
    bias: Array | None = None,
    **attributes: Any,
) -> Array:
    """Writes a float operator of dequantized tensors, whose result is quantized.

    ONNX Runtime has kernels for tensors and results of one dtype, except for filters.
    """
    result, (first, *others) = call.plan.output.dtype, operands
    if op in ("Add", "Mul"):
        others = [_as_dtype(x, first.tensor.dtype) for x in others]
    elif [x.tensor.dtype for x in operands] == [_INT8, _UINT8]:
        first = _as_dtype(first, _UINT8)
    operands, dtype = [first, *others], first.tensor.dtype
    zero_point = _or_zero(call.operands.output_zero_point, result)
    ends = [_vector(call.operands.output_scale), _shift(_vector(zero_point), dtype)]
    if any(parameter.ndim for parameter in ends):
        raise Unwritable("has several scales or zero points of its output")
    if call.form == "qoperator":
        inputs: list[Array | None] = [part for x in operands for part in x[:3]]
        inputs += [bias, *ends] if op == "Gemm" else [*ends, bias]
        name = "QGemm" if op == "Gemm" else f"QLinear{op}"
        return _shift(call.node(name, inputs, dtype, shape, **attributes), result)
    floats = [_dequantize(call, x) for x in operands]
    if bias is not None:
        scale = jnp.multiply(*(x.scale for x in operands))
        floats.append(_dequantize(call, _quantized(bias, scale, None)))
    real = call.node(op, floats, np.float32, shape, **attributes)
    return _shift(call.node("QuantizeLinear", [real, *ends], dtype, shape), result)


def _weights(call: Call, name: str, kind: Any, shape: Any) -> tuple[Array, Array | None]:
    """Weights and their zero point; prepared ones become those that they are made of."""
    operand, known = getattr(call.operands, name), getattr(call.known, name)
    if not hasattr(operand, "packed"):
        return operand, getattr(call.operands, f"{name}_zero_point")
    if known.packed is None:
        raise Unwritable("has prepared weights as an argument: close over them")
    return kind.unpack_bytes(shape, known.packed), operand.zero_point


def _integer_operator(
    call: Call, op: str, pairs: Sequence[Any], shape: Shape, **attributes: Any
) -> Array:
    """Writes an operator of tensors and zero points: the first is uint8, the result int32."""
    (first, zero_point), (second, other) = pairs
    if first.dtype == _INT8 or zero_point is not None:
        zero_point = _shift(_vector(_or_zero(zero_point, first.dtype)), _UINT8)
    zeros = [zero_point, None if other is None else _vector(other)]
    return call.node(op, [_shift(first, _UINT8), second, *zeros], _INT32, shape, **attributes)


def _convolution(call: Call) -> Array:
    """QLinearConv, Conv or ConvInteger."""
    plan, o, options = call.plan, call.operands, call.plan.options
    filter, zero_point = _weights(call, "filter", PreparedFilter, plan.filter)
    filter = lax.transpose(filter, plan.filter.specification)
    x = lax.transpose(o.input, options.input_layout)
    attributes = window_attributes(*options[:3], group=plan.filter.group_count)
    shape = (plan.batch, plan.filter.outputs, *plan.output_sizes)
    if plan.quantized:
        bias = None if o.bias is None else o.bias.reshape(plan.filter.outputs)
        left = _quantized(x, o.input_scale, o.input_zero_point)
        right = _quantized(filter, o.filter_scale, zero_point)
        output = _float_operator(call, "Conv", [left, right], shape, bias, **attributes)
    else:
        pairs = [(x, o.input_zero_point), (filter, zero_point)]
        output = _integer_operator(call, "ConvInteger", pairs, shape, **attributes)
    return lax.transpose(output, inverse(options.output_layout))


def _pooling(call: Call) -> Array:
    """A mean or a maximum of windows, or a mean of images."""
    plan, o = call.plan, call.operands
    layouts, (size, *windows) = plan.options.layouts, plan.windows
    x = lax.transpose(o.input, layouts.input)
    attributes = window_attributes(*windows, kernel_shape=list(size))
    shape = (*x.shape[:2], *plan.output_sizes)
    if plan.options.kind == "max":
        output = call.node("MaxPool", [x], x.dtype, shape, **attributes)
    else:
        padding = {"count_include_pad": int(plan.options.include_padding)}
        means = {"average": ("AveragePool", without_dilations(**attributes) | padding)}
        op, attributes = means.get(plan.options.kind, ("GlobalAveragePool", {}))
        operand = _quantized(x, o.input_scale, o.input_zero_point)
        output = _float_operator(call, op, [operand], shape, **attributes)
    return lax.transpose(output, inverse(layouts.output))


def _binary(op: str, call: Call) -> Array:
    o = call.operands
    left = _quantized(o.a, o.a_scale, o.a_zero_point)
    right = _quantized(o.b, o.b_scale, o.b_zero_point)
    return _float_operator(call, op, [left, right], call.plan.output.shape)


def _product(call: Call) -> Array:
    """QLinearMatMul or MatMul; with a bias QGemm or Gemm; MatMulInteger without scales."""
    plan, a, o = call.plan, call.operands.a, call.operands
    b, b_zero_point = _weights(call, "b", PreparedMatrix, plan.matrix)
    a = a if len(plan.input.shape) > 1 else jnp.expand_dims(a, -2)
    b = b if len(plan.matrix.matrix.shape) > 1 else jnp.expand_dims(b, -1)
    shape = (*plan.batch, plan.rows, plan.columns)
    if any(x is not None and _vector(x).ndim for x in (o.a_scale, o.a_zero_point)):
        raise Unwritable("has a scale or zero point for every row")
    if plan.quantized:
        left = _quantized(a, o.a_scale, o.a_zero_point)
        right = _quantized(b, o.b_scale, b_zero_point, b.ndim - 1)
        output = _quantized_product(call, left, right, shape)
    else:
        pairs = [(a, o.a_zero_point), (b, b_zero_point)]
        output = _integer_operator(call, "MatMulInteger", pairs, shape)
    return output.reshape(plan.output.shape)


def _quantized_product(call: Call, left: Quantized, right: Quantized, shape: Shape) -> Array:
    """A product; with a bias a Gemm of matrices."""
    if (bias := call.operands.bias) is None:
        return _float_operator(call, "MatMul", [left, right], shape)
    if right.tensor.ndim != 2:
        raise Unwritable("has a bias and a stack of matrices")
    *batch, columns = shape
    rows = math.prod(batch)
    left = left._replace(tensor=left.tensor.reshape(rows, call.plan.depth))
    bias = jnp.broadcast_to(_vector(bias), columns)
    return _float_operator(call, "Gemm", [left, right], (rows, columns), bias)


def _elementwise(op: str, call: Call) -> Array:
    plan, x, zero_point = call.plan, call.operands.input, call.operands.zero_point
    if plan.quantizes:
        x = x.astype(np.float32) if x.dtype == _INT32 else x
        zero_point = _or_zero(zero_point, plan.output.dtype)
    *inputs, axis = _quantized(x, call.operands.scale, zero_point)
    if x.dtype == _INT32 and zero_point is not None and not plan.quantizes:
        return _dequantize_int32(call)
    attributes = {} if axis is None else {"axis": _axis(call)}
    return call.node(op, inputs, plan.output.dtype, x.shape, **attributes)


def _dequantize_int32(call: Call) -> Array:
    """The difference to a zero point, which wraps in ONNX Runtime."""
    plan, o = call.plan, call.operands
    x, scale, zero_point = o.input, *map(plan.spread, (o.scale, o.zero_point))
    difference = x - zero_point
    wraps = ((x < 0) != (zero_point < 0)) & ((x < 0) != (difference < 0))
    rounded = x.astype(jnp.float32) - zero_point.astype(jnp.float32)
    steps = jnp.where(wraps, rounded, difference.astype(jnp.float32))
    return jnp.asarray((steps * scale.astype(jnp.float32)).astype(scale.dtype))


def _axis(call: Call) -> int:
    """The axis of the parameters, of which each has one size other than 1."""
    shapes = [call.plan.spread(x).shape for x in call.operands[1:] if x is not None]
    axes = {axis for shape in shapes for axis, size in enumerate(shape) if size != 1}
    if len(axes) > 1:
        raise Unwritable("has parameters along several axes")
    return axes.pop()


def _dynamic_quantize(call: Call) -> list[Array]:
    """DynamicQuantizeLinear, shifted for int8."""
    dtype, x = call.plan.dtype, call.operands.astype(np.float32)
    avals: list[tuple[Any, Shape]] = [(_UINT8, x.shape), (np.float32, ()), (_UINT8, ())]
    quantized, scale, zero = nodes("DynamicQuantizeLinear", [x], avals)
    return [_shift(quantized, dtype), scale, _shift(zero, dtype)]


WRITERS: dict[str, Callable[[Call], Any]] = {
    "quantized_linear_convolution": _convolution,
    "convolution_integer": _convolution,
    "quantized_linear_matrix_multiply": _product,
    "matrix_multiply_integer": _product,
    "quantized_linear_average_pooling": _pooling,
    "quantized_linear_global_average_pooling": _pooling,
    "max_pooling": _pooling,
    "element_wise_quantized_linear_add": functools.partial(_binary, "Add"),
    "element_wise_quantized_linear_multiply": functools.partial(_binary, "Mul"),
    "element_wise_quantize_linear": functools.partial(_elementwise, "QuantizeLinear"),
    "element_wise_dequantize_linear": functools.partial(_elementwise, "DequantizeLinear"),
    "dynamic_quantize_linear": _dynamic_quantize,
}


def _convolution_add(call: Call) -> Array:
    plan, o = call.plan, call.operands
    y = CONVOLUTION.call(plan.convolution, o.convolution)
    *pair, scale, zero_point, dtype, arithmetic = terms(plan, o, y)
    parameters = {"output_scale": scale, "output_zero_point": zero_point}
    for name, x in zip("ab", pair, strict=True):
        parameters |= {f"{name}_scale": x.scale, f"{name}_zero_point": x.zero_point}
    options = {"output_dtype": dtype, "arithmetic": arithmetic}
    return ADD.call(*ADD.plan(*(x.values for x in pair), **parameters, **options))


def _product_to_float(call: Call) -> Any:
    plan, o, unscaled = call.plan, call.operands, dict.fromkeys(("a_scale", "b_scale", "bias"))
    output, avals = plan.output._replace(dtype=_INT32), plan.operands._replace(**unscaled)
    sums = PRODUCT.call(replace(plan, operands=avals, output=output), o._replace(**unscaled))
    reals = sums.astype(jnp.float32) * (o.a_scale * o.b_scale)
    return (reals if o.bias is None else reals + o.bias).astype(plan.output.dtype)


def _lookup(call: Call) -> Any:
    places = call.operands.input.astype(jnp.int32)
    if call.plan.input.dtype == _INT8:
        places += 128
    return call.operands.table.at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)


COMPOSED: dict[str, Callable[[Call], Any]] = {  # functions composed of other operators and of JAX
    "quantized_linear_convolution_add": _convolution_add,
    "quantized_linear_matrix_multiply_add": lambda call: matmul_epilogue.compose(
        call.plan, call.operands
    ),
    "matrix_multiply_integer_to_float": _product_to_float,
    "quantized_lookup": _lookup,
    "block_product": lambda call: multiply_blocks(call.plan, call.operands),
    "float_convolution": lambda call: float_convolution.compose(call.plan, call.operands),
}
