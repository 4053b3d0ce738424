"""The meaning of DYNAMIC_QUANTIZE_LINEAR."""

from fractions import Fraction

from ...format.tensors import Tensor
from .._shared import floats
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.floats import NAN, Real, exactly, round_half_even
from .._shared.rounding import RANGES, clamp, quantize

STEPS = 255


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the quantized input, its scale and its zero point; all 0 or NaN where open."""
    x, dtype = inputs["InputTensor"], outputs["OutputTensor"].dtype
    known = {word: floats.decode(word, x.dtype) for word in set(x.words)}
    scale, point, found = NAN, 0, dict.fromkeys(known, 0)
    if all(number.kind == "finite" for number in known.values()):
        scale, point = parameters([number.value for number in known.values()], dtype)
        found = {w: quantize(number, scale.value, point, dtype) for w, number in known.items()}
    sizes = {name: asked.sizes for name, asked in outputs.items()}
    word = floats.encode(scale, "float32")
    return {
        "OutputTensor": Tensor(dtype, x.sizes, tuple(found[word] for word in x.words)),
        "OutputScaleTensor": Tensor("float32", sizes["OutputScaleTensor"], (word,)),
        "OutputZeroPointTensor": Tensor(dtype, sizes["OutputZeroPointTensor"], (point,)),
    }


def parameters(values: list[Fraction], dtype: str) -> tuple[Real, int]:
    """Return the scale, and the zero point that goes with the rounded scale."""
    low, high = min([Fraction(0), *values]), max([Fraction(0), *values])
    scale = floats.nearest(exactly((high - low) / STEPS), "float32")
    if scale.is_zero:
        scale = exactly(Fraction(1))
    return scale, clamp(round_half_even(RANGES[dtype][0] - low / scale.value), dtype)


def quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> list[tuple[Real, int]]:
    """Return the exact quotient of each element, and the zero point; NaN where all is open."""
    x, dtype = inputs["InputTensor"], outputs["OutputTensor"].dtype
    numbers = [floats.decode(word, x.dtype) for word in x.words]
    if any(number.kind != "finite" for number in numbers):
        return [(NAN, 0)] * len(numbers)
    scale, point = parameters([number.value for number in numbers], dtype)
    return [(exactly(number.value / scale.value), point) for number in numbers]
