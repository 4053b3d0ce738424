"""Quantized operators: the family's functions, with ONNX's operands and attributes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax
from dmlax._core import float_bits, ieee, requantize
from dmlax._core.requantize import Arithmetic
from dmlax._core.windows import dilated_size, output_size
from dmlax.onnx.graph import MICROSOFT, OWN, Node
from dmlax.onnx.operators import tables
from dmlax.onnx.operators.concatenation import concatenate
from dmlax.onnx.operators.table import Parameter, Tensor, operator
from dmlax.onnx.operators.values import DTYPES, NARROW, convert, is_float8, is_known
from dmlax.onnx.operators.windows import ConvolutionLayout, Windows, image_layout

_FORMS = (10, 13, 19, 21, 23, 24, 25, 28)
_QUANTIZED = ("uint8", "int8", "uint16", "int16", *NARROW)
_FLOATS = ("float32", "float16", "bfloat16")


@operator("QuantizeLinear", *_FORMS)
@operator("QuantizeLinear", 1, domain=MICROSOFT)
def quantize(
    x: Tensor,
    scale: Parameter,
    zero_point: Parameter | None = None,
    /,
    *,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Rounds x / scale to an integer of 2 to 16 bits, or to a float of 8."""
    dtype = DTYPES.get(output_dtype or 2) if zero_point is None else zero_point.dtype
    if dtype is None or not (dtype.name in _QUANTIZED or is_float8(dtype)):
        found = f"output_dtype is {output_dtype}" if zero_point is None else f"y is {dtype}"
        raise dmlax.UnsupportedError(
            f"{found}, expected an integer of 2 to 16 bits or a float of 8"
        )
    x, scale = (each.astype(_common_float(x, scale)) for each in (x, scale))
    scale, zero_point = (_along(each, axis, x, block_size) for each in (scale, zero_point))
    if is_float8(dtype) or (x.dtype == np.float16 and arithmetic == "float32"):
        x = ieee.divide(jnp.asarray(x), jnp.asarray(scale)).astype(np.float32)
        scale = np.ones((), np.float32)  # ONNX Runtime rounds a quotient of float16 to that
    if is_float8(dtype):
        return convert(x, dtype, bool(saturate))
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


def _common_float(x: Any, scale: Any) -> np.dtype:
    """The dtype in which a quotient is computed: float32 where one of the two is bfloat16."""
    if "bfloat16" in (x.dtype.name, scale.dtype.name):
        return np.dtype(np.float32)
    return np.result_type(x.dtype, scale.dtype)


def _finite_quotient(x: Any, scale: Any) -> tuple[Any, Any]:
    """Divides by known scales of 0, as floats do: the quotients are infinite, and of 0 NaN."""
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
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies x less its zero point by a scale."""
    dtype = DTYPES.get(output_dtype) if output_dtype else scale.dtype
    if dtype is None or dtype.name not in _FLOATS:
        raise dmlax.UnsupportedError(f"its output is {dtype}, expected {', '.join(_FLOATS)}")
    if x.dtype.name not in (*_QUANTIZED, "int32") and not is_float8(x.dtype):
        text = "expected an integer of 2 to 16 bits, int32 or a float of 8 bits"
        raise dmlax.UnsupportedError(f"its input is {x.dtype}, {text}")
    scale, zero_point = (_along(each, axis, x, block_size) for each in (scale, zero_point))
    is_finite = not is_known(scale) or bool(np.isfinite(scale.astype(np.float32)).all())
    rounds_twice = scale.dtype == np.float16 and arithmetic == "float32"  # as ONNX Runtime
    is_general = x.dtype.name not in _ELEMENTWISE or not is_finite
    if is_general or scale.dtype.name == "bfloat16" or (rounds_twice and x.dtype != np.int32):
        return scale_difference(x, zero_point, scale).astype(dtype)
    if is_known(scale) and not scale.all():
        scale = jnp.asarray(scale)  # of a known 0 the operator says that it is a mistake
    if x.dtype == np.int32 and arithmetic == "float32":
        real = _scale_int32(x, np.int32(0) if zero_point is None else zero_point, scale)
    else:
        real = dmlax.element_wise_dequantize_linear(_of_rank(x), scale, zero_point)
    return real.reshape(x.shape).astype(dtype)


_ELEMENTWISE = ("int8", "uint8", "int16", "int32")  # of dmlax.element_wise_dequantize_linear


def scale_difference(x: Any, zero_point: Any, scale: Any) -> Any:
    """Multiplies float32 differences, which are exact for integers of 16 bits or fewer."""
    difference = jnp.asarray(x).astype(np.float32)
    if zero_point is not None:
        difference = difference - jnp.asarray(zero_point).astype(np.float32)
    return ieee.multiply(difference, jnp.asarray(scale).astype(np.float32))


@jax.jit  # traced once for each shape
def _scale_int32(x: Array, zero_point: Array, scale: Array) -> Array:
    """Rounds the difference to float32, and then its product."""
    difference = (x - zero_point).astype(np.float32)
    return float_bits.multiply(difference, scale.astype(np.float32))


def _of_rank(x: Any) -> Any:
    """A tensor of rank 1 or more."""
    return x if x.ndim else x.reshape(1)


def _along(parameter: Any, axis: int, x: Any, block_size: int = 0) -> Any:
    """A parameter in the shape that broadcasts to x: a value, or values along an axis, or blocks'.

    A block of size 0 is a whole axis.
    """
    if parameter is None or parameter.ndim == 0:
        return parameter
    if block_size:
        return expand_blocks(parameter, axis, block_size, x.shape)
    if parameter.shape == (1,):
        return parameter.reshape(())
    if parameter.ndim != 1 or not -x.ndim <= axis < x.ndim:
        text = f"its parameter has the shape {list(parameter.shape)}, expected values along an axis"
        raise dmlax.UnsupportedError(f"{text} of {list(x.shape)}")
    return parameter.reshape((-1,) + (1,) * (x.ndim - 1 - axis % x.ndim))


def expand_blocks(parameter: Any, axis: int, block_size: int, shape: Any) -> Any:
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
    spread = jnp.broadcast_to(
        jnp.expand_dims(jnp.asarray(parameter), axis + 1),
        (*wanted[: axis + 1], block_size, *wanted[axis + 1 :]),
    )
    spread = spread.reshape((*wanted[:axis], wanted[axis] * block_size, *wanted[axis + 1 :]))
    return lax.slice_in_dim(spread, 0, shape[axis], axis=axis)


@operator("QLinearConv", 10)
@operator("QLinearConv", 1, domain=MICROSOFT)
def quantized_convolution(
    x: Tensor,
    x_scale: Parameter,
    x_zero_point: Parameter,
    w: Tensor,
    w_scale: Parameter,
    w_zero_point: Parameter,
    y_scale: Parameter,
    y_zero_point: Parameter,
    bias: Tensor | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
    channels_last: int = 0,
    input_channels_first: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Convolves and requantizes."""
    windows = Windows(auto_pad, dilations, kernel_shape, pads, strides)
    layout = ConvolutionLayout(channels_last, input_channels_first)
    return dmlax.quantized_linear_convolution(
        layout.arrange_input(x, w),
        w,
        bias,
        input_scale=x_scale,
        filter_scale=_by_channel(w_scale),
        output_scale=y_scale,
        input_zero_point=_input_zero_point(x, x_zero_point),
        filter_zero_point=_filter_zero_point(w, w_zero_point),
        output_zero_point=y_zero_point,
        arithmetic=arithmetic,
        **windows.of_convolution(x, w, group, layout),
    )


@operator("QLinearConv", 1, domain=OWN)
def quantized_convolution_add(
    x: Tensor,
    x_scale: Parameter,
    x_zero_point: Parameter,
    w: Tensor,
    w_scale: Parameter,
    w_zero_point: Parameter,
    y_scale: Parameter,
    y_zero_point: Parameter,
    addend: Tensor,
    addend_scale: Parameter,
    addend_zero_point: Parameter,
    sum_scale: Parameter,
    sum_zero_point: Parameter,
    bias: Tensor | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
    channels_last: int = 0,
    input_channels_first: int = 0,
    addend_first: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Convolves, requantizes, and adds a residual."""
    windows = Windows(auto_pad, dilations, kernel_shape, pads, strides)
    layout = ConvolutionLayout(channels_last, input_channels_first)
    return dmlax.quantized_linear_convolution_add(
        layout.arrange_input(x, w),
        w,
        bias,
        addend,
        input_scale=x_scale,
        filter_scale=_by_channel(w_scale),
        output_scale=y_scale,
        input_zero_point=_input_zero_point(x, x_zero_point),
        filter_zero_point=_filter_zero_point(w, w_zero_point),
        output_zero_point=y_zero_point,
        addend_scale=addend_scale,
        addend_zero_point=addend_zero_point,
        sum_scale=sum_scale,
        sum_zero_point=sum_zero_point,
        addend_first=bool(addend_first),
        arithmetic=arithmetic,
        **windows.of_convolution(x, w, group, layout),
    )


@operator("ConvInteger", 10)
def integer_convolution(
    x: Tensor,
    w: Tensor,
    x_zero_point: Parameter | None = None,
    w_zero_point: Parameter | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Any:
    """Convolves into int32."""
    windows = Windows(auto_pad, dilations, kernel_shape, pads, strides)
    if len(x.shape) == len(w.shape) == 5:
        return _convolve_volumes(x, w, x_zero_point, w_zero_point, windows, group)
    return dmlax.convolution_integer(
        x,
        w,
        input_zero_point=_input_zero_point(x, x_zero_point),
        filter_zero_point=_filter_zero_point(w, w_zero_point),
        **windows.of_convolution(x, w, group, ConvolutionLayout()),
    )


def _convolve_volumes(
    x: Any, w: Any, x_zero_point: Any, w_zero_point: Any, windows: Windows, group: int
) -> Array:
    """The sum, over the filter's slices in depth, of convolutions of the volume's slices."""
    start, end = windows.padding(list(x.shape[2:]), w.shape[2:])
    fill = np.zeros((), x.dtype) if x_zero_point is None else x_zero_point.reshape(())
    depth = [(0, 0, 0), (0, 0, 0), (start[0], end[0], 0), (0, 0, 0), (0, 0, 0)]
    padded = lax.pad(jnp.asarray(x), jnp.asarray(fill), depth)
    stride, *strides = windows.strides or (1, 1, 1)
    dilation, *dilations = windows.dilations or (1, 1, 1)
    count = output_size(padded.shape[2], dilated_size(w.shape[2], dilation), stride)
    total = None
    for tap in range(w.shape[2]):
        first = tap * dilation
        taken = padded[:, :, first : first + (count - 1) * stride + 1 : stride]
        planes = jnp.swapaxes(taken, 1, 2)
        found = dmlax.convolution_integer(
            planes.reshape((-1, *planes.shape[2:])),
            w[:, :, tap],
            input_zero_point=_input_zero_point(x, x_zero_point),
            filter_zero_point=_filter_zero_point(w, w_zero_point),
            strides=tuple(strides),
            dilations=tuple(dilations),
            start_padding=start[1:],
            end_padding=end[1:],
            group_count=group,
        )
        total = found if total is None else total + found
    assert total is not None
    return jnp.swapaxes(total.reshape((x.shape[0], count, *total.shape[1:])), 1, 2)


def _input_zero_point(x: Any, zero_point: Any) -> Any:
    """An input's zero point, None for a constant 0: a GPU's kernel need not read it to pad with it.

    One of another dtype or shape is left for the operator, which refuses it.
    """
    if not isinstance(zero_point, np.ndarray):
        return zero_point
    is_zero = zero_point.size == 1 and zero_point.dtype == x.dtype and not zero_point.any()
    return None if is_zero else zero_point


def _filter_zero_point(w: Any, zero_point: Any) -> Any:
    """A filter's zero point, which a prepared filter holds."""
    if isinstance(w, dmlax.PreparedFilter) or zero_point is None:
        return None
    return _by_channel(zero_point)


def _by_channel(parameter: Any) -> Any:
    return parameter.reshape(()) if parameter.shape == (1,) else parameter


@operator("QLinearMatMul", 10, 21)
def quantized_matrix_product(
    a: Tensor,
    a_scale: Parameter,
    a_zero_point: Parameter,
    b: Tensor,
    b_scale: Parameter,
    b_zero_point: Parameter,
    y_scale: Parameter,
    y_zero_point: Parameter,
    /,
    *,
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies matrices and requantizes."""
    operands = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)
    return multiply_matrices(*operands, arithmetic)


def multiply_matrices(
    a: Any,
    a_scale: Any,
    a_zero_point: Any,
    b: Any,
    b_scale: Any,
    b_zero_point: Any,
    y_scale: Any,
    y_zero_point: Any,
    arithmetic: Arithmetic,
    implementation: Any = "auto",
) -> Any:
    """Multiplies matrices with ONNX's operands."""
    return dmlax.quantized_linear_matrix_multiply(
        a,
        b,
        a_scale=_row(a_scale),
        b_scale=b_scale,
        output_scale=_row(y_scale),
        a_zero_point=_row(a_zero_point),
        b_zero_point=_matrix_zero_point(b, b_zero_point),
        output_zero_point=_row(y_zero_point),
        arithmetic=arithmetic,
        implementation=implementation,
    )


def _row(parameter: Any) -> Any:
    """ONNX's parameters of a and of the output that are a vector have one value a row."""
    return parameter[:, None] if parameter.ndim == 1 and parameter.shape[0] != 1 else parameter


def _matrix_zero_point(b: Any, zero_point: Any) -> Any:
    return None if _is_prepared(b) else zero_point


def _is_prepared(b: Any) -> bool:
    return isinstance(b, dmlax.PreparedMatrix)


@operator("MatMulInteger", 10)
def integer_matrix_product(
    a: Tensor,
    b: Tensor,
    a_zero_point: Parameter | None = None,
    b_zero_point: Parameter | None = None,
    /,
) -> Any:
    """Multiplies matrices into int32."""
    return dmlax.matrix_multiply_integer(
        a,
        b,
        a_zero_point=None if a_zero_point is None else _row(a_zero_point),
        b_zero_point=_matrix_zero_point(b, b_zero_point),
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
    /,
    *,
    parts: tuple[str, ...] = (),
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies matrices, and the result by both scales.

    `parts` names the right matrices that `join_products` put side by side.
    """
    return dmlax.matrix_multiply_integer_to_float(
        a,
        b,
        bias,
        a_scale=a_scale,
        b_scale=b_scale,
        a_zero_point=a_zero_point,
        b_zero_point=_matrix_zero_point(b, b_zero_point),
        arithmetic=arithmetic,
    )


@operator("DynamicQuantizeMatMul", 1, domain=MICROSOFT)
def dynamically_quantized_matrix_product(
    a: Tensor,
    b: Tensor,
    b_scale: Parameter,
    b_zero_point: Parameter | None = None,
    bias: Tensor | None = None,
    /,
    *,
    arithmetic: Arithmetic,
) -> Any:
    """Quantizes a by its own range, and multiplies."""
    quantized, scale, zero_point = dmlax.dynamic_quantize_linear(a, arithmetic=arithmetic)
    operands = (quantized, b, scale, b_scale, zero_point, b_zero_point, bias)
    return integer_matrix_product_to_float(*operands, arithmetic=arithmetic)


@operator("QGemm", 1, domain=MICROSOFT)
def quantized_gemm(
    a: Tensor,
    a_scale: Parameter,
    a_zero_point: Parameter,
    b: Tensor,
    b_scale: Parameter,
    b_zero_point: Parameter,
    bias: Tensor | None = None,
    y_scale: Parameter | None = None,
    y_zero_point: Parameter | None = None,
    /,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies matrices, adds the bias, and requantizes; without y_scale gives floats."""
    operands = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, bias, y_scale, y_zero_point)
    return multiply_gemm(operands, alpha, transA, transB, arithmetic)


def multiply_gemm(
    operands: tuple[Any, ...],
    alpha: float,
    transA: int,
    transB: int,
    arithmetic: Arithmetic,
    implementation: Any = "auto",
) -> Any:
    """Multiplies matrices with QGemm's operands and attributes."""
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, bias, y_scale, y_zero_point = operands
    left = a.T if transA else a
    right = b.T if transB and not _is_prepared(b) else b  # a prepared one is transposed
    zero_points = {
        "a_zero_point": a_zero_point,
        "b_zero_point": _matrix_zero_point(b, b_zero_point),
    }
    if alpha != 1.0:
        a_scale = tables.multiply(a_scale, np.float32(alpha), arithmetic)
    if y_scale is None:
        sums = dmlax.matrix_multiply_integer(
            left, right, implementation=implementation, **zero_points
        )
        sums = sums if bias is None else sums + bias
        a, b = jnp.asarray(a_scale), jnp.asarray(b_scale)
        return requantize.scale_sums(sums, a, b, None, np.float32, arithmetic)
    return dmlax.quantized_linear_matrix_multiply(
        left,
        right,
        bias,
        a_scale=a_scale,
        b_scale=b_scale,
        output_scale=y_scale,
        output_zero_point=y_zero_point,
        arithmetic=arithmetic,
        implementation=implementation,
        **zero_points,
    )


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two quantized tensors, with ONNX's operands."""

    def compute(
        a: Tensor,
        a_scale: Parameter,
        a_zero_point: Parameter,
        b: Tensor,
        b_scale: Parameter,
        b_zero_point: Parameter,
        c_scale: Parameter,
        c_zero_point: Parameter | None = None,
        /,
        *,
        arithmetic: Arithmetic,
    ) -> Any:
        return function(
            a,
            b,
            a_scale=a_scale,
            a_zero_point=a_zero_point,
            b_scale=b_scale,
            b_zero_point=b_zero_point,
            arithmetic=arithmetic,
            **_output_options(a, c_scale, c_zero_point),
        )

    return compute


operator("QLinearAdd", 1, domain=MICROSOFT)(_binary(dmlax.element_wise_quantized_linear_add))
operator("QLinearMul", 1, domain=MICROSOFT)(_binary(dmlax.element_wise_quantized_linear_multiply))


def _output_options(x: Any, scale: Any, zero_point: Any) -> dict[str, Any]:
    """The output's parameters; without a zero point it has the dtype of x."""
    options = {"output_scale": scale, "output_zero_point": zero_point}
    return options | ({"output_dtype": x.dtype} if zero_point is None else {})


@operator("QLinearSigmoid", 1, domain=MICROSOFT)
def quantized_sigmoid(
    x: Tensor,
    x_scale: Parameter,
    x_zero_point: Parameter,
    y_scale: Parameter,
    y_zero_point: Parameter | None = None,
    /,
    *,
    arithmetic: Arithmetic,
) -> Any:
    """Looks up the sigmoid of every byte."""
    found = tables.sigmoid(x.dtype, x_scale, x_zero_point, y_scale, y_zero_point, arithmetic)
    return dmlax.quantized_lookup(x, found)


@operator("ByteFunction", 1, domain=OWN)
def byte_function(
    x: Tensor,
    /,
    *constants: Parameter,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    arithmetic: Arithmetic,
) -> Any:
    """Looks up what nodes compute of every byte; the names are those of x and the constants."""
    known = dict(zip(names[1:], constants, strict=True))
    table = tables.of_nodes(x.dtype, names[0], nodes, known, arithmetic)
    return dmlax.quantized_lookup(x, table)


@operator("QLinearLeakyRelu", 1, domain=MICROSOFT)
def quantized_leaky_relu(
    x: Tensor,
    x_scale: Parameter,
    x_zero_point: Parameter,
    y_scale: Parameter,
    y_zero_point: Parameter | None = None,
    /,
    *,
    alpha: float = 0.01,
    arithmetic: Arithmetic,
) -> Any:
    """Looks up the leaky relu of every byte."""
    parameters = (x_scale, x_zero_point, y_scale, y_zero_point)
    return dmlax.quantized_lookup(x, tables.leaky_relu(x.dtype, *parameters, alpha, arithmetic))


@operator("QLinearConcat", 1, domain=MICROSOFT)
def quantized_concatenate(
    y_scale: Parameter,
    y_zero_point: Parameter,
    /,
    *inputs: Tensor,
    axis: int,
    arithmetic: Arithmetic,
) -> Any:
    """Concatenates tensors, each requantized by a table where its parameters are others."""
    parts = []
    for x, scale, zero_point in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True):
        same = tables.equal(scale, y_scale) and tables.equal(zero_point, y_zero_point)
        if not same:
            parameters = (scale, zero_point, y_scale, y_zero_point)
            x = dmlax.quantized_lookup(x, tables.identity(x.dtype, *parameters, arithmetic))
        parts.append(x)
    return concatenate(parts, axis)


@operator("QLinearSoftmax", 1, domain=MICROSOFT)
def quantized_softmax(
    x: Tensor,
    x_scale: Parameter,
    x_zero_point: Parameter | None,
    y_scale: Parameter,
    y_zero_point: Parameter | None = None,
    /,
    *,
    axis: int | None = None,
    opset: int = 13,
    arithmetic: Arithmetic,
) -> Any:
    """Sums a table of exponentials along an axis, and divides by the sum."""
    is_one_axis = opset >= 13
    axis = (-1 if is_one_axis else 1) if axis is None else axis
    moved = jnp.moveaxis(x, axis, -1) if is_one_axis else x.reshape(*x.shape[:axis], -1)
    result = tables.softmax(moved, x_scale, y_scale, y_zero_point, arithmetic)
    return jnp.moveaxis(result, -1, axis) if is_one_axis else result.reshape(x.shape)


@operator("QLinearAveragePool", 1, domain=MICROSOFT)
def quantized_average_pool(
    x: Tensor,
    x_scale: Parameter,
    x_zero_point: Parameter,
    y_scale: Parameter,
    y_zero_point: Parameter | None = None,
    /,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
    arithmetic: Arithmetic,
) -> Any:
    """Averages windows."""
    windows = Windows(auto_pad, None, kernel_shape, pads, strides)
    return dmlax.quantized_linear_average_pooling(
        x,
        include_padding=bool(count_include_pad),
        arithmetic=arithmetic,
        **_pool_parameters(x, x_scale, x_zero_point, y_scale, y_zero_point),
        **windows.of_pool(x, bool(ceil_mode), bool(channels_last)),
    )


@operator("QLinearGlobalAveragePool", 1, domain=MICROSOFT)
def quantized_global_average_pool(
    x: Tensor,
    x_scale: Parameter,
    x_zero_point: Parameter,
    y_scale: Parameter,
    y_zero_point: Parameter,
    /,
    *,
    channels_last: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Averages each channel."""
    return dmlax.quantized_linear_global_average_pooling(
        x,
        dimension_numbers=image_layout(x.ndim, bool(channels_last)),
        arithmetic=arithmetic,
        **_pool_parameters(x, x_scale, x_zero_point, y_scale, y_zero_point),
    )


def _pool_parameters(
    x: Any, scale: Any, zero_point: Any, y_scale: Any, y_zero_point: Any
) -> dict[str, Any]:
    options = _output_options(x, y_scale, y_zero_point)
    return options | {"input_scale": scale, "input_zero_point": zero_point}


@operator("DynamicQuantizeLinear", 11)
def dynamic_quantize(x: Tensor, /, *, arithmetic: Arithmetic) -> Any:
    """Quantizes by the tensor's own range."""
    return tuple(dmlax.dynamic_quantize_linear(x, arithmetic=arithmetic))
