"""Plain NumPy, as a user would write the formulas of the pages."""

import sys

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from .base import Array, Case
from .common import Library, channels, of_product, window_pairs, zero

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
    windows = _windows(image, filters.shape[2:], strides, dilations)
    contracted = (1, *range(-len(axes), 0)), (1, *axes)
    groups = case.attributes["GroupCount"]
    pairs = zip(np.split(windows, groups, axis=1), np.split(filters, groups, axis=0), strict=True)
    parts = [np.tensordot(*pair, contracted) for pair in pairs]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)


def _windows(x: Sums, kernel: tuple[int, ...], strides: list[int], dilations: list[int]) -> Sums:
    """Return the pixels of each window, as (N, C, *windows, *kernel)."""
    axes = tuple(range(2, 2 + len(kernel)))
    sizes = zip(kernel, strides, dilations, strict=True)
    span = [(size - 1) * dilation + 1 for size, _, dilation in sizes]
    steps = [slice(None, None, step) for step in (*strides, *dilations)]
    return sliding_window_view(x, span, axes)[(slice(None), slice(None), *steps)]


def element_wise_quantize_linear(case: Case) -> Array:
    """Divide, round and clamp."""
    given, dtype = case.inputs, case.outputs["OutputTensor"].dtype
    quotient = np.divide(given["InputTensor"], given["ScaleTensor"], dtype=np.float64)
    zero_point = zero(case, "ZeroPointTensor", dtype)
    return _clamped(np.rint(quotient) + zero_point, dtype)


def element_wise_dequantize_linear(case: Case) -> Array:
    """Subtract and multiply."""
    x, scale = case.inputs["InputTensor"], case.inputs["ScaleTensor"]
    difference = np.subtract(x, zero(case, "ZeroPointTensor", x.dtype), dtype=np.int64)
    return np.multiply(difference, scale, dtype=np.float64).astype(scale.dtype)


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
    total = sums + case.inputs["BiasTensor"] if "BiasTensor" in case.inputs else sums
    quotient = total * (_scales(case) / _spread(case, "OutputScaleTensor"))
    zero_point = zero(case, "OutputZeroPointTensor", dtype)
    rows = of_product(case, "Output", zero_point).astype(np.float64)
    return _clamped(np.rint(quotient) + rows, dtype)


def matrix_multiply_integer_to_float(case: Case) -> Array:
    """Scale the sums and add the bias."""
    scaled = matrix_multiply_integer(case) * _scales(case)
    if "BiasTensor" in case.inputs:
        scaled = scaled + case.inputs["BiasTensor"]
    return np.asarray(scaled).astype(case.outputs["OutputTensor"].dtype)


def _point(case: Case, name: str) -> Array:
    own = zero(case, f"{name}ZeroPointTensor", case.inputs[f"{name}Tensor"].dtype)
    return of_product(case, "A", own)


def _scales(case: Case) -> npt.NDArray[np.float64]:
    """Return the product of the scales of A and B."""
    return np.asarray(_spread(case, "AScaleTensor") * _spread(case, "BScaleTensor"))


def _spread(case: Case, name: str) -> npt.NDArray[np.float64]:
    """Return a scale as it repeats to the output."""
    place = "B" if name.startswith("B") else "Output"
    return of_product(case, place, case.inputs[name]).astype(np.float64)


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
