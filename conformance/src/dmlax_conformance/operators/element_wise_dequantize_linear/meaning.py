"""The meaning of ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from ...format.tensors import Tensor
from .._shared import floats
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.element_wise import broadcast, zero_points


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules."""
    x, scale = inputs["InputTensor"], inputs["ScaleTensor"]
    zero_point = inputs.get("ZeroPointTensor")
    return {"OutputTensor": element_wise_dequantize_linear(x, scale, zero_point)}


def element_wise_dequantize_linear(x: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
    """Return (x - zero_point) * scale, rounded once to the dtype of the scale."""
    rows = zip(x.words, broadcast(scale, x.sizes), zero_points(zero_point, x), strict=True)
    words = (
        floats.encode(
            floats.exactly((word - zero) * floats.decode(s, scale.dtype).value), scale.dtype
        )
        for word, s, zero in rows
    )
    return Tensor(scale.dtype, x.sizes, tuple(words))
