"""One door to the oracle: check the rules, then compute what was asked for."""

from collections.abc import Callable, Mapping
from typing import Any

from ..format.tensors import Tensor, count
from ..format.vectors import Request
from ._shared.convolution import Windows, accumulators, quantized_linear_convolution
from ._shared.element_wise import element_wise_dequantize_linear, element_wise_quantize_linear
from .nonzero_coordinates.meaning import nonzero_coordinates
from .rules import RULES

Attributes = Mapping[str, Any]
Inputs = Mapping[str, Tensor]
Outputs = Mapping[str, Request]
Answer = dict[str, Tensor]


def answer(operator: str, attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the output tensors, or raise `SpecViolation`."""
    RULES[operator](attributes, inputs, outputs)
    return compute(operator, attributes, inputs, outputs)


def compute(operator: str, attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the output tensors of a call that keeps the rules."""
    return _COMPUTE[operator](attributes, inputs, outputs)


def _nonzero(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Rows past the count are 0 here; nothing may depend on that."""
    sizes = outputs["OutputCoordinatesTensor"].sizes
    rows = nonzero_coordinates(inputs["InputTensor"], sizes[-1])
    words = [place for row in rows for place in row]
    words += [0] * (count(sizes) - len(words))
    return {
        "OutputCountTensor": Tensor("uint32", outputs["OutputCountTensor"].sizes, (len(rows),)),
        "OutputCoordinatesTensor": Tensor("uint32", sizes, tuple(words)),
    }


def _quantized(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    dtype = outputs["OutputTensor"].dtype
    return {
        "OutputTensor": quantized_linear_convolution(inputs, Windows.of(attributes), dtype),
    }


def _integer(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    sizes, sums = accumulators(inputs, Windows.of(attributes))
    return {"OutputTensor": Tensor("int32", sizes, tuple(sums))}


def _quantize(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    x, scale = inputs["InputTensor"], inputs["ScaleTensor"]
    dtype, zero_point = outputs["OutputTensor"].dtype, inputs.get("ZeroPointTensor")
    return {"OutputTensor": element_wise_quantize_linear(x, scale, zero_point, dtype)}


def _dequantize(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    x, scale = inputs["InputTensor"], inputs["ScaleTensor"]
    zero_point = inputs.get("ZeroPointTensor")
    return {"OutputTensor": element_wise_dequantize_linear(x, scale, zero_point)}


_COMPUTE: dict[str, Callable[[Attributes, Inputs, Outputs], Answer]] = {
    "nonzero_coordinates": _nonzero,
    "quantized_linear_convolution": _quantized,
    "convolution_integer": _integer,
    "element_wise_quantize_linear": _quantize,
    "element_wise_dequantize_linear": _dequantize,
}
