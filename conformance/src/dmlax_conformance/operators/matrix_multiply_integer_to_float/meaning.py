"""The meaning of MATRIX_MULTIPLY_INTEGER_TO_FLOAT."""

from fractions import Fraction

from ...format.tensors import Tensor
from .._shared import floats
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.floats import Real
from .._shared.matmul import products, repeat, scale_of


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the output of a call that keeps the rules."""
    shape, sums = products(inputs)
    asked, bias = outputs["OutputTensor"], inputs.get("BiasTensor")
    scales = (scale_of(inputs, name, shape.whole) for name in ("AScaleTensor", "BScaleTensor"))
    held = asked.dtype if bias is None else bias.dtype
    addends = (floats.decode(word, held) for word in repeat(bias, shape.output))
    words = (
        floats.encode(add(total * sa * sb, addend), asked.dtype)
        for total, sa, sb, addend in zip(sums, *scales, addends, strict=True)
    )
    return {"OutputTensor": Tensor(asked.dtype, shape.output, tuple(words))}


def add(product: Fraction, addend: Real) -> Real:
    """Return the exact sum, whose zero is positive; NaN and infinities pass through."""
    return floats.exactly(product + addend.value) if addend.kind == "finite" else addend
