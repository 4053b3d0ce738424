"""The nodes of dmlax's operators, in QDQ form or as QOperators."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dmlax import PreparedFilter, PreparedMatrix
from dmlax._add_multiply.api import ADD
from dmlax._convolution.api import QUANTIZED as CONVOLUTION
from dmlax._convolution_add.plan import terms
from dmlax._matmul.api import INTEGER as PRODUCT
from dmlax.onnx.export.windows import Layout, window_attributes, without_dilations
from dmlax.onnx.export.writer import (
    MICROSOFT,
    Shape,
    Tensor,
    Unwritable,
    Writer,
    constant,
    is_same_shape,
)

_LARGE = 1e36  # times 255 is a float32
_UINT8, _INT8, _INT32 = np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.int32)
_QOPERATORS = {  # names and domains
    "Conv": ("QLinearConv", ""),
    "MatMul": ("QLinearMatMul", ""),
    "Gemm": ("QGemm", MICROSOFT),
    "Add": ("QLinearAdd", MICROSOFT),
    "Mul": ("QLinearMul", MICROSOFT),
    "AveragePool": ("QLinearAveragePool", MICROSOFT),
    "GlobalAveragePool": ("QLinearGlobalAveragePool", MICROSOFT),
}


class Quantized(NamedTuple):
    """A tensor of 8 bits; scale and zero point are one value, or one per index of `axis`."""

    tensor: Tensor
    scale: Tensor
    zero_point: Tensor
    axis: int | None = None


class Call(NamedTuple):
    """A call of an operator.

    Attributes:
      w: the graph.
      plan: the operator's plan of one element of the axes that `jax.vmap` maps.
      operands: a NamedTuple of tensors, or one; those that are mapped begin with `mapped`.
      mapped: the sizes of the mapped axes.
      is_mapped: True for the operands that are mapped, in a tree as the operands.
    """

    w: Writer
    plan: Any
    operands: Any
    mapped: Shape
    is_mapped: Any


def write_call(w: Writer, params: Any, arrays: Sequence[Tensor]) -> list[Tensor]:
    """Writes the call that a label holds."""
    call, tree, maps = params["call"], params["operands"], params["maps"]
    operator, plan = call.operator, call.plan
    if (composed := COMPOSED.get(operator.name)) is not None:

        def function(*arrays: jax.Array) -> Any:
            return composed(plan, jax.tree.unflatten(tree, arrays))

        for dims in maps:
            function = jax.vmap(function, in_axes=dims)
        return w.run(function, *arrays)
    if operator.name not in WRITERS:
        raise Unwritable("has no counterpart in ONNX")
    writer, mappable = WRITERS[operator.name]
    flags = [any(dims[i] is not None for dims in maps) for i in range(len(arrays))]
    tensors = w.run(functools.partial(_mapped_first, maps, flags), *arrays) if maps else arrays
    operands, is_mapped = (jax.tree.unflatten(tree, leaves) for leaves in (tensors, flags))
    for name, leaves in is_mapped._asdict().items() if maps else ():
        if name not in mappable and any(jax.tree.leaves(leaves)):
            raise Unwritable(f"is mapped by vmap over its {name}")
    mapped = [
        next(x.shape[level] for x, axis in zip(tensors, dims, strict=True) if axis is not None)
        for level, dims in enumerate(reversed(maps))
    ]
    return writer(Call(w, plan, operands, tuple(mapped), is_mapped))


def _mapped_first(maps: Sequence[Any], flags: Sequence[bool], *arrays: Any) -> list[Any]:
    """Moves mapped axes to the front, the outermost first; a tensor that lacks one gets size 1."""
    results = list(arrays)
    for level, dims in enumerate(reversed(maps)):
        for place, axis in enumerate(dims):
            if flags[place] and axis is None:
                results[place] = jnp.expand_dims(results[place], level)
            elif flags[place]:
                results[place] = jnp.moveaxis(results[place], level + axis, level)
    return results


def _vector(w: Writer, parameter: Tensor) -> Tensor:
    """One value as a scalar, several as a vector."""
    sizes = [size for size in parameter.shape if size != 1]
    if len(sizes) > 1:
        raise Unwritable(f"has a parameter of shape {parameter.shape}, along several axes")
    return w.reshape(parameter, sizes)


def _quantized(
    w: Writer, tensor: Tensor, scale: Tensor, zero_point: Tensor | None, axis: int = 0
) -> Quantized:
    """A tensor and its parameters, which get the same sizes."""
    zero_point = constant(0, tensor.dtype) if zero_point is None else zero_point
    parameters = [_vector(w, parameter) for parameter in (scale, zero_point)]
    shape = max(parameter.shape for parameter in parameters)
    scale, zero_point = (_spread(w, parameter, shape) for parameter in parameters)
    return Quantized(tensor, scale, zero_point, axis if shape else None)


def _spread(w: Writer, parameter: Tensor, shape: Shape) -> Tensor:
    return parameter if parameter.shape == shape else w.broadcast(parameter, shape, ())


def _shift(w: Writer, x: Tensor, dtype: np.dtype) -> Tensor:
    """Adds or subtracts 128, so that int8 becomes uint8 or the reverse."""
    if x.dtype == dtype:
        return x
    offset = 128 if dtype == _UINT8 else -128
    return w.run(lambda x: (x.astype(jnp.int32) + offset).astype(dtype), x)[0]


def _as_dtype(w: Writer, x: Quantized, dtype: np.dtype) -> Quantized:
    """The same reals in the other dtype of 8 bits."""
    tensor, zero = (_shift(w, part, dtype) for part in (x.tensor, x.zero_point))
    return x._replace(tensor=tensor, zero_point=zero)


def _dequantize(w: Writer, x: Quantized) -> Tensor:
    axis = {} if x.axis is None else {"axis": x.axis}
    return w.node("DequantizeLinear", x[:3], x.scale.dtype, x.tensor.shape, "", axis)


def _float_operator(
    call: Call,
    op: str,
    operands: Sequence[Quantized],
    shape: Sequence[int],
    attributes: Mapping[str, Any],
    bias: Tensor | None = None,
) -> Tensor:
    """Writes a float operator of dequantized tensors, whose result is quantized.

    ONNX Runtime has kernels for tensors and results of one dtype, except for filters.
    """
    w, result = call.w, call.plan.output.dtype
    first, *others = operands
    if op in ("Add", "Mul"):
        others = [_as_dtype(w, x, first.tensor.dtype) for x in others]
    elif [x.tensor.dtype for x in operands] == [_INT8, _UINT8]:
        first = _as_dtype(w, first, _UINT8)
    operands, dtype = [first, *others], first.tensor.dtype
    zero_point = call.operands.output_zero_point or constant(0, result)
    ends = [_vector(w, call.operands.output_scale), _shift(w, _vector(w, zero_point), dtype)]
    if any(parameter.rank for parameter in ends):
        raise Unwritable("has several scales or zero points of its output")
    if w.form == "qoperator":
        name, domain = _QOPERATORS[op]
        inputs: list[Tensor | None] = [part for x in operands for part in x[:3]]
        inputs += [bias, *ends] if op == "Gemm" else [*ends, bias]
        if op == "GlobalAveragePool":
            attributes = {"channels_last": 0}
        return _shift(w, w.node(name, inputs, dtype, shape, domain, attributes), result)
    floats = [_dequantize(w, x) for x in operands]
    if bias is not None:
        (scale,) = w.run(jnp.multiply, *(x.scale for x in operands))
        floats.append(_dequantize(w, _quantized(w, bias, scale, None)))
    real = w.node(op, floats, np.float32, shape, "", attributes)
    return _shift(w, w.node("QuantizeLinear", [real, *ends], dtype, shape), result)


def _weights(kind: Any, shape: Any, operand: Any) -> tuple[Tensor, Tensor | None]:
    """The weights of packed ones, and the zero point that these hold."""
    if isinstance(operand, Tensor):
        return operand, None
    if operand.packed.values is None:
        raise Unwritable("has prepared weights as an argument: close over them")
    return constant(kind.unpack_bytes(shape, operand.packed.values)), operand.zero_point


def _unsigned(
    w: Writer, x: Tensor, zero_point: Tensor | None, other: Tensor | None
) -> tuple[Tensor, list[Tensor | None]]:
    """An integer operator's first operand as uint8, and both zero points."""
    if x.dtype == _INT8 or zero_point is not None:
        zero_point = _shift(w, _vector(w, zero_point or constant(0, x.dtype)), _UINT8)
    return _shift(w, x, _UINT8), [zero_point, None if other is None else _vector(w, other)]


def _convolution(call: Call) -> list[Tensor]:
    """QLinearConv, Conv or ConvInteger."""
    w, plan, o, options = call.w, call.plan, call.operands, call.plan.options
    filter, held = _weights(PreparedFilter, plan.filter, o.filter)
    filter, zero_point = w.transpose(filter, plan.filter.specification), held or o.filter_zero_point
    x = Layout(options.input_layout, call.mapped).to_channels_first(w, o.input)
    attributes = window_attributes(*options[:3], group=plan.filter.group_count)
    shape = (x.shape[0], plan.filter.outputs, *plan.output_sizes)
    if plan.quantized:
        bias = o.bias and w.reshape(o.bias, (plan.filter.outputs,))
        operands = [
            _quantized(w, x, o.input_scale, o.input_zero_point),
            _quantized(w, filter, o.filter_scale, zero_point),
        ]
        output = _float_operator(call, "Conv", operands, shape, attributes, bias)
    else:
        x, zeros = _unsigned(w, x, o.input_zero_point, zero_point)
        output = w.node("ConvInteger", [x, filter, *zeros], _INT32, shape, "", attributes)
    layout = Layout(options.output_layout, call.mapped)
    return [layout.from_channels_first(w, output, plan.batch)]


def _pooling(call: Call) -> list[Tensor]:
    """A mean or a maximum of windows, or a mean of images."""
    w, plan, o = call.w, call.plan, call.operands
    layouts, (size, *windows) = plan.options.layouts, plan.windows
    x = Layout(layouts.input, call.mapped).to_channels_first(w, o.input)
    attributes = window_attributes(*windows, kernel_shape=list(size))
    shape = (*x.shape[:2], *plan.output_sizes)
    if plan.options.kind == "max":
        output = w.node("MaxPool", [x], x.dtype, shape, "", attributes)
    else:
        padding = {"count_include_pad": int(plan.options.include_padding)}
        means = {"average": ("AveragePool", without_dilations(attributes) | padding)}
        op, attributes = means.get(plan.options.kind, ("GlobalAveragePool", {}))
        operand = _quantized(w, x, o.input_scale, o.input_zero_point)
        output = _float_operator(call, op, [operand], shape, attributes)
    batch = plan.input.shape[layouts.input[0]]
    return [Layout(layouts.output, call.mapped).from_channels_first(w, output, batch)]


def _binary(op: str) -> Callable[[Call], list[Tensor]]:
    def write(call: Call) -> list[Tensor]:
        w, o, shape = call.w, call.operands, call.plan.output.shape
        a, b = (_aligned(call, name, getattr(o, name), len(shape)) for name in "ab")
        operands = [
            _quantized(w, a, o.a_scale, o.a_zero_point),
            _quantized(w, b, o.b_scale, o.b_zero_point),
        ]
        return [_float_operator(call, op, operands, (*call.mapped, *shape), {})]

    return write


def _aligned(call: Call, name: str, x: Tensor, rank: int) -> Tensor:
    """A mapped tensor, with sizes of 1 below its mapped axes so that it has a rank there."""
    if not any(jax.tree.leaves(getattr(call.is_mapped, name))):
        return x
    count = len(call.mapped)
    ones = (1,) * (rank - x.rank + count)
    return call.w.reshape(x, (*x.shape[:count], *ones, *x.shape[count:]))


def _product(call: Call) -> list[Tensor]:
    """QLinearMatMul or MatMul; with a bias QGemm or Gemm; MatMulInteger without scales."""
    w, plan, o = call.w, call.plan, call.operands
    a, (b, held) = o.a, _weights(PreparedMatrix, plan.matrix, o.b)
    if len(plan.input.shape) == 1:
        a = w.reshape(a, (*a.shape[:-1], 1, plan.depth))
    if len(plan.matrix.matrix.shape) == 1:
        b = w.reshape(b, (*b.shape, 1))
    shape, b_zero_point = (*plan.batch, plan.rows, plan.columns), held or o.b_zero_point
    a, b = _aligned(call, "a", a, len(shape)), _aligned(call, "b", b, len(shape))
    shape = (*call.mapped, *shape)
    if any(x is not None and _vector(w, x).rank for x in (o.a_scale, o.a_zero_point)):
        raise Unwritable("has a scale or zero point for every row")
    if not plan.quantized:
        a, zeros = _unsigned(w, a, o.a_zero_point, b_zero_point)
        output = w.node("MatMulInteger", [a, b, *zeros], _INT32, shape)
    else:
        left = _quantized(w, a, o.a_scale, o.a_zero_point)
        right = _quantized(w, b, o.b_scale, b_zero_point, b.rank - 1)
        write = _float_operator if o.bias is None else _sum
        output = write(call, "MatMul", [left, right], shape, {})
    return [w.reshape(output, (*call.mapped, *plan.output.shape))]


def _sum(call: Call, _: str, operands: Any, shape: Sequence[int], __: object) -> Tensor:
    """A product with a bias: a Gemm of matrices."""
    w, (left, right), depth = call.w, operands, call.plan.depth
    if right.tensor.rank != 2:
        raise Unwritable("has a bias and a stack of matrices")
    *batch, columns = shape
    rows = functools.reduce(lambda size, other: size * other, batch)
    left = left._replace(tensor=w.reshape(left.tensor, (rows, depth)))
    bias = _spread(w, _vector(w, call.operands.bias), (columns,))
    return _float_operator(call, "Gemm", [left, right], (rows, columns), {}, bias)


def _elementwise(op: str) -> Callable[[Call], list[Tensor]]:
    def write(call: Call) -> list[Tensor]:
        w, plan, o = call.w, call.plan, call.operands
        x = w.cast(o.input, np.float32) if plan.quantizes and o.input.dtype == _INT32 else o.input
        zero_point = o.zero_point or constant(0, (plan.output if plan.quantizes else x).dtype)
        *inputs, axis = _quantized(w, x, o.scale, zero_point)
        attributes = {} if axis is None else {"axis": _axis(call) + len(call.mapped)}
        parameters = [*map(w.name, inputs[1:]), attributes]
        source, its_parameters = w.dequantized.get(x.name, (x, None))
        if plan.quantizes and its_parameters == parameters and _is_inverse(source, x, o.scale):
            return [source]
        output = w.node(op, inputs, plan.output.dtype, x.shape, "", attributes)
        if not plan.quantizes:
            w.dequantized[output.name] = x, parameters
        return [output]

    return write


def _is_inverse(source: Tensor, x: Tensor, scale: Tensor) -> bool:
    """True if `x`, quantized as it was dequantized, is `source`: all of its floats are finite."""
    values = scale.values if scale.dtype == np.float32 else None
    finite = values is not None and bool((np.abs(values) < _LARGE).all())
    return finite and is_same_shape(source.shape, x.shape)


def _axis(call: Call) -> int:
    """The axis of the parameters, of which each has one size other than 1."""
    if (axis := call.plan.axis) is not None:
        return int(axis)
    given = [x.shape for x in call.operands[1:] if x is not None]
    places = {at - len(sizes) for sizes in given for at, size in enumerate(sizes) if size != 1}
    if len(places) > 1:
        raise Unwritable("has parameters along several axes")
    return len(call.plan.input.shape) + places.pop()


def _dynamic_quantize(call: Call) -> list[Tensor]:
    """DynamicQuantizeLinear, shifted for int8."""
    w, dtype, x = call.w, call.plan.dtype, call.operands
    avals: list[tuple[Any, Shape]] = [(_UINT8, x.shape), (np.float32, ()), (_UINT8, ())]
    quantized, scale, zero = w.outputs("DynamicQuantizeLinear", [w.cast(x, np.float32)], avals)
    return [_shift(w, quantized, dtype), scale, _shift(w, zero, dtype)]


_Write = Callable[[Call], list[Tensor]]
WRITERS: dict[str, tuple[_Write, str]] = {  # and the operands that vmap may map
    "quantized_linear_convolution": (_convolution, "input"),
    "convolution_integer": (_convolution, "input"),
    "quantized_linear_matrix_multiply": (_product, "ab"),
    "matrix_multiply_integer": (_product, "ab"),
    "quantized_linear_average_pooling": (_pooling, "input"),
    "quantized_linear_global_average_pooling": (_pooling, "input"),
    "max_pooling": (_pooling, "input"),
    "element_wise_quantized_linear_add": (_binary("Add"), "ab"),
    "element_wise_quantized_linear_multiply": (_binary("Mul"), "ab"),
    "element_wise_quantize_linear": (_elementwise("QuantizeLinear"), "input"),
    "element_wise_dequantize_linear": (_elementwise("DequantizeLinear"), "input"),
    "dynamic_quantize_linear": (_dynamic_quantize, ""),
}


def _convolution_add(plan: Any, o: Any) -> Any:
    y = CONVOLUTION.call(plan.convolution, o.convolution)
    a, b, scale, zero_point, dtype, arithmetic = terms(plan, o, y)
    planned = ADD.plan(
        *(a.values, b.values),
        a_scale=a.scale,
        b_scale=b.scale,
        output_scale=scale,
        a_zero_point=a.zero_point,
        b_zero_point=b.zero_point,
        output_zero_point=zero_point,
        output_dtype=dtype,
        arithmetic=arithmetic,
    )
    return ADD.call(*planned)


def _product_to_float(plan: Any, o: Any) -> Any:
    unscaled = {"a_scale": None, "b_scale": None, "bias": None}
    output, avals = plan.output._replace(dtype=_INT32), plan.operands._replace(**unscaled)
    sums = PRODUCT.call(replace(plan, operands=avals, output=output), o._replace(**unscaled))
    reals = sums.astype(jnp.float32) * (o.a_scale * o.b_scale)
    return (reals if o.bias is None else reals + o.bias).astype(plan.output.dtype)


def _lookup(plan: Any, o: Any) -> Any:
    places = o.input.astype(jnp.int32) - int(np.iinfo(plan.input.dtype).min)
    return o.table.at[places].get(mode="promise_in_bounds")


COMPOSED: dict[str, Callable[[Any, Any], Any]] = {  # of other operators and of JAX
    "quantized_linear_convolution_add": _convolution_add,
    "matrix_multiply_integer_to_float": _product_to_float,
    "quantized_lookup": _lookup,
}
