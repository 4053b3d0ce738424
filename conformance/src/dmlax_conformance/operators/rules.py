"""The rules that a call must keep, one function per operator; the first one broken is raised."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import SpecViolation
from ..format.tensors import Tensor
from ..format.vectors import Request
from ._shared import floats
from ._shared.convolution import Windows
from .nonzero_coordinates.meaning import effective_rank

Inputs = Mapping[str, Tensor]
Outputs = Mapping[str, Request]
Rule = Callable[[Mapping[str, Any], Inputs, Outputs], None]

EIGHT_BIT = ("int8", "uint8")
WHOLE = tuple(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32))
COUNTED = ("bool", *WHOLE, "int64", "uint64", "float16", "float32", "float64")


def nonzero_coordinates(attributes: Mapping[str, Any], inputs: Inputs, outputs: Outputs) -> None:
    """Check dtype and rank of the input, and the width of a coordinate."""
    x = inputs["InputTensor"]
    _data_type(inputs, "InputTensor", COUNTED)
    _need(len(x.sizes) >= 1, "dimension_count", "InputTensor")
    width = outputs["OutputCoordinatesTensor"].sizes[-1]
    lowest = max(effective_rank(x.sizes), 1)
    _need(lowest <= width <= len(x.sizes), "sizes", "OutputCoordinatesTensor")


def convolution_integer(attributes: Mapping[str, Any], inputs: Inputs, outputs: Outputs) -> None:
    """Check both tensors, their zero points and the windows."""
    _data_type(inputs, "InputTensor", EIGHT_BIT)
    _data_type(inputs, "FilterTensor", EIGHT_BIT)
    _same_data_type(inputs, "InputZeroPointTensor", inputs["InputTensor"].dtype)
    _same_data_type(inputs, "FilterZeroPointTensor", inputs["FilterTensor"].dtype)
    _ranks(inputs)
    _windows(attributes, len(inputs["InputTensor"].sizes) - 2)
    _channels(attributes["GroupCount"], inputs)
    _fits(attributes, inputs)
    _lengths(inputs, "InputZeroPointTensor", 1)
    _lengths(inputs, "FilterZeroPointTensor", 1, inputs["FilterTensor"].sizes[0])


def quantized_linear_convolution(
    attributes: Mapping[str, Any], inputs: Inputs, outputs: Outputs
) -> None:
    """Check what an integer convolution checks, then scales, bias and output."""
    convolution_integer(attributes, inputs, outputs)
    scales = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
    for name in scales:
        _data_type(inputs, name, ("float32",))
    _same_data_type(inputs, "BiasTensor", "int32")
    _need(outputs["OutputTensor"].dtype in EIGHT_BIT, "data_type", "OutputTensor")
    _same_data_type(inputs, "OutputZeroPointTensor", outputs["OutputTensor"].dtype)
    channels = inputs["FilterTensor"].sizes[0]
    for name in ("InputScaleTensor", "OutputScaleTensor", "OutputZeroPointTensor"):
        _lengths(inputs, name, 1)
    _lengths(inputs, "FilterScaleTensor", 1, channels)
    _lengths(inputs, "BiasTensor", channels)
    for name in scales:
        _scale_values(inputs, name)


def element_wise_quantize_linear(
    attributes: Mapping[str, Any], inputs: Inputs, outputs: Outputs
) -> None:
    """Check dtypes, then that both parameters broadcast to the input."""
    _data_type(inputs, "InputTensor", ("float32", "float16", "int32"))
    dtype = inputs["InputTensor"].dtype
    _data_type(inputs, "ScaleTensor", ("float32" if dtype == "int32" else dtype,))
    _need(outputs["OutputTensor"].dtype in EIGHT_BIT, "data_type", "OutputTensor")
    _same_data_type(inputs, "ZeroPointTensor", outputs["OutputTensor"].dtype)
    _parameters(inputs)


def element_wise_dequantize_linear(
    attributes: Mapping[str, Any], inputs: Inputs, outputs: Outputs
) -> None:
    """Check dtypes, then that both parameters broadcast to the input."""
    _data_type(inputs, "InputTensor", WHOLE)
    _data_type(inputs, "ScaleTensor", ("float32", "float16"))
    _same_data_type(inputs, "ZeroPointTensor", inputs["InputTensor"].dtype)
    _parameters(inputs)


RULES: dict[str, Rule] = {
    "nonzero_coordinates": nonzero_coordinates,
    "quantized_linear_convolution": quantized_linear_convolution,
    "convolution_integer": convolution_integer,
    "element_wise_quantize_linear": element_wise_quantize_linear,
    "element_wise_dequantize_linear": element_wise_dequantize_linear,
}


def _need(condition: bool, code: str, field: str) -> None:
    if not condition:
        raise SpecViolation(code, field)


def _data_type(inputs: Inputs, name: str, allowed: Iterable[str]) -> None:
    _need(inputs[name].dtype in allowed, "data_type", name)


def _same_data_type(inputs: Inputs, name: str, dtype: str) -> None:
    if name in inputs:
        _data_type(inputs, name, (dtype,))


def _ranks(inputs: Inputs) -> None:
    rank = len(inputs["InputTensor"].sizes)
    _need(rank in (3, 4), "dimension_count", "InputTensor")
    _need(len(inputs["FilterTensor"].sizes) == rank, "dimension_count", "FilterTensor")


def _windows(attributes: Mapping[str, Any], spatial: int) -> None:
    lowest = {"Strides": 1, "Dilations": 1, "StartPadding": 0, "EndPadding": 0}
    for name, low in lowest.items():
        entries = attributes[name]
        _need(len(entries) == spatial and min(entries) >= low, "option", name)
    _need(attributes["GroupCount"] >= 1, "option", "GroupCount")


def _channels(groups: int, inputs: Inputs) -> None:
    outputs, per_group = inputs["FilterTensor"].sizes[:2]
    _need(inputs["InputTensor"].sizes[1] == per_group * groups, "sizes", "FilterTensor")
    _need(outputs % groups == 0, "sizes", "GroupCount")


def _fits(attributes: Mapping[str, Any], inputs: Inputs) -> None:
    image, kernel = (inputs[name].sizes[2:] for name in ("InputTensor", "FilterTensor"))
    sizes = Windows.of(attributes).output_sizes(image, kernel)
    _need(min(sizes) >= 1, "sizes", "FilterTensor")


def _lengths(inputs: Inputs, name: str, *allowed: int) -> None:
    """Allow one value in any shape of ones, or one per channel in {K}, {1,K} or {1,K,1,1}."""
    if name not in inputs:
        return
    sizes = inputs[name].sizes
    long = [size for size in sizes if size != 1]
    _need(len(long) <= 1 and (long or [1])[0] in allowed, "sizes", name)


def _parameters(inputs: Inputs) -> None:
    for name in ("ScaleTensor", "ZeroPointTensor"):
        if name in inputs:
            _broadcasts(inputs[name].sizes, inputs["InputTensor"].sizes, name)
    _scale_values(inputs, "ScaleTensor")


def _broadcasts(sizes: tuple[int, ...], target: tuple[int, ...], name: str) -> None:
    _need(len(sizes) <= len(target), "sizes", name)
    pairs = zip(reversed(sizes), reversed(target), strict=False)
    _need(all(size in (1, wanted) for size, wanted in pairs), "sizes", name)


def _scale_values(inputs: Inputs, name: str) -> None:
    for word in inputs[name].words:
        number = floats.decode(word, inputs[name].dtype)
        _need(number.kind == "finite" and not number.is_zero, "value", name)
