"""Plain NumPy, as a user would write the formulas of the pages."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from .base import Array, Case
from .common import (
    Library,
    addition_to,
    channels,
    convolution_of,
    of_product,
    one_value,
    real_values,
    window_pairs,
    zero,
)

Sums = npt.NDArray[np.int32]


def nonzero_coordinates(case: Case) -> Array:
    """Return a row for each element that is not zero."""
    return np.stack(np.nonzero(case.inputs["InputTensor"]), axis=-1)


def quantized_linear_convolution(case: Case) -> Array:
    """Scale the sums, round and clamp."""
    sums, given = convolution_integer(case), case.inputs
    per_channel = (-1, *[1] * (sums.ndim - 2))
    if "BiasTensor" in given:
        bias = channels(given["BiasTensor"]).reshape(per_channel)
        sums = np.add(sums, bias, dtype=np.int32)
    filter_scale = channels(given["FilterScaleTensor"]).reshape(per_channel)
    scale = np.multiply(given["InputScaleTensor"].item(), filter_scale, dtype=np.float64)
    dtype = case.outputs["OutputTensor"].dtype
    zero_point = zero(case, "OutputZeroPointTensor", dtype).item()
    quotient = sums * (scale / given["OutputScaleTensor"].item())
    return _clamped(np.rint(quotient) + zero_point, dtype)


def quantized_linear_convolution_add(case: Case) -> Array:
    """Convolve, round and clamp, then add."""
    convolved = quantized_linear_convolution(convolution_of(case))
    return element_wise_quantized_linear_add(addition_to(case, convolved))


def convolution_integer(case: Case) -> Sums:
    """Return the integer convolution: windows times filters, one group after the other."""
    x, w = case.inputs["InputTensor"], case.inputs["FilterTensor"]
    axes = tuple(range(2, x.ndim))
    zero_point = zero(case, "InputZeroPointTensor", x.dtype).item()
    image: Sums = np.subtract(x, zero_point, dtype=np.int32)
    zero_points = channels(zero(case, "FilterZeroPointTensor", w.dtype))
    zero_points = zero_points.reshape(-1, *[1] * (w.ndim - 1))
    filters: Sums = np.subtract(w, zero_points, dtype=np.int32)
    image = np.pad(image, [(0, 0), (0, 0), *window_pairs(case)])
    strides, dilations = case.attributes["Strides"], case.attributes["Dilations"]
    windows: Sums = _windows(image, filters.shape[2:], strides, dilations)
    contracted = (1, *range(-len(axes), 0)), (1, *axes)
    groups = case.attributes["GroupCount"]
    pairs = zip(np.split(windows, groups, axis=1), np.split(filters, groups, axis=0), strict=True)
    parts = [np.tensordot(*pair, contracted) for pair in pairs]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)


def _windows(x: Any, kernel: Sequence[int], strides: list[int], dilations: list[int]) -> Any:
    """Return the pixels of each window, as (N, C, *windows, *kernel)."""
    axes = tuple(range(2, 2 + len(kernel)))
    sizes = zip(kernel, strides, dilations, strict=True)
    span = [(size - 1) * dilation + 1 for size, _, dilation in sizes]
    steps = [slice(None, None, step) for step in (*strides, *dilations)]
    return sliding_window_view(x, span, axes)[(slice(None), slice(None), *steps)]


def quantized_linear_average_pooling(case: Case) -> Array:
    """Scale the sums of windows by their counts, round and clamp."""
    x, given = case.inputs["InputTensor"], case.attributes
    centred = np.subtract(x, _by_channel(case, "InputZeroPointTensor", x), dtype=np.int32)
    around = [(0, 0), (0, 0), *window_pairs(case)]
    options = given["WindowSize"], given["Strides"], given["Dilations"]
    last = tuple(range(-len(given["Strides"]), 0))
    windows = _windows(np.pad(centred, around), *options)
    inside = _windows(np.pad(np.ones_like(centred), around), *options)
    counts = np.prod(given["WindowSize"]) if given["IncludePadding"] else inside.sum(last)
    return _quantized_mean(case, windows.sum(last), np.maximum(counts, 1))


def quantized_linear_global_average_pooling(case: Case) -> Array:
    """Scale the sums of images, round and clamp."""
    x = case.inputs["InputTensor"]
    centred = np.subtract(x, _by_channel(case, "InputZeroPointTensor", x), dtype=np.int32)
    axes = tuple(range(2, x.ndim))
    return _quantized_mean(case, centred.sum(axes, keepdims=True), np.prod(x.shape[2:]))


def _quantized_mean(case: Case, sums: Array, counts: Any) -> Array:
    sx, sy = (_by_channel(case, f"{name}ScaleTensor", sums) for name in ("Input", "Output"))
    quotient = sums * sx.astype(np.float64) / (sy.astype(np.float64) * counts)
    zero_point = _by_channel(case, "OutputZeroPointTensor", sums)
    return _clamped(np.rint(quotient) + zero_point, case.outputs["OutputTensor"].dtype)


def _by_channel(case: Case, name: str, like: Array) -> Array:
    """Return one value, or one for each channel on axis 1; 0 for what is absent."""
    parameter = channels(zero(case, name, np.int32))
    return parameter.reshape(-1, *[1] * (like.ndim - 2)) if parameter.ndim == 1 else parameter


def max_pooling(case: Case) -> Array:
    """Return the largest element of each window; padding is the lowest value."""
    x, given = case.inputs["InputTensor"], case.attributes
    around, lowest = [(0, 0), (0, 0), *window_pairs(case)], np.iinfo(x.dtype.name).min
    padded = np.pad(x, around, constant_values=lowest)
    options = given["WindowSize"], given["Strides"], given["Dilations"]
    found: Array = _windows(padded, *options).max(tuple(range(-len(given["Strides"]), 0)))
    return found


def element_wise_quantize_linear(case: Case) -> Array:
    """Divide, round and clamp."""
    given, dtype = case.inputs, case.outputs["OutputTensor"].dtype
    quotient = np.divide(given["InputTensor"], given["ScaleTensor"], dtype=np.float64)
    return _clamped(np.rint(quotient) + zero(case, "ZeroPointTensor", dtype), dtype)


def element_wise_dequantize_linear(case: Case) -> Array:
    """Subtract and multiply."""
    x, scale = case.inputs["InputTensor"], case.inputs["ScaleTensor"]
    difference = np.subtract(x, zero(case, "ZeroPointTensor", x.dtype), dtype=np.int64)
    return np.multiply(difference, scale, dtype=np.float64).astype(scale.dtype)


def element_wise_quantized_linear_add(case: Case) -> Array:
    """Add what both stand for."""
    return _quantized(case, real_values(case, "A") + real_values(case, "B"))


def element_wise_quantized_linear_multiply(case: Case) -> Array:
    """Multiply what both stand for."""
    return _quantized(case, real_values(case, "A") * real_values(case, "B"))


def _quantized(case: Case, values: npt.NDArray[np.float64]) -> Array:
    dtype = case.outputs["OutputTensor"].dtype
    point = one_value(zero(case, "OutputZeroPointTensor", dtype))
    scale = one_value(case.inputs["OutputScaleTensor"]).astype(np.float64)
    return _clamped(np.rint(values / scale) + point, dtype)


def quantized_lookup(case: Case) -> Array:
    """Take entries."""
    x = case.inputs["InputTensor"]
    lowest = -128 if x.dtype == np.int8 else 0
    return np.asarray(case.inputs["TableTensor"][x.astype(np.int64) - lowest])


def dynamic_quantize_linear(case: Case) -> tuple[Array, ...]:
    """Find the range in float64, then quantize."""
    x = case.inputs["InputTensor"].astype(np.float64, casting="same_kind")
    dtype = case.outputs["OutputTensor"].dtype
    low, high = np.min(x, initial=0), np.max(x, initial=0)
    scale = np.float32((high - low) / 255) or np.float32(1)
    limits = np.iinfo(dtype)
    point = np.clip(np.rint(limits.min - low / np.float64(scale)), limits.min, limits.max)
    output = _clamped(np.rint(x / np.float64(scale)) + point, dtype)
    return output, np.asarray(scale), np.asarray(point).astype(dtype)


def matrix_multiply_integer(case: Case) -> Sums:
    """Subtract the zero points and multiply in int32, which wraps."""
    a, b = (
        np.subtract(case.inputs[f"{name}Tensor"], _point(case, name), dtype=np.int32)
        for name in "AB"
    )
    return np.asarray(np.matmul(a, b))


def quantized_linear_matrix_multiply(case: Case) -> Array:
    """Scale the sums, round and clamp."""
    sums, dtype = matrix_multiply_integer(case).astype(np.int64), case.outputs["OutputTensor"].dtype
    total = np.add(sums, case.inputs["BiasTensor"]) if "BiasTensor" in case.inputs else sums
    quotient = total * (_scales(case) / _spread(case, "OutputScaleTensor"))
    zero_point = zero(case, "OutputZeroPointTensor", dtype)
    rows = of_product(case, "Output", zero_point).astype(np.float64)
    return _clamped(np.rint(quotient) + rows, dtype)


def matrix_multiply_integer_to_float(case: Case) -> Array:
    """Scale the sums and add the bias."""
    scaled = matrix_multiply_integer(case) * _scales(case)
    if "BiasTensor" in case.inputs:
        scaled = np.add(scaled, case.inputs["BiasTensor"])
    return np.asarray(scaled).astype(case.outputs["OutputTensor"].dtype)


def _point(case: Case, name: str) -> Array:
    own = zero(case, f"{name}ZeroPointTensor", case.inputs[f"{name}Tensor"].dtype)
    return of_product(case, "A", own)


def _scales(case: Case) -> npt.NDArray[np.float64]:
    """Return the product of the scales of A and B."""
    return np.asarray(_spread(case, "AScaleTensor") * _spread(case, "BScaleTensor"))


def _spread(case: Case, name: str) -> npt.NDArray[np.float64]:
    """Return a scale as it repeats to the output."""
    return of_product(case, "Output", case.inputs[name]).astype(np.float64)


def _clamped(values: npt.NDArray[np.float64], dtype: str) -> Array:
    limits = np.iinfo(dtype)
    return np.clip(values, limits.min, limits.max).astype(dtype)


class Numpy(Library):
    """Sums in int32, which wrap; quantization in float64; no check but NumPy's own."""

    name = "numpy"
    capabilities = frozenset({"large"})
    packages = ("numpy",)
    refusals = (ValueError, TypeError, IndexError, ArithmeticError)
    calls = sys.modules[__name__]
