"""Convolutions and products of floats, for which a CPU has kernels."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from dmlax._core import ieee
from dmlax._core.requantize import Arithmetic
from dmlax._core.windows import tap_slices, taps
from dmlax._fused.float_convolution.call import FLOAT_CONVOLUTION
from dmlax._fused.float_convolution.plan import Epilogue, Geometry, PackedFilter
from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import OWN
from dmlax.onnx.operators.floats import align, multiply_in_order
from dmlax.onnx.operators.table import Tensor, operator
from dmlax.onnx.operators.values import by_channel, expect_equal_sizes, to_device
from dmlax.onnx.operators.windows import ConvolutionLayout, Windows, image_layout

_HARD = ("hard_sigmoid", "hard_swish")


class FloatEpilogue(NamedTuple):
    """The attributes of the function that follows the sums."""

    activation: str = "none"
    low: float = 0.0
    high: float = 0.0

    def of(self, arithmetic: Arithmetic) -> Epilogue:
        """The plan's epilogue: "exact" rounds the line of a hard sigmoid once."""
        return Epilogue(*self, fuses=arithmetic == "exact" and self.activation in _HARD)


@operator("Conv", 1, 11, 22)
def convolution(x: Array, w: Array, bias: Tensor | None = None, *, windows: Windows) -> Array:
    """Convolves floats."""
    return _convolve(x, w, bias, windows=windows)


@operator("FloatConv", 1, domain=OWN)
def fused_convolution(
    x: Array,
    w: Tensor,
    bias: Tensor | None = None,
    factor: Tensor | None = None,
    residual: Array | None = None,
    *,
    windows: Windows,
    layout: ConvolutionLayout,
    output_channels_first: int = 0,
    epilogue: FloatEpilogue,
    arithmetic: Arithmetic,
) -> Array:
    """Convolves float32; multiplies by factors of channels, adds, and applies a function."""
    input, _, output = layout.dimension_numbers(x.ndim)
    output_last = output[-1] == "C" and not output_channels_first
    return _convolve(
        x,
        w,
        bias,
        factor,
        residual,
        windows=windows,
        layouts=(input[-1] == "C", output_last),
        epilogue=epilogue.of(arithmetic),
    )


@operator("FloatGemm", 1, domain=OWN)
def fused_product(
    x: Array,
    w: Tensor,
    bias: Tensor | None = None,
    residual: Array | None = None,
    *,
    transA: int = 0,
    transB: int = 0,
    alpha: float = 1.0,
    beta: float | None = None,
    epilogue: FloatEpilogue,
    arithmetic: Arithmetic,
) -> Array:
    """Multiplies float32 rows by a matrix; adds, and applies a function.

    With `beta` the bias is any third matrix of a Gemm, and nothing follows.
    """
    x = x.T if transA else x
    depth, columns = w.shape[::-1] if transB else w.shape
    for size in x.shape[-1:]:
        expect_equal_sizes(size, depth)
    if beta is not None:
        product = alpha * fused_product(
            x, w, transB=transB, epilogue=epilogue, arithmetic=arithmetic
        )
        return product if bias is None else jnp.add(*align(product, beta * to_device(bias)))
    if x.ndim < 1 or x.shape[-1] != depth:
        raise ModelError(f"its input has the shape {list(x.shape)}, expected {depth} columns")
    rows = x.reshape(math.prod(x.shape[:-1]), depth)
    made = FLOAT_CONVOLUTION.plan(
        rows,
        _on_device(w),
        None,
        _of_channels(bias if bias is None else to_device(bias).reshape(-1), columns),
        None if residual is None else residual.reshape(rows.shape[0], columns),
        output_sizes=(),
        is_transposed=not transB,
        epilogue=epilogue.of(arithmetic),
    )
    return FLOAT_CONVOLUTION.call(*made).reshape(*x.shape[:-1], columns)


def _of_channels(values: Tensor | None, count: int) -> Array | None:
    """A bias or a factor on the device, with a value for each output channel."""
    if values is not None and values.shape != (count,):
        raise ModelError(f"its bias has the shape {list(values.shape)}, expected [{count}]")
    return None if values is None else to_device(values)


def _on_device(w: Tensor) -> Tensor:
    return w if isinstance(w, PackedFilter) else to_device(w)


def _convolve(
    x: Array,
    w: Tensor,
    bias: Tensor | None = None,
    factor: Tensor | None = None,
    residual: Array | None = None,
    *,
    windows: Windows,
    layouts: tuple[bool, bool] = (False, False),
    epilogue: Epilogue | None = None,
) -> Array:
    """Convolves images whose input and output are channels last or first."""
    input_last, output_last = layouts
    places = (0, x.ndim - 1, *range(1, x.ndim - 1)) if input_last else range(x.ndim)
    layout = image_layout(x.ndim, input_last)
    windows.expect_channels(x, layout, w.shape[1])
    x, windows = windows.pad(x, layout, w.shape[2:])
    image = jax.ShapeDtypeStruct([x.shape[place] for place in places], x.dtype)
    geometry, sizes = _windows(image, w, windows)
    made = FLOAT_CONVOLUTION.plan(
        x,
        _on_device(w),
        *(_of_channels(values, w.shape[0]) for values in (factor, bias)),
        residual,
        output_sizes=sizes[2:],
        groups=windows.group,
        geometry=geometry._replace(input_last=input_last, output_last=output_last),
        epilogue=epilogue,
    )
    return FLOAT_CONVOLUTION.call(*made)


def _windows(
    x: Array | jax.ShapeDtypeStruct, w: Tensor, windows: Windows
) -> tuple[Geometry, tuple[int, ...]]:
    """The windows on images of channels first, and the shape of the output."""
    kernel, ones = w.shape[2:], (1,) * (len(x.shape) - 2)
    if 0 in kernel:
        raise ModelError(f"its kernel is {list(kernel)}, expected no size 0")
    geometry = Geometry(
        tuple(windows.strides or ones),
        tuple(zip(*windows.padding(list(x.shape[2:]), kernel), strict=True)),
        tuple(windows.dilations or ones),
    )
    structs = jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(w.shape, w.dtype)
    output = jax.eval_shape(
        lambda x, w: lax.conv_general_dilated(
            x,
            w,
            geometry.strides,
            geometry.padding,
            rhs_dilation=geometry.dilations,
            feature_group_count=windows.group,
        ),
        *structs,
    )
    return geometry, output.shape


@operator("Conv", 1, domain=OWN)
def ordered_convolution(
    x: Array, w: Array, bias: Tensor | None = None, *, windows: Windows
) -> Array:
    """Convolves floats in ONNX Runtime's order of sums, as a product of filters and windows."""
    if windows.group > 1 or not all(isinstance(size, int) for size in x.shape[1:]):
        return convolution(x, w, bias, windows=windows)
    geometry, sizes = _windows(x, w, windows)
    padded = jnp.pad(x, [(0, 0), (0, 0), *geometry.padding])
    steps = sizes[2:], geometry.strides, geometry.dilations
    images = jnp.stack([padded[(..., *tap_slices(tap, *steps))] for tap in taps(w.shape[2:])], 2)
    filters = w.reshape(w.shape[0], -1)
    rows = images.reshape(x.shape[0], filters.shape[1], math.prod(sizes[2:]))
    result = multiply_in_order(filters, rows).reshape(sizes)
    return result if bias is None else ieee.add(result, by_channel(bias, x.ndim))
