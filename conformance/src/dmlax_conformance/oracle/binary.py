"""Sum and product of two quantized tensors that broadcast."""

import operator as arithmetic
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ..format.tensors import Tensor
from . import exact, fixed_point
from . import operator as rules
from .element_wise import broadcast
from .exact import Real, exactly, rounded
from .operator import Answer, Attributes, Definition, Desc, DescSizes, Found, Inputs, Outputs

TENSORS = ("ATensor", "BTensor", "OutputTensor")
SCALES = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")
POINTS = ("AZeroPointTensor", "BZeroPointTensor", "OutputZeroPointTensor")
TYPES = dict(zip(POINTS, TENSORS, strict=True))
Combine = Callable[[Fraction, Fraction], Fraction]
Quotients = list[tuple[Real, int]]


def add(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return clamp(round((a + b) / output scale) + output zero point) of dequantized tensors.

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_quantized_linear_add_operator_desc
    """
    if fixed_point.FIELD in attributes:
        return _requantized(fixed_point.added, attributes, inputs, outputs)
    return _rounded(add_quotients(attributes, inputs, outputs), inputs, outputs)


def multiply(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return clamp(round(a * b / output scale) + output zero point) of dequantized tensors.

    DirectML lacks the function; it is ONNX Runtime's QLinearMul:
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearMul
    """
    if fixed_point.FIELD in attributes:
        return _requantized(fixed_point.multiplied, attributes, inputs, outputs)
    return _rounded(multiply_quotients(attributes, inputs, outputs), inputs, outputs)


def add_quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Quotients:
    """Return the exact quotient of each element of the sum, and its zero point."""
    return _quotients(arithmetic.add, inputs)


def multiply_quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Quotients:
    """Return the exact quotient of each element of the product, and its zero point."""
    return _quotients(arithmetic.mul, inputs)


def _requantized(
    combine: Callable[..., int], attributes: Attributes, inputs: Inputs, outputs: Outputs
) -> Answer:
    """Return the sum or the product by multipliers."""
    (sa, za), (sb, zb), (sy, zy) = (_parameters(inputs, name) for name in ("A", "B", "Output"))
    dtype, mode = outputs["OutputTensor"].dtype, attributes[fixed_point.FIELD]
    words = (
        exact.clamp(combine(x - za, y - zb, (sa, sb, sy), mode) + zy, dtype)
        for x, y in _pairs(inputs)
    )
    return {"OutputTensor": Tensor(dtype, _sizes(inputs), tuple(words))}


def _sizes(inputs: Inputs) -> rules.Sizes:
    """Return the sizes to which both tensors repeat."""
    return np.broadcast_shapes(inputs["ATensor"].sizes, inputs["BTensor"].sizes)


def _pairs(inputs: Inputs) -> list[tuple[int, int]]:
    """Return the elements that meet."""
    both = (broadcast(inputs[name], _sizes(inputs)) for name in ("ATensor", "BTensor"))
    return list(zip(*both, strict=True))


def _quotients(combine: Combine, inputs: Inputs) -> Quotients:
    (sa, za), (sb, zb), (sy, zy) = (_parameters(inputs, name) for name in ("A", "B", "Output"))
    pairs = _pairs(inputs)
    quotients = {
        (x, y): (exactly(combine((x - za) * sa, (y - zb) * sb) / sy), zy) for x, y in set(pairs)
    }
    return [quotients[pair] for pair in pairs]


def _rounded(quotients: Quotients, inputs: Inputs, outputs: Outputs) -> Answer:
    dtype = outputs["OutputTensor"].dtype
    return {"OutputTensor": Tensor(dtype, _sizes(inputs), rounded(quotients, dtype))}


def _parameters(inputs: Inputs, name: str) -> tuple[Fraction, int]:
    """Return the scale and the zero point of a tensor; a missing one is 0."""
    scale, zero_point = inputs[f"{name}ScaleTensor"], inputs.get(f"{name}ZeroPointTensor")
    value = exact.decode(scale.words[0], scale.dtype).value
    return value, 0 if zero_point is None else zero_point.words[0]


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check data types and dimensions, then that both tensors repeat, then the parameters."""
    rules.data_type(inputs, rules.EIGHT_BIT, "ATensor", "BTensor")
    rules.data_type(inputs, ("float32",), *SCALES)
    dtype = outputs["OutputTensor"].dtype
    rules.need(dtype in rules.EIGHT_BIT, "data_type", "OutputTensor")
    dtypes = {name: tensor.dtype for name, tensor in inputs.items()} | {"OutputTensor": dtype}
    for name, tensor in TYPES.items():
        rules.same_data_type(inputs, name, dtypes[tensor])
    for name in ("ATensor", "BTensor"):
        rules.dimensions(inputs, name)
    rules.repeat(inputs["ATensor"].sizes, inputs["BTensor"].sizes, "BTensor")
    rules.lengths(inputs, (1,), *SCALES, *POINTS)
    rules.scale_values(inputs, *SCALES)


def _check_desc(desc: Desc, feature_level: str) -> Found:
    yield from rules.same_types(desc, TYPES)
    others = (name for name in desc if name != "ATensor")
    yield from rules.same_counts(desc, *others, first="ATensor")
    yield from rules.same_sizes(desc, "BTensor", "OutputTensor", first="ATensor")
    yield from rules.all_ones(desc, *SCALES, *POINTS)


def _desc_sizes(inputs: Inputs, outputs: Outputs) -> DescSizes:
    """Return the output's sizes for both tensors, and as many sizes of 1 for each parameter."""
    parameters = dict.fromkeys((*SCALES, *POINTS), (1,) * len(_sizes(inputs)))
    return dict.fromkeys(("ATensor", "BTensor"), _sizes(inputs)) | parameters


_TABLE = tuple(
    line
    for name in ("A", "B", "Output")
    for line in rules.quantized_rows(name, (1, 8), (1, 8), (1, 8))
)


_ADD = """
ADD-1 (result): The result is clamp(round((a + b) / output scale) + output zero point) in real
  arithmetic, where a and b are (tensor - zero point) * scale.
ADD-2 (result): Rounding is to nearest, ties to even, and comes before the output zero point.
ADD-3 (result): The result is clamped to the full range of the output data type.
ADD-4: A, B and the output are INT8 or UINT8, each on its own, as is the zero point of each; scales
  are FLOAT32.
ADD-5: A and B repeat along sizes of 1 and missing leading sizes to the sizes of the output.
ADD-6: A scale or zero point is one value, in any shape of one element.
ADD-7: A scale is finite and not zero.
ADD-8 (absent): A missing zero point is 0.
ADD-9: A and B have at most 8 dimensions.
"""

_MODES = fixed_point.SINGLE, fixed_point.DOUBLE
ADD = Definition(
    add,
    check,
    _ADD + fixed_point.clauses("ADD", 10, _MODES),
    {"4_0": _TABLE},
    desc_clauses={
        **rules.type_clauses(TYPES),
        "same-dimension-count": "All tensors have the DimensionCount of ATensor.",
        "same-sizes": "BTensor and OutputTensor have the Sizes of ATensor; a stride of 0 repeats.",
        **rules.one_clauses((*SCALES, *POINTS)),
    },
    check_desc=_check_desc,
    desc_sizes=_desc_sizes,
    requantizations=_MODES,
)
MULTIPLY = Definition(
    multiply,
    check,
    _ADD.replace("ADD", "MUL").replace("(a + b)", "a * b")
    + fixed_point.clauses("MUL", 10, [fixed_point.DOUBLE]),
    rows=_TABLE,
    requantizations=(fixed_point.DOUBLE,),
)
