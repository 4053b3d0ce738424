"""The meaning of ELEMENT_WISE_QUANTIZE_LINEAR."""

from fractions import Fraction

from ...format.tensors import DTYPES, Tensor
from .._shared import floats
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.element_wise import broadcast, zero_points
from .._shared.rounding import quantize


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules."""
    x, scale = inputs["InputTensor"], inputs["ScaleTensor"]
    dtype, zero_point = outputs["OutputTensor"].dtype, inputs.get("ZeroPointTensor")
    return {"OutputTensor": element_wise_quantize_linear(x, scale, zero_point, dtype)}


def element_wise_quantize_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None, dtype: str
) -> Tensor:
    """Return clamp(round(x / scale) + zero_point)."""
    rows = zip(x.words, broadcast(scale, x.sizes), zero_points(zero_point, x), strict=True)
    words = (
        quantize(_real(word, x.dtype), floats.decode(s, scale.dtype).value, zero, dtype)
        for word, s, zero in rows
    )
    return Tensor(dtype, x.sizes, tuple(words))


def _real(word: int, dtype: str) -> floats.Real:
    if DTYPES[dtype].kind == "bits":
        return floats.decode(word, dtype)
    return floats.exactly(Fraction(word))
