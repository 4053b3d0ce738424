"""The formulas of the pages as a user would write them, in NumPy or in `jax.numpy`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .base import Array, Case
from .common import Library, addition_to, channels, convolution_of, of_product, one_value, zero

Given = Mapping[str, Any]
AS_THEY_ARE = (  # operators whose formulas need no parameter in another shape
    *("nonzero_coordinates", "max_pooling", "quantized_lookup", "dynamic_quantize_linear"),
    "quantized_linear_convolution_add",
)


class Formulas(Library):
    """Sums in int32, which wrap, and quantization in floats; a subclass says how it computes."""

    xp: Any  # NumPy, or `jax.numpy`
    real: Callable[[Any], Any]  # an array in the floats of the formulas
    convolved: Callable[[Case, Any, Any], Any]  # int32 images and filters
    pooled: Callable[[Case, Any, bool], Any]  # sums of windows, or their largest elements

    def computed(self, call: Callable[..., Any], case: Case, variant: str) -> Any:
        """Call with parameters that broadcast."""
        return call(case, self.parameters(case))

    def difference(self, x: Any, zero_point: Any) -> Any:
        """Subtract in int32."""
        return x.astype("int32") - zero_point.astype("int32")

    def sum_with_bias(self, sums: Any, bias: Any) -> Any:
        """Add in int32."""
        return sums + bias

    def one(self, array: Array) -> Array:
        """Return the value of a parameter as a scalar, if it has one."""
        return one_value(array)

    def convolution_integer(self, case: Case, given: Given) -> Any:
        """Convolve the differences from the zero points."""
        x, w = given["InputTensor"], given["FilterTensor"]
        zero_points = given["FilterZeroPointTensor"].reshape(-1, *[1] * (w.ndim - 1))
        images = self.difference(x, given["InputZeroPointTensor"])
        return self.convolved(case, images, self.difference(w, zero_points))

    def quantized_linear_convolution(self, case: Case, given: Given) -> Any:
        """Scale the sums, round and clamp."""
        sums = self.convolution_integer(case, given)
        per_channel = (-1, *[1] * (sums.ndim - 2))
        if "BiasTensor" in given:
            sums = self.sum_with_bias(sums, given["BiasTensor"].reshape(per_channel))
        filter_scale = self.real(given["FilterScaleTensor"].reshape(per_channel))
        scale = self.real(given["InputScaleTensor"]) * filter_scale
        return self._requantized(case, given, sums, scale)

    def quantized_linear_convolution_add(self, case: Case, given: Given) -> Any:
        """Convolve, round and clamp, then add."""
        case = replace(case, inputs=given)
        convolution = convolution_of(case)
        convolved = self.quantized_linear_convolution(convolution, self.parameters(convolution))
        addition = addition_to(case, convolved)
        return self.element_wise_quantized_linear_add(addition, self.parameters(addition))

    def element_wise_quantize_linear(self, case: Case, given: Given) -> Any:
        """Divide, round and clamp."""
        quotient = self.real(given["InputTensor"]) / self.real(given["ScaleTensor"])
        return self._clamped(case, quotient, given["ZeroPointTensor"])

    def element_wise_quantized_linear_add(self, case: Case, given: Given) -> Any:
        """Add what both stand for."""
        return self._quantized(case, given, self._meant(given, "A") + self._meant(given, "B"))

    def element_wise_quantized_linear_multiply(self, case: Case, given: Given) -> Any:
        """Multiply what both stand for."""
        return self._quantized(case, given, self._meant(given, "A") * self._meant(given, "B"))

    def _meant(self, given: Given, name: str) -> Any:
        x, zero_point = (given[f"{name}{part}"] for part in ("Tensor", "ZeroPointTensor"))
        difference = x.astype("int32") - zero_point.astype("int32")
        return self.real(difference) * self.real(given[f"{name}ScaleTensor"])

    def _quantized(self, case: Case, given: Given, values: Any) -> Any:
        quotient = values / self.real(given["OutputScaleTensor"])
        return self._clamped(case, quotient, given["OutputZeroPointTensor"])

    def dynamic_quantize_linear(self, case: Case, given: Given) -> Any:
        """Find the range, then quantize."""
        x, dtype = self.real(given["InputTensor"]), case.outputs["OutputTensor"].dtype
        low, high = (find(x, initial=0) for find in (self.xp.min, self.xp.max))
        scale = ((high - low) / 255).astype("float32")
        scale = self.xp.where(scale == 0, np.float32(1), scale)
        limits = self.xp.iinfo(dtype)
        point = self.xp.round(limits.min - low / self.real(scale))
        point = self.xp.clip(point, limits.min, limits.max).astype(dtype)
        return self._clamped(case, x / self.real(scale), point), scale, point

    def max_pooling(self, case: Case, given: Given) -> Any:
        """Return the largest element of each window."""
        return self.pooled(case, given["InputTensor"], True)

    def quantized_linear_average_pooling(self, case: Case, given: Given) -> Any:
        """Add up windows, divide, round and clamp."""
        x, options = given["InputTensor"], case.attributes
        sums = self.pooled(case, self.difference(x, given["InputZeroPointTensor"]), False)
        ones = self.xp.ones(x.shape, "int32")
        is_whole = options["IncludePadding"]
        counts = np.prod(options["WindowSize"]) if is_whole else self.pooled(case, ones, False)
        return self._mean(case, given, sums, self.xp.maximum(counts, 1))

    def quantized_linear_global_average_pooling(self, case: Case, given: Given) -> Any:
        """Add up images, divide, round and clamp."""
        x = given["InputTensor"]
        sums = self.difference(x, given["InputZeroPointTensor"])
        sums = sums.sum(tuple(range(2, x.ndim)), keepdims=True)
        return self._mean(case, given, sums, int(np.prod(x.shape[2:])))

    def _mean(self, case: Case, given: Given, sums: Any, counts: Any) -> Any:
        mean = self.real(sums) * self.real(given["InputScaleTensor"]) / counts
        return self._quantized(case, given, mean)

    def matrix_multiply_integer(self, case: Case, given: Given) -> Any:
        """Subtract the zero points and multiply in int32."""
        names = ((f"{name}Tensor", f"{name}ZeroPointTensor") for name in "AB")
        a, b = (self.difference(given[tensor], given[point]) for tensor, point in names)
        return self.xp.matmul(a, b)

    def quantized_linear_matrix_multiply(self, case: Case, given: Given) -> Any:
        """Scale the sums, round and clamp."""
        sums = self.matrix_multiply_integer(case, given)
        sums = sums + given["BiasTensor"] if "BiasTensor" in given else sums
        scale = self.real(given["AScaleTensor"]) * self.real(given["BScaleTensor"])
        return self._requantized(case, given, sums, scale)

    def matrix_multiply_integer_to_float(self, case: Case, given: Given) -> Any:
        """Scale the sums and add the bias."""
        sums = self.real(self.matrix_multiply_integer(case, given))
        scaled = sums * (self.real(given["AScaleTensor"]) * self.real(given["BScaleTensor"]))
        scaled = scaled + given["BiasTensor"] if "BiasTensor" in given else scaled
        return scaled.astype(case.outputs["OutputTensor"].dtype)

    def _requantized(self, case: Case, given: Given, sums: Any, scale: Any) -> Any:
        quotient = self.real(sums) * (scale / self.real(given["OutputScaleTensor"]))
        return self._clamped(case, quotient, given["OutputZeroPointTensor"])

    def _clamped(self, case: Case, quotient: Any, zero_point: Any) -> Any:
        dtype = case.outputs["OutputTensor"].dtype
        limits = self.xp.iinfo(dtype)
        shifted = self.xp.round(quotient) + self.real(zero_point)
        return self.xp.clip(shifted, limits.min, limits.max).astype(dtype)

    def parameters(self, case: Case) -> dict[str, Array]:
        """Return the inputs, with parameters that broadcast, and 0 for a missing zero point."""
        given, dtypes = dict(case.inputs), _held(case)
        if case.operator in AS_THEY_ARE:
            return given
        if case.operator.startswith("element_wise") and "ATensor" not in given:
            is_quantize = case.operator == "element_wise_quantize_linear"
            dtype = dtypes["Output" if is_quantize else "Input"]
            return given | {"ZeroPointTensor": zero(case, "ZeroPointTensor", dtype)}
        for end, dtype in dtypes.items():
            point, scale = f"{end}ZeroPointTensor", f"{end}ScaleTensor"
            given[point] = self._shaped(case, end, zero(case, point, dtype), is_scale=False)
            if scale in given:
                given[scale] = self._shaped(case, end, given[scale], is_scale=True)
        if "FilterTensor" in given and "BiasTensor" in given:
            given["BiasTensor"] = channels(given["BiasTensor"])
        return given

    def _shaped(self, case: Case, end: str, array: Array, is_scale: bool) -> Array:
        if "matrix_multiply" in case.operator:
            return of_product(case, "Output" if is_scale else end, array)
        if case.operator.startswith("element_wise"):
            return one_value(array)
        if case.operator.endswith("average_pooling"):
            array, rank = channels(array), case.inputs["InputTensor"].ndim
            return array.reshape(-1, *[1] * (rank - 2)) if array.ndim == 1 else array
        return channels(array) if end == "Filter" else self.one(array)


def _held(case: Case) -> dict[str, Any]:
    """Return the data types of the operands and the output."""
    operands = [name for name in ("A", "B", "Input", "Filter") if f"{name}Tensor" in case.inputs]
    dtypes: dict[str, Any] = {name: case.inputs[f"{name}Tensor"].dtype for name in operands}
    if "OutputTensor" in case.outputs:
        dtypes["Output"] = np.dtype(case.outputs["OutputTensor"].dtype)
    return dtypes
