"""Plain `jax.numpy` and `jax.lax`, as a user would write the formulas of the pages."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from .base import Array, Case
from .common import channels, coordinates, known, one_value, refusals, versions, window_pairs, zero

REFUSALS = (TypeError, ValueError, ZeroDivisionError)
LAYOUTS = {3: ("NCW", "OIW", "NCW"), 4: ("NCHW", "OIHW", "NCHW")}


class Jnp:
    """Sums in int32, quantization in float32, which is what `jax.numpy` computes in.

    JAX narrows 64-bit arrays unless x64 is on; that is how `jax.numpy` answers, so it shows.
    """

    name = "jnp"
    concurrent = True
    variants: tuple[str, ...] = ("eager", "jit")

    def __init__(self) -> None:
        """Import JAX."""
        self._jax: Any = import_module("jax")
        self._np: Any = import_module("jax.numpy")
        self.versions = versions("jax", "jaxlib")
        self._calls: dict[str, Callable[[Case, Mapping[str, Any]], Any]] = {
            "nonzero_coordinates": self._nonzero,
            "quantized_linear_convolution": self._quantized,
            "convolution_integer": self._sums,
            "element_wise_quantize_linear": self._quantize,
            "element_wise_dequantize_linear": self._dequantize,
        }

    def run(self, case: Case, variant: str) -> Mapping[str, Any]:
        """Call eager or jitted, and decline what JAX refuses."""
        given = _parameters(case)

        def call(given: Mapping[str, Any]) -> Any:
            return known(self._calls, case)(case, given)

        with refusals(*REFUSALS), np.errstate(all="ignore"):
            traced = {name: self._np.asarray(array) for name, array in given.items()}
            answer = self._jax.jit(call)(traced) if variant == "jit" else call(traced)
        if case.operator != "nonzero_coordinates":
            return {"OutputTensor": answer}
        count, rows = answer
        return coordinates(case, rows, int(count))

    def _nonzero(self, case: Case, given: Mapping[str, Any]) -> Any:
        x, size = given["InputTensor"], case.outputs["OutputCoordinatesTensor"].sizes[-2]
        rows = self._np.nonzero(x, size=size)
        return self._np.count_nonzero(x), self._np.stack(rows, axis=-1)

    def _sums(self, case: Case, given: Mapping[str, Any]) -> Any:
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

    def _quantized(self, case: Case, given: Mapping[str, Any]) -> Any:
        sums = self._sums(case, given)
        per_channel = (-1, *[1] * (sums.ndim - 2))
        if "BiasTensor" in given:
            sums = sums + given["BiasTensor"].reshape(per_channel)
        scale = given["InputScaleTensor"] * given["FilterScaleTensor"].reshape(per_channel)
        quotient = sums.astype("float32") * (scale / given["OutputScaleTensor"])
        return self._clamped(case, self._np.round(quotient), given["OutputZeroPointTensor"])

    def _quantize(self, case: Case, given: Mapping[str, Any]) -> Any:
        x, scale = (given[name].astype("float32") for name in ("InputTensor", "ScaleTensor"))
        return self._clamped(case, self._np.round(x / scale), given["ZeroPointTensor"])

    def _dequantize(self, case: Case, given: Mapping[str, Any]) -> Any:
        names = ("InputTensor", "ZeroPointTensor", "ScaleTensor")
        x, zero_point, scale = (given[name].astype("float32") for name in names)
        return ((x - zero_point) * scale).astype(given["ScaleTensor"].dtype)

    def _clamped(self, case: Case, values: Any, zero_point: Any) -> Any:
        dtype = case.outputs["OutputTensor"].dtype
        limits = self._np.iinfo(dtype)
        shifted = values + zero_point.astype(values.dtype)
        return self._np.clip(shifted, limits.min, limits.max).astype(dtype)


def _parameters(case: Case) -> dict[str, Array]:
    """Return the inputs, parameters as scalars or vectors, and 0 for a missing zero point."""
    given = dict(case.inputs)
    own = {"InputTensor": "InputZeroPointTensor", "FilterTensor": "FilterZeroPointTensor"}
    if case.operator.startswith("element_wise"):
        x, result = case.inputs["InputTensor"].dtype, case.outputs["OutputTensor"].dtype
        dtype = result if case.operator == "element_wise_quantize_linear" else x
        return given | {"ZeroPointTensor": zero(case, "ZeroPointTensor", dtype)}
    if case.operator == "nonzero_coordinates":
        return given
    for tensor, name in own.items():
        given[name] = zero(case, name, case.inputs[tensor].dtype)
    result = case.outputs["OutputTensor"].dtype
    given["OutputZeroPointTensor"] = zero(case, "OutputZeroPointTensor", np.dtype(result))
    reshape = {name: channels for name in given if name.startswith(("Filter", "Bias"))}
    del reshape["FilterTensor"]
    reshape |= {n: one_value for n in given if n not in reshape and not n.endswith(_DATA)}
    return {name: reshape.get(name, np.asarray)(array) for name, array in given.items()}


_DATA = ("InputTensor", "FilterTensor")
