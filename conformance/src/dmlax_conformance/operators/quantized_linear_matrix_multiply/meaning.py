"""The meaning of QUANTIZED_LINEAR_MATRIX_MULTIPLY."""

from ...format.tensors import Tensor
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.matmul import products, repeat, scale_of
from .._shared.rounding import requantize


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules."""
    shape, sums = products(inputs)
    dtype = outputs["OutputTensor"].dtype
    bias = repeat(inputs.get("BiasTensor"), shape.output)
    zero_points = repeat(inputs.get("OutputZeroPointTensor"), shape.whole)
    names = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")
    scales = zip(*(scale_of(inputs, name, shape.whole) for name in names), strict=True)
    words = (
        requantize(total + addend, own, zero_point, dtype)
        for total, addend, own, zero_point in zip(sums, bias, scales, zero_points, strict=True)
    )
    return {"OutputTensor": Tensor(dtype, shape.output, tuple(words))}
