"""The library `dmlax`, eager with NumPy arrays and jitted with traced ones."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from .base import Array, Case, SpecViolation, Unsupported

WIDE = {"int64", "uint64", "float64"}
WINDOWS = {
    "Strides": "strides",
    "Dilations": "dilations",
    "StartPadding": "start_padding",
    "EndPadding": "end_padding",
    "GroupCount": "group_count",
}
PARAMETERS = {
    "InputScaleTensor": "input_scale",
    "FilterScaleTensor": "filter_scale",
    "OutputScaleTensor": "output_scale",
    "InputZeroPointTensor": "input_zero_point",
    "FilterZeroPointTensor": "filter_zero_point",
    "OutputZeroPointTensor": "output_zero_point",
}
Operands = Mapping[str, Any]
Call = Callable[[Operands], Mapping[str, Any]]


class Dmlax:
    """Imports `dmlax` only when built, so that the suite installs without it."""

    name = "dmlax"
    concurrent = True
    variants: tuple[str, ...] = ("eager", "jit")

    def __init__(self) -> None:
        """Import the library and JAX."""
        self._library: Any = import_module("dmlax")
        self._jax: Any = import_module("jax")
        self._calls = {
            "nonzero_coordinates": self._nonzero,
            "quantized_linear_convolution": self._quantized,
            "convolution_integer": self._integer,
            "element_wise_quantize_linear": self._quantize,
            "element_wise_dequantize_linear": self._dequantize,
        }

    def run(self, case: Case, variant: str) -> Mapping[str, Any]:
        """Call the operator, and translate what it raises."""
        if variant == "jit" or case.operator != "nonzero_coordinates":
            self._expect_representable(case)
        call = self._calls[case.operator](case)
        try:
            return call(case.inputs) if variant == "eager" else self._jitted(case, call)
        except self._library.SpecError as error:
            raise SpecViolation(error.code, error.field, str(error)) from error
        except self._library.UnsupportedError as error:
            raise Unsupported(str(error)) from error

    def _expect_representable(self, case: Case) -> None:
        """JAX narrows 64-bit arrays before an operator sees them, unless x64 is on."""
        if not self._jax.config.jax_enable_x64 and WIDE & _dtypes(case):
            raise Unsupported("JAX has no 64-bit elements while x64 is off")

    def _jitted(self, case: Case, call: Call) -> Mapping[str, Any]:
        """Trace every tensor, except the scales of a case about values known beforehand."""
        known = {
            name: array
            for name, array in case.inputs.items()
            if "values:known" in case.requires and name.endswith("ScaleTensor")
        }
        traced = {name: array for name, array in case.inputs.items() if name not in known}
        outputs: Mapping[str, Any] = self._jax.jit(lambda given: call({**known, **given}))(traced)
        return outputs

    def _nonzero(self, case: Case) -> Call:
        *_, size, rank = case.outputs["OutputCoordinatesTensor"].sizes

        def call(given: Operands) -> Mapping[str, Any]:
            count, rows = self._library.nonzero_coordinates(
                given["InputTensor"], size=size, coordinate_rank=rank
            )
            return {
                "OutputCountTensor": _reshaped(case, "OutputCountTensor", count, ()),
                "OutputCoordinatesTensor": _reshaped(
                    case, "OutputCoordinatesTensor", rows, (size, rank)
                ),
            }

        return call

    def _quantized(self, case: Case) -> Call:
        options = _window_options(case) | {"output_dtype": case.outputs["OutputTensor"].dtype}
        function = self._library.quantized_linear_convolution
        return lambda given: {
            "OutputTensor": function(
                given["InputTensor"],
                given["FilterTensor"],
                given.get("BiasTensor"),
                **_parameters(given),
                **options,
            )
        }

    def _integer(self, case: Case) -> Call:
        options = _window_options(case)
        function = self._library.convolution_integer
        return lambda given: {
            "OutputTensor": function(
                given["InputTensor"], given["FilterTensor"], **_parameters(given), **options
            )
        }

    def _quantize(self, case: Case) -> Call:
        dtype = case.outputs["OutputTensor"].dtype
        function = self._library.element_wise_quantize_linear
        return lambda given: {"OutputTensor": function(*_element_wise(given), output_dtype=dtype)}

    def _dequantize(self, case: Case) -> Call:
        function = self._library.element_wise_dequantize_linear
        return lambda given: {"OutputTensor": function(*_element_wise(given))}


def _dtypes(case: Case) -> set[str]:
    return {array.dtype.name for array in case.inputs.values()}


def _reshaped(case: Case, name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """Give an output of the documented shape the sizes that were asked for."""
    return value.reshape(case.outputs[name].sizes) if value.shape == shape else value


def _window_options(case: Case) -> dict[str, Any]:
    options = {keyword: case.attributes[field] for field, keyword in WINDOWS.items()}
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    if case.inputs["InputTensor"].ndim == 3:
        options["dimension_numbers"] = ("NCW", "OIW", "NCW")
    return options


def _parameters(given: Operands) -> dict[str, Any]:
    return {keyword: given[name] for name, keyword in PARAMETERS.items() if name in given}


def _element_wise(given: Operands) -> tuple[Array | None, ...]:
    return given["InputTensor"], given["ScaleTensor"], given.get("ZeroPointTensor")
