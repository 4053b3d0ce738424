"""Quantized operators of ONNX, by the meanings of the suite's own operators."""

from collections.abc import Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from ..format.tensors import DTYPES, Tensor
from ..format.vectors import Request
from ..operators import OPERATORS
from ..operators._shared import floats
from ..operators._shared.rounding import quantize
from .arrays import filled, tensor_of, value_of, words_of
from .graph import Node

Operands = tuple[Tensor | None, ...]
Answer = tuple[Tensor, ...]

BY_NODE = {row.onnx: row for row in OPERATORS.values() if row.onnx}
DIGITS = 80  # of an exponential; no rounding here depends on the last twenty
ONNX_NAMES = {  # DirectML's names of ONNX's inputs, in ONNX's order
    "QuantizeLinear": "Input Scale ZeroPoint",
    "DequantizeLinear": "Input Scale ZeroPoint",
    "QLinearConv": "Input InputScale InputZeroPoint Filter FilterScale FilterZeroPoint "
    "OutputScale OutputZeroPoint Bias",
    "ConvInteger": "Input Filter InputZeroPoint FilterZeroPoint",
    "QLinearMatMul": "A AScale AZeroPoint B BScale BZeroPoint OutputScale OutputZeroPoint",
    "QGemm": "A AScale AZeroPoint B BScale BZeroPoint Bias OutputScale OutputZeroPoint",
    "MatMulInteger": "A B AZeroPoint BZeroPoint",
    "MatMulIntegerToFloat": "A B AScale BScale AZeroPoint BZeroPoint Bias",
    "QLinearAdd": "A AScale AZeroPoint B BScale BZeroPoint OutputScale OutputZeroPoint",
    "QLinearMul": "A AScale AZeroPoint B BScale BZeroPoint OutputScale OutputZeroPoint",
    "QLinearAveragePool": "Input InputScale InputZeroPoint OutputScale OutputZeroPoint",
    "QLinearGlobalAveragePool": "Input InputScale InputZeroPoint OutputScale OutputZeroPoint",
    "DynamicQuantizeLinear": "Input",
    "MaxPool": "Input",
}


def named(node: Node, operands: Operands) -> dict[str, Tensor]:
    """Return the operands that are there under DirectML's names."""
    names = [f"{name}Tensor" for name in ONNX_NAMES[node.op].split()]
    pairs = zip(names, operands, strict=False)
    return {name: operand for name, operand in pairs if operand is not None}


def call(op: str, inputs: Mapping[str, Tensor], dtype: str, **attributes: Any) -> Answer:
    """Return what the suite's operator of a node type computes."""
    names = ["OutputTensor"]
    if op == "DynamicQuantizeLinear":
        names += ["OutputScaleTensor", "OutputZeroPointTensor"]
    outputs = {name: Request(dtype, ()) for name in names}
    found = BY_NODE[op].compute(attributes, inputs, outputs)
    return tuple(found[name] for name in names)


def quantize_linear(node: Node, operands: Operands) -> Answer:
    """Round x / scale."""
    inputs = named(node, operands)
    point = inputs.get("ZeroPointTensor")
    return call(node.op, inputs, point.dtype if point else "uint8")


def dequantize_linear(node: Node, operands: Operands) -> Answer:
    """Multiply x less its zero point by the scale."""
    return call(node.op, named(node, operands), "float32")


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


def output_dtype(inputs: Mapping[str, Tensor]) -> str:
    """Return the data type of a quantized output, which is its zero point's."""
    return inputs["OutputZeroPointTensor"].dtype


OF_ROWS = ("AScaleTensor", "AZeroPointTensor", "OutputScaleTensor", "OutputZeroPointTensor")


def matrix_product(node: Node, operands: Operands) -> Answer:
    """Multiply matrices and requantize; parameters of rows stand in a column."""
    inputs = with_columns(named(node, operands))
    return call(node.op, inputs, output_dtype(inputs))


def with_columns(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the operands of a product, its parameters of rows in columns."""
    return {name: column(x) if name in OF_ROWS else x for name, x in inputs.items()}


def column(parameter: Tensor) -> Tensor:
    """Return a parameter with a value for each row as a column, any other as it is."""
    if len(parameter.sizes) != 1 or parameter.sizes[0] == 1:
        return parameter
    return Tensor(parameter.dtype, (*parameter.sizes, 1), parameter.words)


def integer_product(node: Node, operands: Operands) -> Answer:
    """Multiply matrices into int32."""
    return call(node.op, with_columns(named(node, operands)), "int32")


def float_product(node: Node, operands: Operands) -> Answer:
    """Multiply matrices and both scales, and add the bias, with one rounding."""
    return call(node.op, named(node, operands), "float32")


def dynamic_product(node: Node, operands: Operands) -> Answer:
    """Quantize a by its own range, and multiply."""
    a, b, b_scale, b_zero_point, *bias = operands
    assert a is not None
    quantized, scale, zero_point = call("DynamicQuantizeLinear", {"InputTensor": a}, "uint8")
    inner = Node("MatMulIntegerToFloat", node.domain, (), (), {})
    return float_product(inner, (quantized, b, scale, b_scale, zero_point, b_zero_point, *bias))


def gemm(node: Node, operands: Operands) -> Answer:
    """Multiply matrices, add the bias and requantize; `alpha` is a factor of A's scale."""
    inputs = named(node, operands)
    for name, flag in (("ATensor", "transA"), ("BTensor", "transB")):
        if node.attributes.get(flag, 0):
            inputs[name] = tensor_of(inputs[name].dtype, words_of(inputs[name]).T)
    alpha = node.attributes.get("alpha")
    if alpha is not None:
        inputs["AScaleTensor"] = _scaled(
            inputs["AScaleTensor"], value_of(alpha.words[0], "float32")
        )
    return call("QLinearMatMul", inputs, output_dtype(inputs))


def _scaled(scale: Tensor, factor: Fraction) -> Tensor:
    """Return a scale times a factor, which a float32 must hold."""
    exact = value_of(scale.words[0], "float32") * factor
    word = floats.encode(floats.exactly(exact), "float32")
    assert value_of(word, "float32") == exact
    return Tensor("float32", scale.sizes, (word,))


def binary(node: Node, operands: Operands) -> Answer:
    """Add or multiply elements, with one rounding."""
    inputs = named(node, operands)
    return call(node.op, inputs, output_dtype(inputs))


def average_pool(node: Node, operands: Operands) -> Answer:
    """Average windows, or whole channels."""
    inputs = named(node, operands)
    dtype = output_dtype(inputs)
    if node.op == "QLinearGlobalAveragePool":
        return call(node.op, inputs, dtype)
    sizes = node.attributes["kernel_shape"]
    options = windows(node, len(sizes)) | {"WindowSize": sizes}
    options["IncludePadding"] = bool(node.attributes.get("count_include_pad", 0))
    return call(node.op, inputs, dtype, **options)


def max_pool(node: Node, operands: Operands) -> Answer:
    """Take the largest element of each window."""
    inputs, sizes = named(node, operands), node.attributes["kernel_shape"]
    options = windows(node, len(sizes)) | {"WindowSize": sizes}
    return call(node.op, inputs, inputs["InputTensor"].dtype, **options)


def dynamic_quantize(node: Node, operands: Operands) -> Answer:
    """Quantize by the tensor's own range."""
    return call(node.op, named(node, operands), "uint8")


def concatenate(node: Node, operands: Operands) -> Answer:
    """Join tensors, each requantized with one rounding."""
    y_scale, y_zero_point, *rest = operands
    assert y_scale is not None
    assert y_zero_point is not None
    parts = [
        words_of(_table(x, (scale, zero, y_scale, y_zero_point), lambda value: value))
        for x, scale, zero in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        if x is not None
    ]
    return (tensor_of(y_zero_point.dtype, np.concatenate(parts, node.attributes["axis"])),)


def leaky_relu(node: Node, operands: Operands) -> Answer:
    """Multiply what is negative by `alpha`."""
    x, *parameters = operands
    assert x is not None
    alpha = value_of(node.attributes["alpha"].words[0], "float32")
    return (_table(x, tuple(parameters), lambda value: value if value >= 0 else alpha * value),)


def sigmoid(node: Node, operands: Operands) -> Answer:
    """Return 1 / (1 + exp(-x)), whose decimals are known far beyond any tie but that at 0."""
    x, *parameters = operands
    assert x is not None
    return (_table(x, tuple(parameters), sigmoid_of),)


def sigmoid_of(value: Fraction) -> Fraction:
    """Return the sigmoid to `DIGITS` digits; of a rational but 0 it is no rational, so no tie."""
    if value == 0:
        return Fraction(1, 2)
    with localcontext(Context(prec=DIGITS)):
        return Fraction(1 / (1 + (-_decimal(value)).exp()))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def exponential_of(value: Fraction) -> Fraction:
    """Return exp to `DIGITS` digits."""
    with localcontext(Context(prec=DIGITS)):
        return Fraction(_decimal(value).exp())


def softmax(node: Node, operands: Operands) -> Answer:
    """Divide exponentials by their sum along the last axis, with one rounding."""
    x, x_scale, x_zero_point, y_scale, y_zero_point = operands
    assert x is not None
    assert y_scale is not None
    assert y_zero_point is not None
    step, unit = (value_of(s.words[0], "float32") for s in (x_scale, y_scale) if s is not None)
    zero = 0 if x_zero_point is None else x_zero_point.words[0]
    rows = words_of(x).reshape(-1, x.sizes[-1])
    terms = [[exponential_of((word - zero) * step) for word in row] for row in rows]
    words = [
        quantize(floats.exactly(t / sum(row)), unit, y_zero_point.words[0], y_zero_point.dtype)
        for row in terms
        for t in row
    ]
    return (tensor_of(y_zero_point.dtype, filled(words, x.sizes)),)


def _table(x: Tensor, parameters: Operands, function: Any) -> Tensor:
    """Return the quantized function of every element, looked up among all bytes."""
    x_scale, x_zero_point, y_scale, y_zero_point = parameters
    assert x_scale is not None
    assert y_scale is not None
    assert y_zero_point is not None
    step, unit = value_of(x_scale.words[0], "float32"), value_of(y_scale.words[0], "float32")
    zero = 0 if x_zero_point is None else x_zero_point.words[0]
    kind, dtype = DTYPES[x.dtype], y_zero_point.dtype
    reals = [function((word - zero) * step) for word in range(kind.low, kind.high + 1)]
    words = [quantize(floats.exactly(r), unit, y_zero_point.words[0], dtype) for r in reals]
    inputs = {"InputTensor": x, "TableTensor": Tensor(dtype, (256,), tuple(words))}
    outputs = {"OutputTensor": Request(dtype, ())}
    return OPERATORS["quantized_lookup"].compute({}, inputs, outputs)["OutputTensor"]
