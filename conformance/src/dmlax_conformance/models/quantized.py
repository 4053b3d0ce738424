"""Quantized operators of ONNX, computed by the suite's oracle."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ..format.tensors import DTYPES, Tensor
from ..format.vectors import Request
from ..oracle import OPERATORS
from ..oracle import exact as floats
from ..oracle.exact import quantize
from .arrays import filled, float32_of, number_of, tensor_of, words_of
from .graph import Node

Operands = tuple[Any, ...]  # tensors, and None for an absent one
Answer = tuple[Tensor, ...]

BY_NODE = {row.onnx: row for row in OPERATORS.values() if row.onnx}
OF_ROWS = ("AScaleTensor", "AZeroPointTensor", "OutputScaleTensor", "OutputZeroPointTensor")
DIGITS = 80  # an exponential's digits; no rounding depends on the last twenty
UNARY = "Input InputScale InputZeroPoint OutputScale OutputZeroPoint"
BINARY = "A AScale AZeroPoint B BScale BZeroPoint OutputScale OutputZeroPoint"
ONNX_NAMES = {  # DirectML's names of ONNX's inputs, in ONNX's order
    "QuantizeLinear": "Input Scale ZeroPoint",
    "DequantizeLinear": "Input Scale ZeroPoint",
    "QLinearConv": "Input InputScale InputZeroPoint Filter FilterScale FilterZeroPoint "
    "OutputScale OutputZeroPoint Bias",
    "ConvInteger": "Input Filter InputZeroPoint FilterZeroPoint",
    "QLinearMatMul": BINARY,
    "QGemm": "A AScale AZeroPoint B BScale BZeroPoint Bias OutputScale OutputZeroPoint",
    "MatMulInteger": "A B AZeroPoint BZeroPoint",
    "MatMulIntegerToFloat": "A B AScale BScale AZeroPoint BZeroPoint Bias",
    "QLinearAdd": BINARY,
    "QLinearMul": BINARY,
    "QLinearAveragePool": UNARY,
    "QLinearGlobalAveragePool": UNARY,
    "DynamicQuantizeLinear": "Input",
    "MaxPool": "Input",
}


def named(node: Node, operands: Operands) -> dict[str, Tensor]:
    """Return the operands that are present under DirectML's names.

    DirectML has the parameters of rows in a column, and ONNX in a vector.
    """
    names = [f"{name}Tensor" for name in ONNX_NAMES[node.op].split()]
    pairs = zip(names, operands, strict=False)
    return {
        name: column(operand) if name in OF_ROWS else operand
        for name, operand in pairs
        if operand is not None
    }


def column(parameter: Tensor) -> Tensor:
    """Return a parameter with a value for each row as a column, and any other unchanged."""
    if len(parameter.sizes) != 1 or parameter.sizes[0] == 1:
        return parameter
    return Tensor(parameter.dtype, (*parameter.sizes, 1), parameter.words)


def output_dtype(inputs: Mapping[str, Tensor]) -> str:
    """Return the data type of a quantized output, which is that of its zero point."""
    point = inputs.get("OutputZeroPointTensor") or inputs.get("ZeroPointTensor")
    return point.dtype if point else "uint8"


def call(op: str, inputs: Mapping[str, Tensor], dtype: str, **attributes: Any) -> Answer:
    """Return the outputs that the oracle computes for a type of node."""
    names = ["OutputTensor"]
    if op == "DynamicQuantizeLinear":
        names += ["OutputScaleTensor", "OutputZeroPointTensor"]
    outputs = {name: Request(dtype, ()) for name in names}
    found = BY_NODE[op].compute(attributes, inputs, outputs)
    return tuple(found[name] for name in names)


def direct(dtype: str, node: Node, operands: Operands) -> Answer:
    """Compute a node without attributes; an empty `dtype` stands for that of the zero point."""
    inputs = named(node, operands)
    return call(node.op, inputs, dtype or output_dtype(inputs))


to_bytes, to_floats, to_int32 = (partial(direct, dtype) for dtype in ("", "float32", "int32"))
dynamic_quantize = partial(direct, "uint8")


def windows(node: Node, spatial: int) -> dict[str, Any]:
    """Return ONNX's strides, dilations and padding under DirectML's names."""
    pads = node.attributes.get("pads", (0,) * (2 * spatial))
    ones = (1,) * spatial
    return {
        "Strides": node.attributes.get("strides", ones),
        "Dilations": node.attributes.get("dilations", ones),
        "StartPadding": pads[:spatial],
        "EndPadding": pads[spatial:],
    }


def convolution(node: Node, operands: Operands) -> Answer:
    """Convolve: QLinearConv requantizes, ConvInteger does not."""
    inputs = named(node, operands)
    options = windows(node, len(inputs["InputTensor"].sizes) - 2)
    options["GroupCount"] = node.attributes.get("group", 1)
    dtype = "int32" if node.op == "ConvInteger" else output_dtype(inputs)
    return call(node.op, inputs, dtype, **options)


def dynamic_product(node: Node, operands: Operands) -> Answer:
    """Quantize a by its own range, and multiply."""
    a, b, b_scale, b_zero_point, *bias = operands
    quantized, scale, zero_point = call("DynamicQuantizeLinear", {"InputTensor": a}, "uint8")
    inner = Node("MatMulIntegerToFloat", node.domain, (), (), {})
    return to_floats(inner, (quantized, b, scale, b_scale, zero_point, b_zero_point, *bias))


def gemm(node: Node, operands: Operands) -> Answer:
    """Multiply matrices, add the bias and requantize; `alpha` is a factor of A's scale."""
    inputs = named(node, operands)
    for name, flag in (("ATensor", "transA"), ("BTensor", "transB")):
        if node.attributes.get(flag, 0):
            inputs[name] = tensor_of(inputs[name].dtype, words_of(inputs[name]).T)
    if "alpha" in node.attributes:
        product = number_of(inputs["AScaleTensor"]) * number_of(node.attributes["alpha"])
        inputs["AScaleTensor"] = float32_of(filled([product], ()))
        assert number_of(inputs["AScaleTensor"]) == product
    return call("QLinearMatMul", inputs, output_dtype(inputs))


def pool(node: Node, operands: Operands) -> Answer:
    """Average windows, or take the largest element of a window."""
    inputs, sizes = named(node, operands), node.attributes["kernel_shape"]
    options = windows(node, len(sizes)) | {"WindowSize": sizes}
    if node.op == "MaxPool":
        return call(node.op, inputs, inputs["InputTensor"].dtype, **options)
    options["IncludePadding"] = bool(node.attributes.get("count_include_pad", 0))
    return call(node.op, inputs, output_dtype(inputs), **options)


def concatenate(node: Node, operands: Operands) -> Answer:
    """Join tensors, each requantized with one rounding."""
    y_scale, y_zero_point, *rest = operands
    groups = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    parts = [_table((*group, y_scale, y_zero_point), lambda value: value) for group in groups]
    joined = np.concatenate([words_of(part) for part in parts], node.attributes["axis"])
    return (tensor_of(parts[0].dtype, joined),)


def leaky_relu(node: Node, operands: Operands) -> Answer:
    """Multiply what is negative by `alpha`."""
    alpha = number_of(node.attributes["alpha"])
    return (_table(operands, lambda value: value if value >= 0 else alpha * value),)


def sigmoid(node: Node, operands: Operands) -> Answer:
    """Return 1 / (1 + exp(-x)), which is irrational, and so no tie, unless x is 0."""
    return (_table(operands, lambda value: 1 / (1 + exponential_of(-value))),)


def exponential_of(value: Fraction) -> Fraction:
    """Return exp to `DIGITS` digits."""
    with localcontext(Context(prec=DIGITS)):
        return Fraction((Decimal(value.numerator) / Decimal(value.denominator)).exp())


def shares(rows: Iterable[Iterable[Fraction]]) -> Iterator[Fraction]:
    """Yield the exponentials of the numbers of each row, divided by their sum."""
    for row in rows:
        terms = [exponential_of(value) for value in row]
        total = sum(terms)
        yield from (term / total for term in terms)


def softmax(node: Node, operands: Operands) -> Answer:
    """Divide exponentials by their sum along the last axis, with one rounding."""
    x, read, written = _parameters(operands)
    rows = words_of(x).reshape(-1, x.sizes[-1])
    words = map(written, shares(map(read, row) for row in rows))
    return (tensor_of(operands[-1].dtype, filled(words, x.sizes)),)


def _table(operands: Operands, function: Callable[[Fraction], Fraction]) -> Tensor:
    """Return the quantized function of every element, looked up among all bytes."""
    x, read, written = _parameters(operands)
    kind, dtype = DTYPES[x.dtype], operands[-1].dtype
    words = (written(function(read(word))) for word in range(kind.low, kind.high + 1))
    inputs = {"InputTensor": x, "TableTensor": Tensor(dtype, (256,), tuple(words))}
    outputs = {"OutputTensor": Request(dtype, ())}
    return OPERATORS["quantized_lookup"].compute({}, inputs, outputs)["OutputTensor"]


def _parameters(
    operands: Operands,
) -> tuple[Tensor, Callable[[int], Fraction], Callable[[Fraction], int]]:
    """Return a tensor, the number of one of its words, and the word of a number of the output."""
    x, x_scale, x_zero_point, y_scale, point = operands
    step, unit = map(number_of, (x_scale, y_scale))
    zero = 0 if x_zero_point is None else x_zero_point.words[0]

    def written(number: Fraction) -> int:
        return quantize(floats.exactly(number), unit, point.words[0], point.dtype)

    return x, lambda word: (word - zero) * step, written
