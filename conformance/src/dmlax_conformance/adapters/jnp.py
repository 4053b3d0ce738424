"""Plain `jax.numpy` and `jax.lax`, as a user would write the formulas of the pages."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from .base import Array, Case
from .common import (
    Library,
    addition_to,
    channels,
    convolution_of,
    of_product,
    one_value,
    window_pairs,
    zero,
)

LAYOUTS = {3: ("NCW", "OIW", "NCW"), 4: ("NCHW", "OIHW", "NCHW")}


class Jnp(Library):
    """Sums in int32, quantization in float32, which is what `jax.numpy` computes in.

    JAX narrows 64-bit arrays unless x64 is on; that is how `jax.numpy` answers, so it shows.
    """

    name = "jnp"
    variants = ("eager", "jit")
    packages = ("jax", "jaxlib")
    refusals = (TypeError, ValueError, ZeroDivisionError)

    def __init__(self) -> None:
        """Import JAX."""
        self._jax: Any = import_module("jax")
        self._np: Any = import_module("jax.numpy")
        super().__init__()

    def computed(self, call: Callable[..., Any], case: Case, variant: str) -> Any:
        """Call eager or jitted."""
        traced = {name: self._np.asarray(array) for name, array in _parameters(case).items()}
        call = partial(call, case)
        return self._jax.jit(call)(traced) if variant == "jit" else call(traced)

    def nonzero_coordinates(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Return the rows and their number."""
        x, size = given["InputTensor"], case.outputs["OutputCoordinatesTensor"].sizes[-2]
        rows = self._np.nonzero(x, size=size)
        return self._np.stack(rows, axis=-1), self._np.count_nonzero(x)

    def convolution_integer(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Return the integer convolution."""
        x, w = (given[name] for name in ("InputTensor", "FilterTensor"))
        per_filter = (-1, *[1] * (w.ndim - 1))
        filter_zero_point = given["FilterZeroPointTensor"].reshape(per_filter)
        return self._jax.lax.conv_general_dilated(
            x.astype("int32") - given["InputZeroPointTensor"].astype("int32"),
            w.astype("int32") - filter_zero_point.astype("int32"),
            window_strides=case.attributes["Strides"],
            padding=window_pairs(case),
            rhs_dilation=case.attributes["Dilations"],
            dimension_numbers=LAYOUTS.get(x.ndim),
            feature_group_count=case.attributes["GroupCount"],
            preferred_element_type="int32",
        )

    def quantized_linear_convolution(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Scale the sums, round and clamp."""
        sums = self.convolution_integer(case, given)
        per_channel = (-1, *[1] * (sums.ndim - 2))
        if "BiasTensor" in given:
            sums = sums + given["BiasTensor"].reshape(per_channel)
        scale = given["InputScaleTensor"] * given["FilterScaleTensor"].reshape(per_channel)
        quotient = sums.astype("float32") * (scale / given["OutputScaleTensor"])
        return self._clamped(case, self._np.round(quotient), given["OutputZeroPointTensor"])

    def quantized_linear_convolution_add(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Convolve, round and clamp, then add."""
        case = replace(case, inputs=given)
        convolution = convolution_of(case)
        convolved = self.quantized_linear_convolution(convolution, _parameters(convolution))
        addition = addition_to(case, convolved)
        return self.element_wise_quantized_linear_add(addition, _parameters(addition))

    def element_wise_quantize_linear(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Divide, round and clamp."""
        x, scale = (given[name].astype("float32") for name in ("InputTensor", "ScaleTensor"))
        return self._clamped(case, self._np.round(x / scale), given["ZeroPointTensor"])

    def element_wise_dequantize_linear(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Subtract and multiply."""
        names = ("InputTensor", "ZeroPointTensor", "ScaleTensor")
        x, zero_point, scale = (given[name].astype("float32") for name in names)
        return ((x - zero_point) * scale).astype(given["ScaleTensor"].dtype)

    def element_wise_quantized_linear_add(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Add what both stand for."""
        return self._quantized(case, given, self._real(given, "A") + self._real(given, "B"))

    def element_wise_quantized_linear_multiply(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Multiply what both stand for."""
        return self._quantized(case, given, self._real(given, "A") * self._real(given, "B"))

    def _real(self, given: Mapping[str, Any], name: str) -> Any:
        point = given[f"{name}ZeroPointTensor"].astype("int32")
        difference = given[f"{name}Tensor"].astype("int32") - point
        return difference.astype("float32") * given[f"{name}ScaleTensor"]

    def _quantized(self, case: Case, given: Mapping[str, Any], values: Any) -> Any:
        rounded = self._np.round(values / given["OutputScaleTensor"])
        return self._clamped(case, rounded, given["OutputZeroPointTensor"])

    def quantized_lookup(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Take entries."""
        x = given["InputTensor"]
        places = x.astype("int32") - self._np.iinfo(x.dtype).min
        return self._np.take(given["TableTensor"], places)

    def dynamic_quantize_linear(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Find the range, then quantize."""
        x, dtype = given["InputTensor"].astype("float32"), case.outputs["OutputTensor"].dtype
        low, high = (find(x, initial=0) for find in (self._np.min, self._np.max))
        scale = (high - low) / 255
        scale = self._np.where(scale == 0, 1, scale)
        limits = self._np.iinfo(dtype)
        point = self._np.clip(limits.min - low / scale, limits.min, limits.max)
        point = self._np.round(point).astype(dtype)
        return self._clamped(case, self._np.round(x / scale), point), scale, point

    def quantized_linear_average_pooling(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Add up windows, divide, round and clamp."""
        x, options = given["InputTensor"], case.attributes
        centred = x.astype("int32") - given["InputZeroPointTensor"].astype("int32")
        sums = self._reduced(case, centred, 0, self._jax.lax.add)
        ones = self._np.ones(x.shape, "int32")
        counts = self._np.prod(self._np.array(options["WindowSize"]))
        counts = (
            counts if options["IncludePadding"] else self._reduced(case, ones, 0, self._jax.lax.add)
        )
        return self._mean(case, given, sums, self._np.maximum(counts, 1))

    def quantized_linear_global_average_pooling(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Add up images, divide, round and clamp."""
        x = given["InputTensor"]
        centred = x.astype("int32") - given["InputZeroPointTensor"].astype("int32")
        axes = tuple(range(2, x.ndim))
        count = self._np.prod(self._np.array(x.shape[2:]))
        return self._mean(case, given, centred.sum(axes, keepdims=True), count)

    def max_pooling(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Return the largest element of each window."""
        x = given["InputTensor"]
        lowest = self._np.iinfo(x.dtype).min
        return self._reduced(case, x, self._np.array(lowest, x.dtype), self._jax.lax.max)

    def _mean(self, case: Case, given: Mapping[str, Any], sums: Any, counts: Any) -> Any:
        mean = sums.astype("float32") * given["InputScaleTensor"] / counts
        quotient = mean / given["OutputScaleTensor"]
        return self._clamped(case, self._np.round(quotient), given["OutputZeroPointTensor"])

    def _reduced(self, case: Case, x: Any, start: Any, operation: Any) -> Any:
        options = case.attributes
        ones, pairs = (1, 1), [(0, 0), (0, 0), *window_pairs(case)]
        windows = [(*ones, *options[name]) for name in ("WindowSize", "Strides")]
        dilations = (*ones, *options["Dilations"])
        return self._jax.lax.reduce_window(
            x, start, operation, *windows, pairs, window_dilation=dilations
        )

    def matrix_multiply_integer(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Subtract the zero points and multiply in int32."""
        a, b = (
            given[f"{name}Tensor"].astype("int32") - given[f"{name}ZeroPointTensor"].astype("int32")
            for name in "AB"
        )
        return self._np.matmul(a, b)

    def quantized_linear_matrix_multiply(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Scale the sums, round and clamp."""
        sums = self.matrix_multiply_integer(case, given)
        sums = sums + given["BiasTensor"] if "BiasTensor" in given else sums
        scale = given["AScaleTensor"] * given["BScaleTensor"] / given["OutputScaleTensor"]
        rounded = self._np.round(sums.astype("float32") * scale)
        return self._clamped(case, rounded, given["OutputZeroPointTensor"])

    def matrix_multiply_integer_to_float(self, case: Case, given: Mapping[str, Any]) -> Any:
        """Scale the sums and add the bias."""
        sums = self.matrix_multiply_integer(case, given).astype("float32")
        scaled = sums * (given["AScaleTensor"] * given["BScaleTensor"])
        scaled = scaled + given["BiasTensor"] if "BiasTensor" in given else scaled
        return scaled.astype(case.outputs["OutputTensor"].dtype)

    def _clamped(self, case: Case, values: Any, zero_point: Any) -> Any:
        dtype = case.outputs["OutputTensor"].dtype
        limits = self._np.iinfo(dtype)
        shifted = values + zero_point.astype(values.dtype)
        return self._np.clip(shifted, limits.min, limits.max).astype(dtype)


def _parameters(case: Case) -> dict[str, Array]:
    """Return the inputs, parameters as scalars or vectors, and 0 for a missing zero point."""
    given = dict(case.inputs)
    own = {"InputTensor": "InputZeroPointTensor", "FilterTensor": "FilterZeroPointTensor"}
    if "matrix_multiply" in case.operator:
        return _of_product(case)
    if "ATensor" in given:
        dtypes = {name: given[f"{name}Tensor"].dtype for name in ("A", "B")}
        dtypes["Output"] = np.dtype(case.outputs["OutputTensor"].dtype)
        for name, kind in dtypes.items():
            point, scale = f"{name}ZeroPointTensor", f"{name}ScaleTensor"
            given |= {point: one_value(zero(case, point, kind)), scale: one_value(given[scale])}
        return given
    if case.operator.startswith("element_wise"):
        x, result = case.inputs["InputTensor"].dtype, case.outputs["OutputTensor"].dtype
        dtype = result if case.operator == "element_wise_quantize_linear" else x
        return given | {"ZeroPointTensor": zero(case, "ZeroPointTensor", dtype)}
    if case.operator in _AS_GIVEN:
        return given
    if case.operator.endswith("average_pooling"):
        return _of_average(case)
    for tensor, name in own.items():
        given[name] = zero(case, name, case.inputs[tensor].dtype)
    result = case.outputs["OutputTensor"].dtype
    given["OutputZeroPointTensor"] = zero(case, "OutputZeroPointTensor", np.dtype(result))
    reshape = {name: channels for name in given if name.startswith(("Filter", "Bias"))}
    del reshape["FilterTensor"]
    reshape |= {n: one_value for n in given if n not in reshape and not n.endswith(_DATA)}
    return given | {name: shape(given[name]) for name, shape in reshape.items()}


def _of_average(case: Case) -> dict[str, Array]:
    """Return the inputs, parameters as scalars or along axis 1, and 0 for a missing zero point."""
    x, given = case.inputs["InputTensor"], dict(case.inputs)
    types = {"Input": x.dtype, "Output": np.dtype(case.outputs["OutputTensor"].dtype)}
    for end, dtype in types.items():
        for name in (f"{end}ScaleTensor", f"{end}ZeroPointTensor"):
            own = channels(zero(case, name, dtype))
            given[name] = own.reshape(-1, *[1] * (x.ndim - 2)) if own.ndim == 1 else own
    return given


def _of_product(case: Case) -> dict[str, Array]:
    """Return the inputs of a matrix product, with every zero point."""
    given = dict(case.inputs)
    held = {name: given[f"{name}Tensor"].dtype for name in "AB"}
    held["Output"] = np.dtype(case.outputs["OutputTensor"].dtype)
    for name, dtype in held.items():
        point = f"{name}ZeroPointTensor"
        given[point] = of_product(case, name, zero(case, point, dtype))
        if f"{name}ScaleTensor" in given:
            given[f"{name}ScaleTensor"] = of_product(case, "Output", given[f"{name}ScaleTensor"])
    return given


_DATA = ("InputTensor", "FilterTensor")
_AS_GIVEN = (
    "nonzero_coordinates",
    "max_pooling",
    "quantized_lookup",
    "dynamic_quantize_linear",
    "quantized_linear_convolution_add",
)
