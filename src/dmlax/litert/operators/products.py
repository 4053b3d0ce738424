"""Convolutions and matrix products, of quantized tensors and of floats."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax
from dmlax._core import fixed_point
from dmlax._core.fixed_point import Float64, Multiplier
from dmlax._core.windows import dilated_size, output_size, same_padding
from dmlax._fused.float_convolution.call import FLOAT_CONVOLUTION, packs_filters
from dmlax._fused.float_convolution.plan import Epilogue, Geometry, PackedFilter
from dmlax.errors import UnsupportedError
from dmlax.litert.operators import requantize
from dmlax.litert.operators.table import BOUNDS, Call, Info, Known, Tensor, expect_rank, operator
from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import Node

_LAYOUT = ("NHWC", "OHWI", "NHWC")
_HIGHEST = lax.Precision.HIGHEST


def _prepare_filter(node: Node, filter: np.ndarray) -> tuple[Any, bool] | None:
    """Packs the filter of a convolution of bytes or floats."""
    dtype, groups = node.attributes["dtypes"][0], node.attributes["groups"]
    if filter.ndim != 4 or groups < 1:
        return None
    if _is_packed_float(dtype, filter) and filter.shape[0] % groups == 0:
        return PackedFilter.pack(filter, groups, is_transposed=True), False
    if dtype not in ("int8", "uint8") or filter.dtype.itemsize > 1:
        return None
    zeros = _zeros(Call.of(node.attributes, 2, 1).info(1))
    packed = dmlax.prepare_filter(
        filter,
        filter_zero_point=zeros,
        group_count=groups,
        dimension_numbers=_LAYOUT,
        packing="auto",
    )
    return packed, False


def _prepare_matrix(node: Node, matrix: np.ndarray) -> tuple[Any, bool] | None:
    """Packs the weights of a product of bytes or floats."""
    if matrix.ndim == 2 and _is_packed_float(node.attributes["dtypes"][0], matrix):
        return PackedFilter.pack(matrix), False
    is_bytes = node.attributes["dtypes"][0] in ("int8", "uint8") and matrix.ndim == 2
    if not is_bytes or matrix.dtype.itemsize > 1 or not node.attributes["scale_counts"][0]:
        return None
    zeros = _zeros(Call.of(node.attributes, 2, 1).info(1))
    return dmlax.prepare_matrix(matrix.T, b_zero_point=zeros, packing="auto"), True


def _is_packed_float(dtype: str, weights: np.ndarray) -> bool:
    """True for weights that a CPU's kernels read packed."""
    is_float = dtype == weights.dtype.name == "float32" and weights.size > 0
    return is_float and packs_filters()


@operator("CONV_2D", prepare=_prepare_filter)
def convolution(call: Call, x: Array, w: Tensor, bias: Tensor | None = None) -> Array:
    """Convolves images, channels last, and adds a bias."""
    expect_rank(x, 4)
    return _convolve(call, x, w, bias, is_depthwise=False)


@operator("DEPTHWISE_CONV_2D", prepare=_prepare_filter)
def depthwise_convolution(call: Call, x: Array, w: Tensor, bias: Tensor | None = None) -> Array:
    """Convolves each channel; a filter that the file holds is arranged as CONV_2D's."""
    expect_rank(x, 4)
    is_packed = isinstance(w, dmlax.PreparedFilter | PackedFilter)
    if not is_packed and w.shape[0] == 1 != w.shape[3]:
        w = jnp.transpose(w, (3, 1, 2, 0))
    return _convolve(call, x, w, bias, is_depthwise=True)


def _convolve(call: Call, x: Array, w: Any, bias: Any, is_depthwise: bool) -> Array:
    kernel, depth = (w.shape[1:3], w.shape[3]) if len(w.shape) == 4 else ((0, 0), 0)
    if 0 in kernel or depth == 0 or x.shape[3] % depth:
        raise ModelError(f"its filter is {list(w.shape)} for an input {list(x.shape)}")
    options: dict[str, Any] = {
        "strides": (call.stride_h, call.stride_w),
        "dilations": (call.dilation_h, call.dilation_w),
        "padding": call.padding,
    }
    if min(*options["strides"], *options["dilations"]) < 1:
        raise ModelError("a stride or a dilation is not positive")
    groups = x.shape[3] if is_depthwise else x.shape[3] // depth
    if not call.is_quantized:
        scales = call.info(1).scales
        if is_depthwise and np.dtype(w.dtype) == np.int8 and 0 < scales.size < w.shape[0]:
            text = f"its filter has {scales.size} scale for {w.shape[0]} channels"
            raise UnsupportedError(f"{text}, where LiteRT reads one a channel: give it as many")
        # The reference CONV_2D is symmetric beside equal scales.
        is_asymmetric = is_depthwise or bool((scales != scales[:1]).any())
        # XNNPACK makes a product of a pointwise convolution, whose rows are pixels.
        is_product = {groups, *kernel, *options["strides"]} == {1} != {*w.shape}
        of_pixels = is_product and not is_depthwise and call.resolver == "xnnpack"
        x, w, bias = _as_floats(call, x, w, bias, is_asymmetric, of_pixels)
        return _of_floats(call, x, w, bias, groups, options)
    if x.dtype == jnp.int16:
        sums = _wide_sums(call, x, w, groups, options)
        return _from_wide_sums(call, sums, bias)
    # XNNPACK refuses weights of 4 bits.
    is_delegated = not (is_depthwise and call.info(1).dtype.name == "int4")
    return _of_bytes(call, x, w, bias, groups, options, is_delegated)


def _as_floats(
    call: Call, x: Array, w: Any, bias: Any, is_asymmetric: bool = True, of_pixels: bool = False
) -> tuple[Array, Any, Any]:
    """The floats of a product; beside weights of bytes the input is rounded to bytes, too."""
    bias = None if bias is None else bias.astype(jnp.float32)
    if x.dtype == jnp.float32 and np.dtype(w.dtype).kind == "f":
        return x, w if isinstance(w, PackedFilter) else w.astype(jnp.float32), bias
    info = call.info(1)
    if x.dtype != jnp.float32 or np.dtype(w.dtype) != np.int8 or not info.scales.size:
        text = f"it multiplies {x.dtype} by {np.dtype(w.dtype)}"
        raise UnsupportedError(f"{text}, expected float32, int8, uint8 or int16 by int8")
    shape = [1] * len(w.shape)
    # The filter of a depthwise convolution was arranged as others are.
    shape[0] = -1 if info.scales.size > 1 else 1
    is_asymmetric = call.resolver == "xnnpack" or call.options.get("asymmetric", is_asymmetric)
    axes = range(3, 4) if of_pixels else range(1, x.ndim)
    rounded = _rounded(x, tuple(axes), is_asymmetric)
    return rounded, w.astype(jnp.float32) * info.scales.reshape(shape), bias


def _rounded(x: Array, axes: tuple[int, ...], is_asymmetric: bool) -> Array:
    """Floats rounded to 256 steps of the range along some axes."""
    low = jnp.minimum(jnp.min(x, axes, keepdims=True), 0)
    high = jnp.maximum(jnp.max(x, axes, keepdims=True), 0)
    if not is_asymmetric:
        scale = jnp.maximum(high, -low) / 127
        return jnp.round(x / jnp.where(scale == 0, 1, scale)) * scale
    scale = jnp.where(high == low, 1, (high - low) / 255)
    zero = jnp.clip(jnp.round(-128 - low / scale), -128, 127)
    return (jnp.clip(jnp.round(x / scale) + zero, -128, 127) - zero) * scale


def _of_floats(
    call: Call, x: Array, w: Any, bias: Array | None, groups: int, options: dict[str, Any]
) -> Array:
    """Convolves floats."""
    if not isinstance(w, PackedFilter):
        kernel, w = w.shape[1:3], jnp.moveaxis(w, -1, 1)
    elif w.filter.groups == groups:
        kernel = w.shape[1:3]
    else:
        raise ModelError(f"its filter is {list(w.shape)} for an input {list(x.shape)}")
    strides, dilations = options["strides"], options["dilations"]
    padding = _padding(options["padding"], x.shape[1:3], kernel, options)
    steps = zip(x.shape[1:3], padding, kernel, dilations, strides, strict=True)
    sizes = [output_size(n + sum(pads), dilated_size(k, d), s) for n, pads, k, d, s in steps]
    return _end(
        call,
        x,
        w,
        bias,
        output_sizes=tuple(max(size, 0) for size in sizes),
        groups=groups,
        geometry=Geometry(strides, tuple(padding), dilations),
    )


def _end(call: Call, x: Array, w: Any, bias: Any, **options: Any) -> Array:
    """A product of floats, a bias and the fused activation."""
    clips = call.fused.startswith("RELU")
    low, high = BOUNDS[call.fused] if clips else (None, None)
    limits = -np.inf if low is None else float(low), np.inf if high is None else float(high)
    epilogue = Epilogue("clip", *limits) if clips else None
    bias = None if bias is None else bias.reshape(-1)
    made = FLOAT_CONVOLUTION.plan(x, w, None, bias, epilogue=epilogue, **options)
    y = FLOAT_CONVOLUTION.call(*made)
    return y if clips else call.activate(y)


def _padding(call_padding: str, sizes: Sequence[int], kernel: Sequence[int], options: Any) -> Any:
    """The padding of both spatial axes."""
    if call_padding == "VALID":
        return [(0, 0), (0, 0)]
    steps = zip(sizes, kernel, options["dilations"], options["strides"], strict=True)
    totals = [max(same_padding(n, dilated_size(k, d), s), 0) for n, k, d, s in steps]
    return [(total // 2, total - total // 2) for total in totals]


def _parameters(call: Call, place: int = 1) -> tuple[Info, Info, Info]:
    return call.info(0), call.info(place), call.output


def _of_bytes(
    call: Call,
    x: Array,
    w: Any,
    bias: Any,
    groups: int,
    options: dict[str, Any],
    is_delegated: bool = True,
) -> Array:
    """The convolution of bytes; XNNPACK's rounding is that of the operator in float32."""
    source, weights, output = _parameters(call)
    options = options | {"input_zero_point": _zero(source)}
    if not isinstance(w, dmlax.PreparedFilter):  # a prepared filter holds these
        options |= {"group_count": groups, "dimension_numbers": _LAYOUT}
        options["filter_zero_point"] = _zeros(weights)
    if call.resolver == "xnnpack" and not is_delegated:
        sums = _biased(dmlax.convolution_integer(x, w, **options), bias)
        return requantize.of_products(call, sums, (source, weights), in_eights=True)
    mode = _mode(call, "fixed_point_double")
    # LiteRT's built-in kernel takes weights of 4 bits.
    is_built_in = call.resolver == "xnnpack" and weights.dtype.name == "int4"
    y = dmlax.quantized_linear_convolution(
        x,
        w,
        None if bias is None else bias.reshape(-1),
        input_scale=source.scale,
        filter_scale=weights.scales,
        output_scale=output.scale,
        output_zero_point=_zero(output),
        **({"requantization": "fixed_point_half_up"} if is_built_in else mode),
        **options,
    )
    return _activated(call, y, is_built_in)


def _mode(call: Call, of_reference: str) -> dict[str, Any]:
    """The keyword by which the public operators round as a resolver's kernels."""
    if call.resolver == "reference":
        return {"requantization": of_reference}
    return {"arithmetic": "exact" if call.resolver == "exact" else "float32"}


def _activated(call: Call, y: Array, is_built_in: bool = False) -> Array:
    """Clamps the integers of an operator to the limits of the fused activation."""
    limits = call.limits(is_delegated=call.resolver == "xnnpack" and not is_built_in)
    whole = np.iinfo(call.output.dtype)
    return y if limits == (whole.min, whole.max) else jnp.clip(y, *limits)


def _zero(info: Info) -> np.ndarray:
    return np.array(info.zero_point, info.dtype)


def _zeros(info: Info) -> np.ndarray | None:
    """The zero points of weights, None where all are 0."""
    dtype = np.int8 if info.dtype.name == "int4" else info.dtype
    return info.zero_points.astype(dtype) if info.zero_points.any() else None


def _biased(sums: Array, bias: Any) -> Array:
    return sums if bias is None else sums + bias.reshape(-1).astype(jnp.int32)


def _wide_sums(
    call: Call, x: Array, w: Any, groups: int, options: dict[str, Any]
) -> fixed_point.Pair:
    """Sums of int16 by int8 with 64 bits: those of both bytes of the int16."""
    if call.info(0).zero_point or call.info(1).zero_points.any():
        raise UnsupportedError("its int16 input or its weights have a zero point, expected 0")

    def convolve(part: Array) -> Array:
        filter = w.unpack() if hasattr(w, "unpack") else w
        return dmlax.convolution_integer(
            part, filter, group_count=groups, dimension_numbers=_LAYOUT, **options
        )

    return _of_two_bytes(x, convolve)


def _of_two_bytes(x: Array, multiply: Any) -> fixed_point.Pair:
    """The 64-bit sums of an int16, of which both bytes are multiplied."""
    high = multiply((x >> 8).astype(jnp.int8))
    low = multiply((x & 255).astype(jnp.uint8))
    shifted = high >> 24, (high << 8).astype(jnp.uint32)
    return fixed_point.add_pairs(shifted, fixed_point.widen(low))


def _from_wide_sums(
    call: Call,
    sums: fixed_point.Pair,
    bias: Any,
    rounds_once: bool = False,
    in_eights: bool = False,
) -> Array:
    """Requantizes the sums of int16 by int8; a bias of 64 bits comes as two rows of words."""
    source, weights, output = _parameters(call)
    is_wide = bias is not None and bias.ndim == 2
    if bias is not None:
        words = (bias[0], bias[1].astype(jnp.uint32)) if is_wide else fixed_point.widen(bias)
        sums = fixed_point.add_pairs(sums, words)
    scales = requantize.product_of_scales(source.scales, weights.scales) / output.real
    is_reference = call.resolver != "xnnpack"
    if rounds_once and (is_wide or is_reference):
        return requantize.clamp(fixed_point.scale_float64(sums, Float64.of(scales)), call)
    by = Multiplier.of(scales)
    if is_wide or bias is None:
        return requantize.clamp(fixed_point.scale_pair(sums, by), call)
    total = fixed_point.shift_pair(sums, 0)
    if is_reference:
        return requantize.clamp(fixed_point.scale_half_away(total, by), call)
    if in_eights:
        count = total.shape[-1]
        return requantize.clamp(requantize.in_vectors(total, by, jnp.arange(count), 8, count), call)
    return requantize.clamp(fixed_point.scale_half_up(total, by), call)


@operator("FULLY_CONNECTED", prepare=_prepare_matrix)
def fully_connected(call: Call, x: Array, w: Tensor, bias: Tensor | None = None) -> Array:
    """Multiplies rows by the transposed weights, and adds a bias."""
    if call.weights_format:
        raise UnsupportedError(f"its weights have the format {call.weights_format}, expected 0")
    columns, depth = (w.shape[1], w.shape[0]) if _is_prepared(w) else w.shape
    if depth == 0 or x.size % depth:
        raise ModelError(f"its weights are {[columns, depth]} for an input {list(x.shape)}")
    rows = x.reshape(-1, depth)
    keeps = call.keep_num_dims and x.ndim > 0 and x.shape[-1] == depth
    shape = (*x.shape[:-1], columns) if keeps else (rows.shape[0], columns)
    if not call.is_quantized:
        rows, w, bias = _as_floats(call, rows, w, bias)
        return _end(call, rows, w, bias, output_sizes=()).reshape(shape)
    return _multiply(call, rows, w, bias).reshape(shape)


def _is_prepared(w: Any) -> bool:
    return isinstance(w, dmlax.PreparedMatrix)


def _multiply(call: Call, rows: Array, w: Any, bias: Any) -> Array:
    source, weights, output = _parameters(call)
    if rows.dtype == jnp.int16:
        matrix = w.unpack() if _is_prepared(w) else w.T
        if source.zero_point or weights.zero_points.any():
            raise UnsupportedError("its int16 input or its weights have a zero point, expected 0")
        pair = _of_two_bytes(rows, lambda part: dmlax.matrix_multiply_integer(part, matrix))
        return _from_wide_sums(call, pair, bias, rounds_once=True)
    options: dict[str, Any] = {"a_zero_point": _zero(source)}
    if not _is_prepared(w):
        w, options["b_zero_point"] = w.T, _zeros(weights)
    y = dmlax.quantized_linear_matrix_multiply(
        rows,
        w,
        None if bias is None else bias.reshape(-1),
        a_scale=source.scale,
        b_scale=weights.scales if weights.scales.size > 1 else weights.scale,
        output_scale=output.scale,
        output_zero_point=_zero(output),
        **_mode(call, "float64"),
        **options,
    )
    return _activated(call, y)


@operator("TRANSPOSE_CONV")
def transposed_convolution(
    call: Call, sizes: Known, w: Tensor, x: Array, bias: Array | None = None
) -> Array:
    """Spreads each pixel over a window: a convolution of the image with pixels between."""
    expect_rank(x, 4)
    if len(sizes) != 4 or w.ndim != 4 or min(call.stride_h, call.stride_w) < 1:
        raise ModelError(f"its output is {list(sizes)}, its filter {list(w.shape)}")
    strides, kernel = (call.stride_h, call.stride_w), w.shape[1:3]
    paddings = []
    for n, size, k, s in zip(x.shape[1:3], sizes[1:3].tolist(), kernel, strides, strict=True):
        windows = -(-size // s) if call.padding == "SAME" else (size + s - k) // s
        if windows != n:
            raise ModelError(f"its output has the size {size}, which {n} pixels do not give")
        before = max((windows - 1) * s + k - size, 0) // 2
        start = k - 1 - before
        paddings.append((start, size + k - 1 - (n - 1) * s - 1 - start))
    flipped = w[:, ::-1, ::-1]
    source = call.info(2)
    zero = jnp.asarray(source.zero_point if call.is_quantized else 0, x.dtype)
    spatial = [(*padding, s - 1) for padding, s in zip(paddings, strides, strict=True)]
    spread = lax.pad(x, zero, [(0, 0, 0), *spatial, (0, 0, 0)])
    options: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "padding": "VALID"}
    if not call.is_quantized:
        spread, flipped, bias = _as_floats(call, spread, flipped, bias)
        return _of_floats(call, spread, flipped, bias, 1, options)
    infos = (source, *call.infos[1:2], *call.infos[3:4], *call.infos[call.operand_count :])
    count = 3 if bias is not None else 2
    inner = Call(call.options, (infos[0], infos[1], *([None] * (count - 2)), call.output), count, 1)
    if x.dtype == jnp.int16:
        pair = _wide_sums(inner, spread, flipped, 1, options)
        return _from_wide_sums(inner, pair, bias, in_eights=True)
    # XNNPACK refuses windows with pixels between them and the padding SAME.
    gaps = any(k < s for k, s in zip(kernel, strides, strict=True))
    is_delegated = call.padding == "VALID" or not gaps
    return _of_bytes(inner, spread, flipped, bias, 1, options, is_delegated)


@operator("BATCH_MATMUL")
def batch_matmul(call: Call, x: Array, y: Array) -> Array:
    """Multiplies matrices; an option transposes either."""
    x = jnp.swapaxes(x, -1, -2) if call.adj_x else x
    y = jnp.swapaxes(y, -1, -2) if call.adj_y else y
    if not call.is_quantized:
        if {x.dtype, y.dtype} != {jnp.dtype(jnp.float32)}:
            raise UnsupportedError(
                f"it multiplies {x.dtype} by {y.dtype}, expected float32 or int8"
            )
        return jnp.matmul(x, y, precision=_HIGHEST)
    if {x.dtype, y.dtype} != {jnp.dtype(jnp.int8)}:
        raise UnsupportedError(f"it multiplies {x.dtype} by {y.dtype}, expected int8 by int8")
    first, second, output = _parameters(call)
    batch = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    left = jnp.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:])
    right = jnp.broadcast_to(y, (*batch, *y.shape[-2:])).reshape(-1, *y.shape[-2:])
    zeros: dict[str, Any] = {"a_zero_point": _zero(first), "b_zero_point": _zero(second)}
    if call.resolver == "xnnpack" and second.zero_point == 0:  # XNNPACK refuses others
        multiply = functools.partial(
            dmlax.quantized_linear_matrix_multiply,
            a_scale=first.scale,
            b_scale=second.scale,
            output_scale=output.scale,
            output_zero_point=_zero(output),
            arithmetic="float32",
            **zeros,
        )
    else:
        multiply = functools.partial(dmlax.matrix_multiply_integer, **zeros)
    y = jax.vmap(multiply)(left, right)
    y = y.reshape(*batch, *y.shape[1:])
    if y.dtype == jnp.int8:
        return y
    if call.resolver == "exact":
        return requantize.of_products(call, y, (first, second))
    by = Multiplier.of(float(first.scale * second.scale) / output.real)
    return requantize.clamp(fixed_point.scale_half_away(y, by), call)
