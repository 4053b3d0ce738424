"""Faults that an evaluator composed of operators may have: a golden model finds every one."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dmlax_conformance.adapters.models.oracle import Oracle
from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.models import golden
from dmlax_conformance.models.arrays import (
    filled,
    float32_of,
    number_of,
    tensor_of,
    values_of,
    word_of,
    words_of,
)
from dmlax_conformance.models.evaluate import FUNCTIONS
from dmlax_conformance.models.graph import Node
from dmlax_conformance.models.judge import judge
from dmlax_conformance.oracle import exact

Operands = tuple[Any, ...]
Answer = tuple[Tensor, ...]
Function = Callable[[Node, Operands], Answer]
rint = np.frompyfunc(exact.round_half_even, 1, 1)


def rounded(value: Fraction) -> Fraction:
    """Return the nearest float32 number."""
    return exact.decode(word_of(value), "float32").value


def stored(values: Any, zero_point: Tensor) -> Answer:
    words = [exact.clamp(int(value), zero_point.dtype) for value in np.reshape(values, -1)]
    return (tensor_of(zero_point.dtype, filled(words, np.shape(values))),)


def operand(index: int, change: Callable[[Tensor], Tensor | None]) -> Function:
    """Return an operator that misreads an operand."""

    def compute(node: Node, operands: Operands) -> Answer:
        read = [change(x) if i == index and x is not None else x for i, x in enumerate(operands)]
        return FUNCTIONS[node.op](node, tuple(read))

    return compute


def attributes(change: Callable[[Any], Any]) -> Function:
    """Return an operator that reads other attributes."""

    def compute(node: Node, operands: Operands) -> Answer:
        read = {**node.attributes, **change(node.attributes)}
        return FUNCTIONS[node.op](replace(node, attributes=read), operands)

    return compute


def reordered(name: str, *order: int) -> Function:
    return attributes(lambda x: {name: tuple(x[name][i] for i in order)} if name in x else {})


def first_alone(tensor: Tensor) -> Tensor:
    return Tensor(tensor.dtype, (), tensor.words[:1])


def zeros(tensor: Tensor) -> Tensor:
    return replace(tensor, words=(0,) * len(tensor.words))


def turned(tensor: Tensor) -> Tensor:
    return tensor_of(tensor.dtype, np.swapaxes(words_of(tensor), -1, -2))


def binary(formula: Callable[[Any, Any, Fraction, int], Any]) -> Function:
    """Return a formula of two tensors' numbers, and of the output's scale and zero point."""

    def compute(node: Node, operands: Operands) -> Answer:
        a, sa, za, b, sb, zb, sy, zy = operands
        first = (words_of(a) - za.words[0]) * number_of(sa)
        second = (words_of(b) - zb.words[0]) * number_of(sb)
        return stored(formula(first, second, number_of(sy), zy.words[0]), zy)

    return compute


def quantize(formula: Callable[[Any, Fraction], Any]) -> Function:
    """Return a formula of a tensor's numbers and of a scale."""
    return lambda node, x: stored(formula(values_of(x[0]), number_of(x[1])) + x[2].words[0], x[2])


def pad_with_zero_bytes(node: Node, operands: Operands) -> Answer:
    top, left, bottom, right = node.attributes.get("pads", (0, 0, 0, 0))
    padded = np.pad(words_of(operands[0]), [(0, 0), (0, 0), (top, bottom), (left, right)])
    x = tensor_of(operands[0].dtype, padded)
    return attributes(lambda _: {"pads": (0, 0, 0, 0)})(node, (x, *operands[1:]))


def convolve_in_float32(node: Node, operands: Operands) -> Answer:
    """Requantize by one float32 multiplier."""
    x, sx, zx, w, sw, _, sy, zy, *bias = operands
    (sums,) = FUNCTIONS["ConvInteger"](replace(node, op="ConvInteger"), (x, w, zx))
    added = words_of(bias[0]).reshape(-1, 1, 1) if bias else 0
    floats = [values_of(scale).reshape(-1, 1, 1).astype("float32") for scale in (sx, sw, sy)]
    factor = floats[0] * floats[1] / floats[2]
    scaled = np.rint((words_of(sums) + added).astype("float32") * factor)
    return stored(scaled.astype(object) + zy.words[0], zy)


def mean_rounded_twice(node: Node, operands: Operands) -> Answer:
    words = words_of(operands[0])
    mean = rint(words.sum((2, 3), keepdims=True) * Fraction(1, words[0, 0].size))
    return FUNCTIONS[node.op](node, (tensor_of(operands[0].dtype, mean), *operands[1:]))


def leaky_by_bytes(node: Node, operands: Operands) -> Answer:
    """Take what is below the byte 0 as negative."""
    x, sx, zx, sy, zy = operands
    step, unit, alpha = map(number_of, (sx, sy, node.attributes["alpha"]))
    values = (words_of(x) - zx.words[0]) * step / unit
    return stored(rint(np.where(words_of(x) < 0, values * alpha, values)) + zy.words[0], zy)


def join_bytes(node: Node, operands: Operands) -> Answer:
    parts = [words_of(x) for x in operands[2::3]]
    return (tensor_of(operands[1].dtype, np.concatenate(parts, node.attributes["axis"])),)


def resize_by_half_pixels(node: Node, operands: Operands) -> Answer:
    """Take the nearest pixel by its centre, and the higher of two."""
    words = words_of(operands[0])
    for axis in (2, 3):
        size = words.shape[axis]
        words = words.take([min((place + 1) // 2, size - 1) for place in range(2 * size)], axis)
    return (tensor_of(operands[0].dtype, words),)


def nonzero_descending(node: Node, operands: Operands) -> Answer:
    (found,) = FUNCTIONS["NonZero"](node, operands)
    return (tensor_of("int64", words_of(found)[:, ::-1]),)


def range_without_zero(node: Node, operands: Operands) -> Answer:
    values = values_of(operands[0])
    low, high = values.min(), values.max()
    scale = float32_of(filled([(high - low) / 255], ()))
    zero = exact.round_half_even(-low / number_of(scale))
    (point,) = stored(filled([zero], ()), Tensor("uint8", (), (0,)))
    return (*stored(rint(values / number_of(scale)) + point.words[0], point), scale, point)


def scale_rounded_twice(node: Node, operands: Operands) -> Answer:
    values = values_of(operands[0])
    width = rounded(max(0, *values.flat) - min(0, *values.flat))
    found, _, zero = FUNCTIONS["DynamicQuantizeLinear"](node, operands)
    return found, float32_of(filled([width / 255], ())), zero


def hard_sigmoid_of_a_rounded_product(node: Node, operands: Operands) -> Answer:
    alpha, beta = (number_of(node.attributes[name]) for name in ("alpha", "beta"))
    values = values_of(operands[0])
    found = (min(max(rounded(alpha * v) + beta, Fraction(0)), Fraction(1)) for v in values.flat)
    return (float32_of(filled(found, values.shape)),)


def softmax_of_another_axis(node: Node, operands: Operands) -> Answer:
    (found,) = operand(0, turned)(node, operands)
    return (turned(found),)


def add_bias_after_rounding(node: Node, operands: Operands) -> Answer:
    (found,) = FUNCTIONS[node.op](node, (*operands[:-1], None))
    return (float32_of(values_of(found) + values_of(operands[-1])),)


def without_lowest_int8(node: Node, operands: Operands) -> Answer:
    (found,) = FUNCTIONS[node.op](node, operands)
    lowest = -127 if found.dtype == "int8" else 0
    return (replace(found, words=tuple(max(word, lowest) for word in found.words)),)


FAULTS: dict[str, Function] = {  # the first word is the operator
    "QLinearConv pads with zero bytes": pad_with_zero_bytes,
    "ConvInteger pads with zero bytes": pad_with_zero_bytes,
    "QLinearConv rounds in float32": convolve_in_float32,
    "QLinearConv takes the first scale": operand(4, first_alone),
    "QLinearConv forgets the bias": operand(8, lambda _: None),
    "QLinearConv forgets the input's zero point": operand(2, zeros),
    "QLinearConv forgets the output's zero point": operand(7, zeros),
    "QLinearConv swaps strides": reordered("strides", 1, 0),
    "QLinearConv swaps dilations": reordered("dilations", 1, 0),
    "QLinearConv interleaves pads": reordered("pads", 0, 2, 1, 3),
    "QLinearConv swaps the pads' start and end": reordered("pads", 2, 3, 0, 1),
    "QLinearConv never gives -128": without_lowest_int8,
    "QLinearAdd rounds its operands": binary(lambda a, b, y, z: rint(a / y) + rint(b / y) + z),
    "QLinearAdd adds the zero point too early": binary(lambda a, b, y, z: rint((a + b) / y + z)),
    "QLinearAdd forgets b's zero point": operand(5, zeros),
    "QLinearMul adds the zero point too early": binary(lambda a, b, y, z: rint(a * b / y + z)),
    "QLinearMul forgets a's zero point": operand(2, zeros),
    "QLinearGlobalAveragePool rounds the mean twice": mean_rounded_twice,
    "QLinearAveragePool counts padding": attributes(lambda _: {"count_include_pad": 1}),
    "QLinearAveragePool never counts padding": attributes(lambda _: {"count_include_pad": 0}),
    "MaxPool swaps the pads' start and end": reordered("pads", 2, 3, 0, 1),
    "QGemm ignores alpha": attributes(lambda _: {"alpha": float32_of(filled([1], ()))}),
    "QGemm forgets the bias": operand(6, lambda _: None),
    "QGemm takes the first scale": operand(4, first_alone),
    "QLinearMatMul forgets b's zero point": operand(5, zeros),
    "QLinearMatMul takes the first scale": operand(4, first_alone),
    "MatMulInteger takes the first zero point": operand(3, first_alone),
    "MatMulInteger forgets a's zero point": operand(2, zeros),
    "MatMulIntegerToFloat adds the bias after rounding": add_bias_after_rounding,
    "DynamicQuantizeMatMul adds the bias after rounding": add_bias_after_rounding,
    "DynamicQuantizeLinear takes a range without zero": range_without_zero,
    "DynamicQuantizeLinear rounds the scale twice": scale_rounded_twice,
    "QLinearSigmoid forgets the zero point": operand(2, zeros),
    "QLinearLeakyRelu compares bytes with 0": leaky_by_bytes,
    "QLinearConcat joins bytes": join_bytes,
    "Resize takes half pixels": resize_by_half_pixels,
    "NonZero descends": nonzero_descending,
    "HardSigmoid rounds its product": hard_sigmoid_of_a_rounded_product,
    "Softmax takes another axis": softmax_of_another_axis,
    "QLinearSoftmax takes another axis": softmax_of_another_axis,
    "QuantizeLinear rounds half up": quantize(lambda x, s: (x / s + Fraction(1, 2)) // 1),
    "QuantizeLinear multiplies by the reciprocal": quantize(lambda x, s: rint(x * rounded(1 / s))),
    "DequantizeLinear forgets the zero point": operand(2, zeros),
}

MODELS = sorted(map(golden.load, golden.paths()), key=lambda model: len(golden.encode(model)))


@pytest.mark.parametrize("name", FAULTS)
def test_a_model_finds_the_fault(name: str) -> None:
    op, adapter = name.split()[0], Oracle()
    adapter.functions = {**FUNCTIONS, op: FAULTS[name]}
    models = (model for model in MODELS if any(node.op == op for node in model.graph.nodes))
    assert any(judge(adapter, model, "exact", "eager").verdict == "fail" for model in models)
