"""Plain NumPy, as a user would write the formulas of the pages."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from .base import Array, Case
from .common import channels, coordinates, known, refusals, versions, window_pairs, zero

Sums = npt.NDArray[np.int32]
REFUSALS = (ValueError, TypeError, IndexError, ArithmeticError)


class Numpy:
    """Sums in int32, which wrap; quantization in float64; no check but NumPy's own."""

    name = "numpy"
    concurrent = True
    capabilities = frozenset({"large"})
    variants: tuple[str, ...] = ("eager",)

    def __init__(self) -> None:
        """Look up the version."""
        self.versions = versions("numpy")
        self._calls: dict[str, Callable[[Case], Mapping[str, Array]]] = {
            "nonzero_coordinates": _nonzero,
            "quantized_linear_convolution": _quantized,
            "convolution_integer": _integer,
            "element_wise_quantize_linear": _quantize,
            "element_wise_dequantize_linear": _dequantize,
        }

    def run(self, case: Case, variant: str) -> Mapping[str, Array]:
        """Compute, and decline what NumPy refuses."""
        with refusals(*REFUSALS), np.errstate(all="ignore"):
            return known(self._calls, case)(case)


def _nonzero(case: Case) -> Mapping[str, Array]:
    return coordinates(case, np.stack(np.nonzero(case.inputs["InputTensor"]), axis=-1))


def _integer(case: Case) -> Mapping[str, Array]:
    return {"OutputTensor": _sums(case)}


def _quantized(case: Case) -> Mapping[str, Array]:
    sums, given = _sums(case), case.inputs
    per_channel = (-1, *[1] * (sums.ndim - 2))
    if "BiasTensor" in given:
        bias = channels(given["BiasTensor"]).reshape(per_channel)
        sums = np.add(sums, bias, dtype=np.int32)
    filter_scale = channels(given["FilterScaleTensor"]).reshape(per_channel)
    scale = np.multiply(given["InputScaleTensor"].item(), filter_scale, dtype=np.float64)
    dtype = case.outputs["OutputTensor"].dtype
    zero_point = zero(case, "OutputZeroPointTensor", dtype).item()
    quotient = sums * (scale / given["OutputScaleTensor"].item())
    return {"OutputTensor": _clamped(np.rint(quotient) + zero_point, dtype)}


def _sums(case: Case) -> Sums:
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


def _quantize(case: Case) -> Mapping[str, Array]:
    given, dtype = case.inputs, case.outputs["OutputTensor"].dtype
    quotient = np.divide(given["InputTensor"], given["ScaleTensor"], dtype=np.float64)
    zero_point = zero(case, "ZeroPointTensor", dtype)
    return {"OutputTensor": _clamped(np.rint(quotient) + zero_point, dtype)}


def _dequantize(case: Case) -> Mapping[str, Array]:
    x, scale = case.inputs["InputTensor"], case.inputs["ScaleTensor"]
    difference = np.subtract(x, zero(case, "ZeroPointTensor", x.dtype), dtype=np.int64)
    return {"OutputTensor": np.multiply(difference, scale, dtype=np.float64).astype(scale.dtype)}


def _clamped(values: npt.NDArray[np.float64], dtype: str) -> Array:
    limits = np.iinfo(dtype)
    return np.clip(values, limits.min, limits.max).astype(dtype)
