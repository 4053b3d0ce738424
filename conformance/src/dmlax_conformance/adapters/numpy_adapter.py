"""Plain NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..oracle.fixed_point import FIELD
from . import fixed_point
from .base import Array, Case
from .common import window_pairs
from .formulas import Formulas, Given


class Numpy(Formulas):
    """Quantization in float64; no check but NumPy's own."""

    name = "numpy"
    capabilities = frozenset({"large", "requantization"})
    packages = ("numpy",)
    refusals = (ValueError, TypeError, IndexError, ArithmeticError)
    xp = np

    def real(self, array: Any) -> Any:
        """Return an array in float64."""
        return np.asarray(array).astype(np.float64, casting="same_kind")

    def difference(self, x: Any, zero_point: Any) -> Any:
        """Subtract in int32."""
        return np.subtract(x, zero_point, dtype=np.int32)

    def sum_with_bias(self, sums: Any, bias: Any) -> Any:
        """Add in int32, which wraps."""
        return np.add(sums, bias, dtype=np.int32)

    def one(self, array: Array) -> Array:
        """Return the value as a scalar, or fail."""
        return array.reshape(())

    def nonzero_coordinates(self, case: Case, given: Given) -> Array:
        """Return a row for each element that is not zero."""
        return np.stack(np.nonzero(given["InputTensor"]), axis=-1)

    def convolved(self, case: Case, x: Any, w: Any) -> Any:
        """Return the integer convolution: windows times filters, one group after the other."""
        axes = tuple(range(2, x.ndim))
        windows = _windows(case, x, w.shape[2:], 0)
        contracted = (1, *range(-len(axes), 0)), (1, *axes)
        groups = case.attributes["GroupCount"]
        halves = np.split(windows, groups, axis=1), np.split(w, groups, axis=0)
        parts = [np.tensordot(*pair, contracted) for pair in zip(*halves, strict=True)]
        return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)

    def pooled(self, case: Case, x: Any, is_max: bool) -> Any:
        """Return the sum or the largest element of each window; padding changes neither."""
        padding = np.iinfo(x.dtype.name).min if is_max else 0
        windows = _windows(case, x, case.attributes["WindowSize"], padding)
        last = tuple(range(-len(case.attributes["Strides"]), 0))
        return windows.max(last) if is_max else windows.sum(last)

    def _requantized(self, case: Case, given: Given, sums: Any, scale: Any) -> Any:
        if FIELD not in case.attributes:
            return super()._requantized(case, given, sums, scale)
        real = scale / self.real(given["OutputScaleTensor"])
        scaled = fixed_point.scaled(sums.astype(np.int32), real, case.attributes[FIELD])
        return self._clamped(case, scaled, given["OutputZeroPointTensor"])

    def element_wise_quantized_linear_add(self, case: Case, given: Given) -> Any:
        """Add what both stand for, or integers."""
        if FIELD not in case.attributes:
            return super().element_wise_quantized_linear_add(case, given)
        (x, y), scales = self._integers(given)
        total = fixed_point.added(x, y, scales, case.attributes[FIELD])
        return self._clamped(case, total, given["OutputZeroPointTensor"])

    def element_wise_quantized_linear_multiply(self, case: Case, given: Given) -> Any:
        """Multiply what both stand for, or integers."""
        if FIELD not in case.attributes:
            return super().element_wise_quantized_linear_multiply(case, given)
        (x, y), (a, b, output) = self._integers(given)
        product = fixed_point.scaled(x * y, a * b / output, case.attributes[FIELD])
        return self._clamped(case, product, given["OutputZeroPointTensor"])

    def _integers(self, given: Given) -> Any:
        """Return the differences from the zero points, and the three scales."""
        ends = ("A", "B", "Output")
        scales = [given[f"{end}ScaleTensor"] for end in ends]
        pairs = ((given[f"{end}Tensor"], given[f"{end}ZeroPointTensor"]) for end in ends[:2])
        return [self.difference(*pair) for pair in pairs], scales

    def _mean(self, case: Case, given: Given, sums: Any, counts: Any) -> Any:
        sx, sy = (self.real(given[f"{name}ScaleTensor"]) for name in ("Input", "Output"))
        if FIELD in case.attributes:
            mean = fixed_point.averaged(sums, counts, sx / sy, case.attributes[FIELD])
            return self._clamped(case, mean, given["OutputZeroPointTensor"])
        quotient = sums * sx / (sy * counts)
        return self._clamped(case, quotient, given["OutputZeroPointTensor"])

    def element_wise_dequantize_linear(self, case: Case, given: Given) -> Any:
        """Subtract and multiply."""
        x, scale = given["InputTensor"], given["ScaleTensor"]
        difference = np.subtract(x, given["ZeroPointTensor"], dtype=np.int64)
        return np.multiply(difference, scale, dtype=np.float64).astype(scale.dtype)

    def quantized_lookup(self, case: Case, given: Given) -> Array:
        """Take entries."""
        x = given["InputTensor"]
        lowest = -128 if x.dtype == np.int8 else 0
        return np.asarray(given["TableTensor"][x.astype(np.int64) - lowest])

    def quantized_linear_matrix_multiply(self, case: Case, given: Given) -> Any:
        """Scale the sums, which do not wrap with a bias, round and clamp."""
        if "BiasTensor" in given:
            given = {**given, "BiasTensor": given["BiasTensor"].astype(np.int64)}
        return super().quantized_linear_matrix_multiply(case, given)


def _windows(case: Case, x: Any, kernel: Sequence[int], padding: int) -> Any:
    """Return the pixels of each window of a padded tensor, as (N, C, *windows, *kernel)."""
    strides, dilations = case.attributes["Strides"], case.attributes["Dilations"]
    x = np.pad(x, [(0, 0), (0, 0), *window_pairs(case)], constant_values=padding)
    sizes = zip(kernel, strides, dilations, strict=True)
    span = [(size - 1) * dilation + 1 for size, _, dilation in sizes]
    steps = [slice(None, None, step) for step in (*strides, *dilations)]
    axes = tuple(range(2, 2 + len(kernel)))
    return sliding_window_view(x, span, axes)[(slice(None), slice(None), *steps)]
