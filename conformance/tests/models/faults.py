"""Planted faults: operators that a composed evaluator may get wrong, each in one thing."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.models import quantized
from dmlax_conformance.models.arrays import (
    filled,
    float32_of,
    tensor_of,
    values_of,
    word_of,
    words_of,
)
from dmlax_conformance.models.evaluate import FUNCTIONS
from dmlax_conformance.models.graph import Node
from dmlax_conformance.operators._shared import floats, quantized_convolution
from dmlax_conformance.operators._shared.convolution import Windows
from dmlax_conformance.operators._shared.rounding import clamp

Operands = tuple[Any, ...]
Function = Callable[[Node, Operands], tuple[Tensor, ...]]


def replaced(op: str, index: int, change: Callable[[Tensor], Tensor | None]) -> dict[str, Function]:
    """Return an operator that misreads one of its operands."""

    def compute(node: Node, operands: Operands) -> tuple[Tensor, ...]:
        given = [change(x) if i == index and x is not None else x for i, x in enumerate(operands)]
        return FUNCTIONS[op](node, tuple(given))

    return {op: compute}


def without(op: str, *names: str, **others: Any) -> dict[str, Function]:
    """Return an operator that ignores some attributes, or reads others."""

    def compute(node: Node, operands: Operands) -> tuple[Tensor, ...]:
        kept = {name: value for name, value in node.attributes.items() if name not in names}
        changed = Node(node.op, node.domain, node.inputs, node.outputs, {**kept, **others})
        return FUNCTIONS[op](changed, operands)

    return {op: compute}


def reordered(op: str, name: str, order: tuple[int, ...]) -> dict[str, Function]:
    """Return an operator that reads the entries of an attribute in another order."""

    def compute(node: Node, operands: Operands) -> tuple[Tensor, ...]:
        given = node.attributes.get(name)
        own = {} if given is None else {name: tuple(given[i] for i in order)}
        changed = Node(node.op, node.domain, node.inputs, node.outputs, {**node.attributes, **own})
        return FUNCTIONS[op](changed, operands)

    return {op: compute}


def first_alone(tensor: Tensor) -> Tensor:
    """Return the first of many parameters."""
    return Tensor(tensor.dtype, (), tensor.words[:1])


def zeros(tensor: Tensor) -> Tensor:
    """Return zeros instead."""
    return Tensor(tensor.dtype, tensor.sizes, (0,) * len(tensor.words))


def absent(tensor: Tensor) -> None:
    """Forget a tensor."""


def pad_with_zero_bytes(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Pad with the byte 0, not with the zero point."""
    x, *rest = operands
    pads = node.attributes.get("pads", (0, 0, 0, 0))
    widths = [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])]
    padded = tensor_of(x.dtype, np.pad(words_of(x), widths, constant_values=0))
    attributes = {**node.attributes, "pads": (0, 0, 0, 0)}
    changed = Node(node.op, node.domain, node.inputs, node.outputs, attributes)
    return FUNCTIONS[node.op](changed, (padded, *rest))


def convolve_in_float32(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Requantize by one float32 multiplier."""
    inputs = quantized.named(node, operands)
    fields = quantized.windows(node, 2) | {"GroupCount": node.attributes.get("group", 1)}
    dtype = quantized.output_dtype(inputs)
    windows = Windows.of(fields)
    return (quantized_convolution.quantized_linear_convolution(inputs, windows, dtype, "float32"),)


def _parameters(operands: Operands) -> list[Any]:
    """Return both tensors' numbers, and the scale and the zero point of the output."""
    a, sa, za, b, sb, zb, sy, zy = operands
    step = [floats.decode(each.words[0], "float32").value for each in (sa, sb, sy)]
    first = (words_of(a) - za.words[0]) * step[0]
    second = (words_of(b) - zb.words[0]) * step[1]
    return [first, second, step[2], zy]


def _ended(values: Any, zero_point: Tensor) -> tuple[Tensor, ...]:
    words = [clamp(int(each), zero_point.dtype) for each in values.reshape(-1)]
    return (tensor_of(zero_point.dtype, filled(words, values.shape)),)


_round = np.frompyfunc(floats.round_half_even, 1, 1)


def add_rounded_operands(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Requantize both operands, and add the integers."""
    a, b, unit, zero_point = _parameters(operands)
    return _ended(_round(a / unit) + _round(b / unit) + zero_point.words[0], zero_point)


def zero_point_first(combine: Callable[[Any, Any], Any]) -> Function:
    """Add the zero point before rounding."""

    def compute(node: Node, operands: Operands) -> tuple[Tensor, ...]:
        a, b, unit, zero_point = _parameters(operands)
        return _ended(_round(combine(a, b) / unit + zero_point.words[0]), zero_point)

    return compute


def mean_rounded_twice(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Round the mean of the bytes, and requantize it."""
    x, *parameters = operands
    words = words_of(x)
    total = words.reshape(*words.shape[:2], -1).sum(-1) * Fraction(1, words[0, 0].size)
    mean = tensor_of(x.dtype, _round(total).reshape(*words.shape[:2], 1, 1))
    return FUNCTIONS[node.op](node, (mean, *parameters))


def leaky_by_bytes(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Take what is below the byte 0 as negative."""
    x, sx, zx, sy, zy = operands
    step, unit, alpha = (
        floats.decode(each.words[0], "float32").value for each in (sx, sy, node.attributes["alpha"])
    )
    values = (words_of(x) - zx.words[0]) * step
    leaky = np.where(words_of(x) < 0, values * alpha, values)
    return _ended(_round(leaky / unit) + zy.words[0], zy)


def join_bytes(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Join bytes of different scales."""
    parts = [words_of(x) for x in operands[2::3]]
    return (tensor_of(operands[1].dtype, np.concatenate(parts, node.attributes["axis"])),)


def resize_by_half_pixels(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Take the nearest pixel by its centre, and the higher of two."""
    found = words_of(operands[0])
    for axis in (2, 3):
        size = found.shape[axis]
        places = [min((place + 1) // 2, size - 1) for place in range(2 * size)]
        found = np.take(found, places, axis)
    return (tensor_of(operands[0].dtype, found),)


def nonzero_descending(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """List the last element first."""
    (found,) = FUNCTIONS["NonZero"](node, operands)
    return (tensor_of("int64", words_of(found)[:, ::-1]),)


def range_without_zero(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Take the range of the values alone."""
    x = operands[0]
    low, high = min(values_of(x).reshape(-1)), max(values_of(x).reshape(-1))
    scale = word_of((high - low) / 255)
    step = floats.decode(scale, "float32").value
    zero = clamp(floats.round_half_even(-low / step), "uint8")
    words = [clamp(floats.round_half_even(v / step) + zero, "uint8") for v in values_of(x).flat]
    parameters = Tensor("float32", (), (scale,)), Tensor("uint8", (), (zero,))
    return (tensor_of("uint8", filled(words, x.sizes)), *parameters)


def scale_rounded_twice(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Round the range to float32 before it is divided."""
    values = values_of(operands[0]).reshape(-1)
    low, high = min(0, *values), max(0, *values)
    width = floats.decode(word_of(high - low), "float32").value
    scale = Tensor("float32", (), (word_of(width / 255),))
    found, _, zero = FUNCTIONS["DynamicQuantizeLinear"](node, operands)
    return found, scale, zero


def hard_sigmoid_of_a_rounded_product(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Round the product before beta is added."""
    alpha, beta = (
        floats.decode(node.attributes[n].words[0], "float32").value for n in ("alpha", "beta")
    )
    found = [
        min(max(floats.decode(word_of(alpha * v), "float32").value + beta, 0), 1)
        for v in values_of(operands[0]).reshape(-1)
    ]
    return (float32_of(filled(found, operands[0].sizes)),)


def softmax_of_another_axis(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Sum along the axis before the last."""
    x = operands[0]
    turned = tensor_of(x.dtype, np.swapaxes(words_of(x), -1, -2))
    (found,) = FUNCTIONS[node.op](node, (turned, *operands[1:]))
    return (tensor_of(found.dtype, np.swapaxes(words_of(found), -1, -2)),)


def quantize_half_up(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Round ties up."""
    x, scale, zero_point = operands
    step = floats.decode(scale.words[0], "float32").value
    found = [(v / step + Fraction(1, 2)) // 1 for v in values_of(x).reshape(-1)]
    return _ended(filled(found, x.sizes) + zero_point.words[0], zero_point)


def quantize_by_the_reciprocal(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Multiply by the rounded reciprocal of the scale."""
    x, scale, zero_point = operands
    step = floats.decode(scale.words[0], "float32").value
    inverse = floats.decode(word_of(1 / step), "float32").value
    return _ended(_round(values_of(x) * inverse) + zero_point.words[0], zero_point)


def add_bias_after_rounding(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Round the product, and then its sum with the bias."""
    *rest, bias = operands
    (found,) = FUNCTIONS[node.op](node, (*rest, None))
    return (float32_of(values_of(found) + values_of(bias)),)


def symmetric_int8(node: Node, operands: Operands) -> tuple[Tensor, ...]:
    """Never give -128."""
    (found,) = FUNCTIONS[node.op](node, operands)
    is_int8 = found.dtype == "int8"
    words = tuple(max(word, -127) if is_int8 else word for word in found.words)
    return (Tensor(found.dtype, found.sizes, words),)


CONV, MEAN = "QLinearConv", "QLinearGlobalAveragePool"

FAULTS: Mapping[str, Mapping[str, Function]] = {
    "conv-pads-with-zero-bytes": {CONV: pad_with_zero_bytes},
    "conv-integer-pads-with-zero-bytes": {"ConvInteger": pad_with_zero_bytes},
    "conv-rounds-in-float32": {CONV: convolve_in_float32},
    "conv-takes-the-first-scale": replaced(CONV, 4, first_alone),
    "conv-forgets-the-bias": replaced(CONV, 8, absent),
    "conv-forgets-the-input-zero-point": replaced(CONV, 2, zeros),
    "conv-forgets-the-output-zero-point": replaced(CONV, 7, zeros),
    "conv-swaps-strides": reordered(CONV, "strides", (1, 0)),
    "conv-swaps-dilations": reordered(CONV, "dilations", (1, 0)),
    "conv-interleaves-pads": reordered(CONV, "pads", (0, 2, 1, 3)),
    "conv-swaps-start-and-end": reordered(CONV, "pads", (2, 3, 0, 1)),
    "conv-gives-no-lowest-int8": {CONV: symmetric_int8},
    "add-rounds-its-operands": {"QLinearAdd": add_rounded_operands},
    "add-zero-point-before-rounding": {"QLinearAdd": zero_point_first(lambda a, b: a + b)},
    "add-forgets-b-zero-point": replaced("QLinearAdd", 5, zeros),
    "multiply-zero-point-before-rounding": {"QLinearMul": zero_point_first(lambda a, b: a * b)},
    "multiply-forgets-a-zero-point": replaced("QLinearMul", 2, zeros),
    "global-mean-rounded-twice": {MEAN: mean_rounded_twice},
    "average-counts-padding": without("QLinearAveragePool", count_include_pad=1),
    "average-never-counts-padding": without("QLinearAveragePool", count_include_pad=0),
    "max-pool-swaps-start-and-end": reordered("MaxPool", "pads", (2, 3, 0, 1)),
    "gemm-ignores-alpha": without("QGemm", "alpha"),
    "gemm-forgets-the-bias": replaced("QGemm", 6, absent),
    "gemm-takes-the-first-scale": replaced("QGemm", 4, first_alone),
    "product-forgets-b-zero-point": replaced("QLinearMatMul", 5, zeros),
    "product-takes-the-first-scale": replaced("QLinearMatMul", 4, first_alone),
    "integer-product-takes-the-first-zero-point": replaced("MatMulInteger", 3, first_alone),
    "integer-product-forgets-a-zero-point": replaced("MatMulInteger", 2, zeros),
    "float-product-adds-bias-after-rounding": {"MatMulIntegerToFloat": add_bias_after_rounding},
    "dynamic-product-adds-bias-after-rounding": {"DynamicQuantizeMatMul": add_bias_after_rounding},
    "dynamic-range-without-zero": {"DynamicQuantizeLinear": range_without_zero},
    "dynamic-scale-rounded-twice": {"DynamicQuantizeLinear": scale_rounded_twice},
    "sigmoid-forgets-the-zero-point": replaced("QLinearSigmoid", 2, zeros),
    "leaky-relu-by-bytes": {"QLinearLeakyRelu": leaky_by_bytes},
    "concat-joins-bytes": {"QLinearConcat": join_bytes},
    "resize-by-half-pixels": {"Resize": resize_by_half_pixels},
    "nonzero-descending": {"NonZero": nonzero_descending},
    "hard-sigmoid-of-a-rounded-product": {"HardSigmoid": hard_sigmoid_of_a_rounded_product},
    "softmax-of-another-axis": {"Softmax": softmax_of_another_axis},
    "quantized-softmax-of-another-axis": {"QLinearSoftmax": softmax_of_another_axis},
    "quantize-half-up": {"QuantizeLinear": quantize_half_up},
    "quantize-by-the-reciprocal": {"QuantizeLinear": quantize_by_the_reciprocal},
    "dequantize-forgets-the-zero-point": replaced("DequantizeLinear", 2, zeros),
}
