"""Faults of an evaluator that misreads an operand or an attribute: a golden model finds each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmlax_conformance.adapters.models.oracle import Oracle
from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.models import golden
from dmlax_conformance.models.arrays import filled, float32_of, tensor_of, words_of
from dmlax_conformance.models.evaluate import FUNCTIONS
from dmlax_conformance.models.graph import Node
from dmlax_conformance.models.judge import judge

Operands = tuple[Any, ...]
Answer = tuple[Tensor, ...]
Function = Callable[[Node, Operands], Answer]


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


def softmax_of_another_axis(node: Node, operands: Operands) -> Answer:
    (found,) = operand(0, turned)(node, operands)
    return (turned(found),)


def without_lowest_int8(node: Node, operands: Operands) -> Answer:
    (found,) = FUNCTIONS[node.op](node, operands)
    lowest = -127 if found.dtype == "int8" else 0
    return (replace(found, words=tuple(max(word, lowest) for word in found.words)),)


FAULTS: dict[str, Function] = {  # the first word is the operator
    "QLinearConv takes the first scale": operand(4, first_alone),
    "QLinearConv forgets the bias": operand(8, lambda _: None),
    "QLinearConv forgets the input's zero point": operand(2, zeros),
    "QLinearConv forgets the output's zero point": operand(7, zeros),
    "QLinearConv swaps strides": reordered("strides", 1, 0),
    "QLinearConv swaps dilations": reordered("dilations", 1, 0),
    "QLinearConv interleaves pads": reordered("pads", 0, 2, 1, 3),
    "QLinearConv swaps the pads' start and end": reordered("pads", 2, 3, 0, 1),
    "QLinearConv never gives -128": without_lowest_int8,
    "QLinearAdd forgets b's zero point": operand(5, zeros),
    "QLinearMul forgets a's zero point": operand(2, zeros),
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
    "QLinearSigmoid forgets the zero point": operand(2, zeros),
    "Softmax takes another axis": softmax_of_another_axis,
    "QLinearSoftmax takes another axis": softmax_of_another_axis,
    "DequantizeLinear forgets the zero point": operand(2, zeros),
}

MODELS = sorted(map(golden.load, golden.paths()), key=lambda model: len(golden.encode(model)))


@pytest.mark.parametrize("name", FAULTS)
def test_a_model_finds_the_fault(name: str) -> None:
    op, adapter = name.split()[0], Oracle()
    adapter.functions = {**FUNCTIONS, op: FAULTS[name]}
    models = (model for model in MODELS if any(node.op == op for node in model.graph.nodes))
    assert any(judge(adapter, model, "exact", "eager").verdict == "fail" for model in models)
