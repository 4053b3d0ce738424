"""Quantized operators: the family's functions, with ONNX's operands and attributes."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax
from dmlax._core import float_bits, ieee, requantize
from dmlax._core.requantize import Arithmetic
from dmlax._core.windows import dilated_size, output_size
from dmlax._fused.concatenation.call import concatenate
from dmlax._fused.rows.call import AVERAGE
from dmlax.onnx.graph import MICROSOFT, OWN, Node
from dmlax.onnx.operators import tables
from dmlax.onnx.operators.table import Output, Parameter, Quantized, Tensor, ZeroOptional, operator
from dmlax.onnx.operators.values import (
    DTYPES,
    NARROW,
    convert,
    expect_broadcast,
    expect_product,
    is_float8,
    is_known,
)
from dmlax.onnx.operators.windows import ConvolutionLayout, PoolWindows, Windows, image_layout

_FORMS = (10, 13, 19, 21, 23, 24, 25, 28)
_QUANTIZED = ("uint8", "int8", "uint16", "int16", *NARROW)
_FLOATS = ("float32", "float16", "bfloat16")
_FLOAT_NUMBERS = "1, 10 or 16 (float32, float16, bfloat16)"
_SINCE_PRECISION = 23  # the opset in which a QuantizeLinear names the dtype of its quotients


@operator("QuantizeLinear", *_FORMS)
@operator("QuantizeLinear", 1, domain=MICROSOFT)
def quantize(
    x: Tensor,
    scale: Parameter,
    zero_point: Parameter | None = None,
    *,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    version: int,
    arithmetic: Arithmetic,
) -> Array:
    """Rounds x / scale to an integer of 2 to 16 bits, or to a float of 8.

    Before opset 23 quotients are float32. Since then they have the scale's dtype, or `precision`.
    """
    dtype = DTYPES.get(output_dtype or 2) if zero_point is None else zero_point.dtype
    if dtype is None or not (dtype.name in _QUANTIZED or is_float8(dtype)):
        text = f"output_dtype is {output_dtype}" if zero_point is None else f"y is {dtype}"
        raise dmlax.UnsupportedError(f"{text}, expected an integer of 2 to 16 bits or a float of 8")
    default = scale.dtype if version >= _SINCE_PRECISION else np.dtype(np.float32)
    quotient_dtype = DTYPES.get(precision) if precision else default
    if quotient_dtype is None or quotient_dtype.name not in _FLOATS:
        raise dmlax.UnsupportedError(f"precision is {precision}, expected {_FLOAT_NUMBERS}")
    rounds_quotient = quotient_dtype != np.float32 and arithmetic == "float32"
    common = quotient_dtype if rounds_quotient else np.dtype(np.float32)
    x, scale = convert(x, common), _along(convert(scale, common), axis, x, block_size)
    zero_point = None if zero_point is None else _along(zero_point, axis, x, block_size)
    if is_float8(dtype) or rounds_quotient:
        x = ieee.divide(jnp.asarray(x), jnp.asarray(scale)).astype(np.float32)
        scale = np.ones((), np.float32)
    if is_float8(dtype):
        return jnp.asarray(convert(x, dtype, bool(saturate)))
    x, scale = _finite_quotient(x, scale)
    if dtype.itemsize == 1 and dtype.name not in NARROW:
        options: dict[str, Any] = {"output_dtype": dtype, "arithmetic": arithmetic}
        levels = dmlax.element_wise_quantize_linear(_of_rank(x), scale, zero_point, **options)
        return levels.reshape(x.shape)
    wide = np.dtype(np.int16) if dtype.name in NARROW else dtype
    point = None if zero_point is None or dtype != wide else jnp.asarray(zero_point)
    levels = requantize.quantize(jnp.asarray(x), jnp.asarray(scale), point, wide, arithmetic)
    if dtype == wide:
        return levels
    levels = levels.astype(np.int32)
    levels = levels if zero_point is None else levels + jnp.asarray(zero_point).astype(np.int32)
    limits = jnp.iinfo(dtype)  # type: ignore[no-untyped-call]
    return jnp.clip(levels, int(limits.min), int(limits.max)).astype(dtype)


def _finite_quotient(x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Handles known scales of 0: quotients are infinite, and 0 / 0 is NaN."""
    if not is_known(scale) or scale.all():
        return x, scale
    is_zero = scale == 0
    return jnp.where(is_zero, x * x.dtype.type(np.inf), x), np.where(is_zero, 1, scale)


@operator("DequantizeLinear", *_FORMS)
@operator("DequantizeLinear", 1, domain=MICROSOFT)
def dequantize(
    x: Tensor,
    scale: Parameter,
    zero_point: Parameter | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    arithmetic: Arithmetic,
) -> Array:
    """Multiplies x less its zero point by a scale."""
    dtype = DTYPES.get(output_dtype) if output_dtype else scale.dtype
    if dtype is None or dtype.name not in _FLOATS:
        raise dmlax.UnsupportedError(f"its output is {dtype}, expected {', '.join(_FLOATS)}")
    if x.dtype.name not in (*_QUANTIZED, "int32") and not is_float8(x.dtype):
        text = "expected an integer of 2 to 16 bits, int32 or a float of 8 bits"
        raise dmlax.UnsupportedError(f"its input is {x.dtype}, {text}")
    scale = _along(scale, axis, x, block_size)
    zero_point = None if zero_point is None else _along(zero_point, axis, x, block_size)
    is_finite = not is_known(scale) or bool(np.isfinite(scale.astype(np.float32)).all())
    rounds_twice = scale.dtype == np.float16 and arithmetic == "float32"  # ONNX Runtime does
    is_general = x.dtype.name not in _ELEMENTWISE or not is_finite
    if arithmetic == "exact":
        is_own = dtype == scale.dtype != jnp.bfloat16 and not is_general  # the operator rounds once
        if dtype.itemsize == 2 and not is_own and not is_float8(x.dtype):
            return _rounded_once(x, zero_point, jnp.asarray(scale, np.float32), dtype)
        scale = scale if dtype == scale.dtype else scale.astype(np.float32)
    if is_general or scale.dtype.name == "bfloat16" or (rounds_twice and x.dtype != np.int32):
        return jnp.asarray(convert(scale_difference(x, zero_point, scale), dtype))
    if is_known(scale) and not scale.all():
        scale = jnp.asarray(scale)  # the operator refuses a known scale of 0
    if x.dtype == np.int32 and arithmetic == "float32":
        real: Array = _scale_int32(x, np.int32(0) if zero_point is None else zero_point, scale)
    else:
        real = dmlax.element_wise_dequantize_linear(_of_rank(x), scale, zero_point)
    return jnp.asarray(convert(real.reshape(x.shape), dtype))


def _rounded_once(
    x: Tensor, zero_point: Tensor | None, scale: Array, dtype: np.dtype[Any]
) -> Array:
    """The real product of integers and a scale; an infinite scale gives infinities and NaN."""
    x, point = jnp.asarray(x), None if zero_point is None else jnp.asarray(zero_point)
    real = requantize.dequantize(x, scale, point, dtype)
    return jnp.where(jnp.isinf(scale), scale_difference(x, point, scale).astype(dtype), real)


# The dtypes that dmlax.element_wise_dequantize_linear takes.
_ELEMENTWISE = ("int8", "uint8", "int16", "int32")


def scale_difference(x: Tensor, zero_point: Tensor | None, scale: Tensor) -> Array:
    """Multiplies float32 differences, which are exact for integers of 16 bits or fewer."""
    difference = jnp.asarray(x).astype(np.float32)
    if zero_point is not None:
        difference = difference - jnp.asarray(zero_point).astype(np.float32)
    return ieee.multiply(difference, jnp.asarray(scale).astype(np.float32))


@jax.jit  # traced once for every shape
def _scale_int32(x: Array, zero_point: Array, scale: Array) -> Array:
    """Rounds the difference to float32, and then its product."""
    difference = (x - zero_point).astype(np.float32)
    return float_bits.multiply(difference, scale.astype(np.float32))


def _of_rank(x: Tensor) -> Tensor:
    """A tensor of rank 1 or more."""
    return x if x.ndim else x.reshape(1)


def _along(parameter: Tensor, axis: int, x: Tensor, block_size: int = 0) -> Tensor:
    """A parameter in a shape that broadcasts to x: one value, an axis or blocks.

    A block of size 0 is a whole axis.
    """
    if parameter.ndim == 0:
        return parameter
    if block_size:
        return expand_blocks(parameter, axis, block_size, x.shape)
    if parameter.shape == (1,):
        return parameter.reshape(())
    if parameter.ndim != 1 or not -x.ndim <= axis < x.ndim:
        text = f"its parameter has the shape {list(parameter.shape)}, expected values along an axis"
        raise dmlax.UnsupportedError(f"{text} of {list(x.shape)}")
    return parameter.reshape((-1,) + (1,) * (x.ndim - 1 - axis % x.ndim))


def expand_blocks(parameter: Tensor, axis: int, block_size: int, shape: Sequence[int]) -> Array:
    """Repeats a parameter of blocks along an axis, up to the size of the tensor."""
    if block_size < 0 or not -len(shape) <= axis < len(shape):
        text = f"its axis is {axis} and its block_size {block_size}"
        raise dmlax.UnsupportedError(f"{text}, expected an axis of {list(shape)} and 0 or more")
    axis %= len(shape)
    wanted = [*shape[:axis], -(-shape[axis] // block_size), *shape[axis + 1 :]]
    if parameter.ndim == len(shape):  # an axis of size 1 broadcasts
        pairs = enumerate(zip(parameter.shape, wanted, strict=True))
        wanted = [have if have == 1 and i != axis else size for i, (have, size) in pairs]
    if list(parameter.shape) != wanted:
        text = f"its parameter has the shape {list(parameter.shape)}, expected {wanted}"
        raise dmlax.UnsupportedError(f"{text} for blocks of {block_size} along axis {axis}")
    spread = jnp.repeat(jnp.asarray(parameter), block_size, axis=axis)
    return lax.slice_in_dim(spread, 0, shape[axis], axis=axis)


def parameters_of(**operands: Quantized | Output) -> dict[str, Any]:
    """Scales and zero points as keywords: `a_scale` and `a_zero_point` of an operand `a`."""
    pairs = operands.items()
    return {f"{name}_scale": operand.scale for name, operand in pairs} | {
        f"{name}_zero_point": operand.zero_point for name, operand in pairs
    }


@operator("QLinearConv", 10)
@operator("QLinearConv", 1, domain=MICROSOFT)
def quantized_convolution(
    x: Quantized,
    w: Quantized,
    y: Output,
    bias: Tensor | None = None,
    *,
    windows: Windows,
    layout: ConvolutionLayout,
    arithmetic: Arithmetic,
) -> Array:
    """Convolves and requantizes."""
    if len(x.values.shape) == len(w.values.shape) == 5:
        planes, filter, windows, unfold = _fold_depth(x.values, w.values, x.zero_point, windows)
        flat = x._replace(values=planes), w._replace(values=filter)
        keywords: dict[str, Any] = {"layout": layout, "arithmetic": arithmetic}
        return unfold(quantized_convolution(*flat, y, bias, windows=windows, **keywords))
    tensors, options = _convolution(x, w, y, windows, layout)
    return dmlax.quantized_linear_convolution(*tensors, bias, arithmetic=arithmetic, **options)


@operator("QLinearConv", 1, domain=OWN)
def quantized_convolution_add(
    x: Quantized,
    w: Quantized,
    y: Output,
    addend: Quantized,
    sum: Output,
    bias: Tensor | None = None,
    *,
    windows: Windows,
    layout: ConvolutionLayout,
    addend_first: int = 0,
    arithmetic: Arithmetic,
) -> Array:
    """Convolves, requantizes, and adds a residual."""
    tensors, options = _convolution(x, w, y, windows, layout)
    options |= parameters_of(addend=addend, sum=sum) | {"addend_first": bool(addend_first)}
    return dmlax.quantized_linear_convolution_add(
        *tensors, bias, addend.values, arithmetic=arithmetic, **options
    )


def _convolution(
    x: Quantized, w: Quantized, y: Output, windows: Windows, layout: ConvolutionLayout
) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
    """The input and the filter of a convolution of dmlax, and its options."""
    parameters = parameters_of(
        input=x._replace(zero_point=_input_zero_point(x.values, x.zero_point)),
        filter=Quantized(
            w.values, _by_channel(w.scale), _filter_zero_point(w.values, w.zero_point)
        ),
        output=y,
    )
    image, options = windows.of_convolution(x.values, w.values, x.zero_point, layout)
    return (layout.arrange_input(image, w.values), w.values), parameters | options


def _filter_zero_point(w: Tensor, zero_point: Tensor | None) -> Tensor | None:
    """A filter's zero point; a prepared filter holds it."""
    if zero_point is None or isinstance(w, dmlax.PreparedFilter):
        return None
    return _by_channel(zero_point)


def _input_zero_point(x: Tensor, zero_point: Tensor | None) -> Tensor | None:
    """An input's zero point, None for a constant 0, which a GPU's kernel need not read.

    The operator refuses a zero point of another dtype or shape.
    """
    if not isinstance(zero_point, np.ndarray):
        return zero_point
    is_zero = zero_point.size == 1 and zero_point.dtype == x.dtype and not zero_point.any()
    return None if is_zero else zero_point


def _by_channel(parameter: Tensor) -> Tensor:
    return parameter.reshape(()) if parameter.shape == (1,) else parameter


@operator("ConvInteger", 10)
def integer_convolution(
    x: Tensor,
    w: Tensor,
    x_zero_point: Parameter | None = None,
    w_zero_point: Parameter | None = None,
    *,
    windows: Windows,
) -> Array:
    """Convolves into int32."""
    if len(x.shape) == len(w.shape) == 5:
        x, w, windows, unfold = _fold_depth(x, w, x_zero_point, windows)
        return unfold(integer_convolution(x, w, x_zero_point, w_zero_point, windows=windows))
    zero_points: dict[str, Any] = {
        "input_zero_point": _input_zero_point(x, x_zero_point),
        "filter_zero_point": _filter_zero_point(w, w_zero_point),
    }
    x, options = windows.of_convolution(x, w, x_zero_point, ConvolutionLayout())
    return dmlax.convolution_integer(x, w, **zero_points, **options)


def _fold_depth(
    x: Tensor, w: Tensor, zero_point: Tensor | None, windows: Windows
) -> tuple[Array, Tensor, Windows, Callable[[Array], Array]]:
    """Makes a convolution of volumes one of planes, with a channel for every slice of the filter.

    Returns:
      The planes, their filter, its windows, and a function that makes volumes of the result.
    """
    fill = np.zeros((), x.dtype) if zero_point is None else zero_point.reshape(())
    layout = image_layout(5, False)
    windows.expect_channels(x, layout, w.shape[1])
    x, windows = windows.pad(x, layout, w.shape[2:], zero_point)
    start, end = windows.padding(list(x.shape[2:]), w.shape[2:])
    depth = [(0, 0, 0), (0, 0, 0), (start[0], end[0], 0), (0, 0, 0), (0, 0, 0)]
    padded = lax.pad(jnp.asarray(x), jnp.asarray(fill), depth)
    stride, *strides = windows.strides or (1, 1, 1)
    dilation, *dilations = windows.dilations or (1, 1, 1)
    count = output_size(padded.shape[2], dilated_size(w.shape[2], dilation), stride)
    firsts = [tap * dilation for tap in range(w.shape[2])]
    slices = [padded[:, :, i : i + (count - 1) * stride + 1 : stride] for i in firsts]
    stacked = jnp.moveaxis(jnp.stack(slices, 2), 3, 1)  # image, depth, channel, tap, row, column
    planes = stacked.reshape((x.shape[0] * count, x.shape[1] * w.shape[2], *stacked.shape[4:]))
    filter = w.reshape((w.shape[0], w.shape[1] * w.shape[2], *w.shape[3:]))
    pads = (*start[1:], *end[1:])
    flat = Windows("NOTSET", tuple(dilations), windows.group, None, pads, tuple(strides))

    def unfold(y: Array) -> Array:
        return jnp.swapaxes(y.reshape((x.shape[0], count, *y.shape[1:])), 1, 2)

    return planes, filter, flat, unfold


@operator("QLinearMatMul", 10, 21)
def quantized_matrix_product(
    a: Quantized, b: Quantized, y: Output, *, arithmetic: Arithmetic
) -> Any:
    """Multiplies matrices and requantizes."""
    return multiply_matrices(a, b, y, arithmetic)


def multiply_matrices(
    a: Quantized,
    b: Quantized,
    y: Output,
    arithmetic: Arithmetic,
    multiply: Callable[..., Any] = dmlax.quantized_linear_matrix_multiply,
) -> Any:
    """Multiplies matrices with ONNX's operands; `multiply` may plan the product instead."""
    parameters = parameters_of(
        a=a._replace(scale=_row(a.scale), zero_point=_rows(a.zero_point)),
        b=b._replace(zero_point=_matrix_zero_point(b.values, b.zero_point)),
        output=Output(_row(y.scale), _rows(y.zero_point)),
    )
    expect_product(a.values, b.values)
    return multiply(a.values, b.values, arithmetic=arithmetic, **parameters)


def _row(parameter: Tensor) -> Tensor:
    """A parameter of a or of the output; a vector has one value for every row."""
    return parameter[:, None] if parameter.ndim == 1 and parameter.shape[0] != 1 else parameter


def _rows(zero_point: Tensor | None) -> Tensor | None:
    return None if zero_point is None else _row(zero_point)


def _matrix_zero_point(b: Tensor, zero_point: Tensor | None) -> Tensor | None:
    """The right matrix's zero point; a prepared matrix holds it."""
    return None if isinstance(b, dmlax.PreparedMatrix) else zero_point


@operator("MatMulInteger", 10)
def integer_matrix_product(
    a: Tensor,
    b: Tensor,
    a_zero_point: Parameter | None = None,
    b_zero_point: Parameter | None = None,
) -> Array:
    """Multiplies matrices into int32."""
    zero_point = _matrix_zero_point(b, b_zero_point)
    expect_product(a, b)
    return dmlax.matrix_multiply_integer(
        a, b, a_zero_point=_rows(a_zero_point), b_zero_point=zero_point
    )


@operator("MatMulIntegerToFloat", 1, domain=MICROSOFT)
def integer_matrix_product_to_float(
    a: Tensor,
    b: Tensor,
    a_scale: Parameter,
    b_scale: Parameter,
    a_zero_point: Parameter | None = None,
    b_zero_point: Parameter | None = None,
    bias: Tensor | None = None,
    *,
    parts: tuple[str, ...] = (),
    arithmetic: Arithmetic,
) -> Array:
    """Multiplies matrices, and the result by both scales.

    `parts` names the right matrices that `join_products` put side by side.
    """
    right = Output(b_scale, _matrix_zero_point(b, b_zero_point))
    parameters = parameters_of(a=Output(a_scale, a_zero_point), b=right)
    expect_product(a, b)
    return dmlax.matrix_multiply_integer_to_float(a, b, bias, arithmetic=arithmetic, **parameters)


@operator("DynamicQuantizeMatMul", 1, domain=MICROSOFT)
def dynamically_quantized_matrix_product(
    a: Tensor,
    b: Tensor,
    b_scale: Parameter,
    b_zero_point: Parameter | None = None,
    bias: Tensor | None = None,
    *,
    arithmetic: Arithmetic,
) -> Array:
    """Quantizes a by its range, and multiplies."""
    quantized, scale, zero_point = dmlax.dynamic_quantize_linear(a, arithmetic=arithmetic)
    operands = (quantized, b, scale, b_scale, zero_point, b_zero_point, bias)
    return integer_matrix_product_to_float(*operands, arithmetic=arithmetic)


class GemmFactors(NamedTuple):
    """The attributes of a QGemm."""

    alpha: float = 1.0
    transA: int = 0
    transB: int = 0


@operator("QGemm", 1, domain=MICROSOFT)
def quantized_gemm(
    a: Quantized,
    b: Quantized,
    bias: Tensor | None = None,
    y: Output | None = None,
    *,
    factors: GemmFactors,
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies matrices, adds the bias, and requantizes; without y_scale gives floats."""
    return multiply_gemm(a, b, bias, y, factors, arithmetic)


def multiply_gemm(
    a: Quantized,
    b: Quantized,
    bias: Tensor | None,
    y: Output | None,
    factors: GemmFactors,
    arithmetic: Arithmetic,
    multiply: Callable[..., Any] = dmlax.quantized_linear_matrix_multiply,
) -> Any:
    """Multiplies matrices with QGemm's operands and attributes; `multiply` may plan it instead."""
    # A prepared matrix is transposed already.
    is_prepared = isinstance(b.values, dmlax.PreparedMatrix)
    left = a.values.T if factors.transA else a.values
    right = b.values.T if factors.transB and not is_prepared else b.values
    expect_product(left, right)
    b = b._replace(zero_point=_matrix_zero_point(b.values, b.zero_point))
    if factors.alpha != 1.0:
        a = a._replace(scale=tables.multiply(a.scale, np.float32(factors.alpha), arithmetic))
    if y is None:
        sums = dmlax.matrix_multiply_integer(
            left, right, a_zero_point=a.zero_point, b_zero_point=b.zero_point
        )
        sums = sums if bias is None else sums + jnp.asarray(bias)
        scales = jnp.asarray(a.scale), jnp.asarray(b.scale)
        return requantize.scale_sums(sums, *scales, None, np.float32, arithmetic)
    return multiply(left, right, bias, arithmetic=arithmetic, **parameters_of(a=a, b=b, output=y))


def _binary(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of two quantized tensors, with ONNX's operands."""

    def compute(
        a: Quantized, b: Quantized, c: ZeroOptional[Output], *, arithmetic: Arithmetic
    ) -> Array:
        expect_broadcast(a.values.shape, b.values.shape)
        options = parameters_of(a=a, b=b, output=c) | _output_dtype(a, c)
        return function(a.values, b.values, arithmetic=arithmetic, **options)

    return compute


operator("QLinearAdd", 1, domain=MICROSOFT)(_binary(dmlax.element_wise_quantized_linear_add))
operator("QLinearMul", 1, domain=MICROSOFT)(_binary(dmlax.element_wise_quantized_linear_multiply))


def _output_dtype(x: Quantized, y: Output) -> dict[str, Any]:
    """The output's dtype as a keyword: that of x if the output has no zero point."""
    return {"output_dtype": x.values.dtype} if y.zero_point is None else {}


@operator("QLinearSigmoid", 1, domain=MICROSOFT)
def quantized_sigmoid(x: Quantized, y: ZeroOptional[Output], *, arithmetic: Arithmetic) -> Array:
    """Looks up the sigmoid of every byte."""
    return dmlax.quantized_lookup(x.values, tables.SIGMOID.table(x, y, arithmetic))


@operator("QLinearLeakyRelu", 1, domain=MICROSOFT)
def quantized_leaky_relu(
    x: Quantized, y: ZeroOptional[Output], *, alpha: float = 0.01, arithmetic: Arithmetic
) -> Array:
    """Looks up the leaky relu of every byte."""
    return dmlax.quantized_lookup(x.values, tables.leaky_relu(alpha).table(x, y, arithmetic))


@operator("ByteFunction", 1, domain=OWN)
def byte_function(
    x: Tensor,
    *constants: Parameter,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    arithmetic: Arithmetic,
) -> Array:
    """Looks up what nodes compute of every byte; the names are those of x and the constants."""
    table = tables.of_function(x.dtype, names, nodes, constants, arithmetic)
    return dmlax.quantized_lookup(x, table)


@operator("ByteAverage", 1, domain=OWN)
def byte_average(
    x: Array,
    *constants: Parameter,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    arithmetic: Arithmetic,
    channels_last: int = 0,
) -> Array:
    """Averages every channel of the floats that nodes compute of bytes."""
    table = tables.of_function(x.dtype, names, nodes, constants, arithmetic)
    images = x if channels_last else jnp.moveaxis(x, 1, -1)
    batch, *sizes, channels = images.shape
    pixels = images.reshape(batch, math.prod(sizes), channels)
    mean = AVERAGE.call(*AVERAGE.plan(pixels, table))
    ones = (1,) * len(sizes)
    return mean.reshape((batch, *ones, channels) if channels_last else (batch, channels, *ones))


@operator("QLinearConcat", 1, domain=MICROSOFT)
def quantized_concatenate(y: Output, *inputs: Tensor, axis: int, arithmetic: Arithmetic) -> Array:
    """Concatenates tensors; a table requantizes those whose parameters differ from the output's."""
    parts = []
    for operands in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True):
        x = Quantized(*operands)
        is_same = tables.equal(x.scale, y.scale) and tables.equal(x.zero_point, y.zero_point)
        table = None if is_same else tables.IDENTITY.table(x, y, arithmetic)
        parts.append(x.values if table is None else dmlax.quantized_lookup(x.values, table))
    return concatenate(parts, axis)


@operator("QLinearSoftmax", 1, domain=MICROSOFT)
def quantized_softmax(
    x: ZeroOptional[Quantized],
    y: ZeroOptional[Output],
    *,
    axis: int | None = None,
    opset: int = 13,
    arithmetic: Arithmetic,
) -> Array:
    """Sums a table of exponentials along an axis, and divides by the sum."""
    levels, parameters = x.values, (x.scale, y.scale, y.zero_point, arithmetic)
    if opset >= 13:
        axis = -1 if axis is None else axis
        rows = tables.softmax(jnp.moveaxis(levels, axis, -1), *parameters)
        return jnp.moveaxis(rows, -1, axis)
    flat = levels.reshape(*levels.shape[: 1 if axis is None else axis], -1)
    return tables.softmax(flat, *parameters).reshape(levels.shape)


@operator("QLinearAveragePool", 1, domain=MICROSOFT)
def quantized_average_pool(
    x: Quantized,
    y: ZeroOptional[Output],
    *,
    windows: PoolWindows,
    channels_last: int = 0,
    count_include_pad: int = 0,
    arithmetic: Arithmetic,
) -> Array:
    """Averages windows."""
    return dmlax.quantized_linear_average_pooling(
        x.values,
        include_padding=bool(count_include_pad),
        arithmetic=arithmetic,
        **parameters_of(input=x, output=y),
        **_output_dtype(x, y),
        **windows.options(x.values, bool(channels_last)),
    )


@operator("QLinearGlobalAveragePool", 1, domain=MICROSOFT)
def quantized_global_average_pool(
    x: Quantized, y: Output, *, channels_last: int = 0, arithmetic: Arithmetic
) -> Array:
    """Averages every channel; no images or channels have no averages, whatever their pixels."""
    values, pixels = x.values, slice(1, -1) if channels_last else slice(2, None)
    if 0 in values.shape[pixels]:
        sizes = [*values.shape]
        sizes[pixels] = [1] * (values.ndim - 2)
        values = values.reshape(sizes) if 0 in sizes else values
    return dmlax.quantized_linear_global_average_pooling(
        values,
        dimension_numbers=image_layout(x.values.ndim, bool(channels_last)),
        arithmetic=arithmetic,
        **parameters_of(input=x, output=y),
    )


@operator("DynamicQuantizeLinear", 11)
def dynamic_quantize(x: Tensor, *, arithmetic: Arithmetic) -> tuple[Array, ...]:
    """Quantizes by the tensor's range."""
    return tuple(dmlax.dynamic_quantize_linear(x, arithmetic=arithmetic))
