"""Functions and sums of floats that have one answer, `exact-1`. DirectML leaves their bits open."""

from collections.abc import Sequence
from math import prod

import numpy as np

from ...format.tensors import Tensor
from .. import operator as rules
from ..operator import Answer, Attributes, Definition, Inputs, Outputs
from . import sequences
from .single import Single

FLOAT = ("float32",)
FUNCTIONS = {**sequences.UNARY, **sequences.BINARY}


def _operands(inputs: Inputs) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return the sizes that A and B broadcast to, and the words of each element."""
    tensors = [inputs[name] for name in ("ATensor", "BTensor") if name in inputs]
    arrays = [np.array(x.words, np.uint32).reshape(x.sizes) for x in tensors]
    whole = np.broadcast_arrays(*arrays)
    return whole[0].shape, list(zip(*(x.reshape(-1).tolist() for x in whole), strict=True))


def compute_function(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the function of each element; equal elements are computed once.

    ONNX has the formulas, such as https://onnx.ai/onnx/operators/onnx__Exp.html
    """
    (sizes, elements), function = _operands(inputs), FUNCTIONS[attributes["Function"]]
    known = {x: sequences.compute(function, *map(Single, x)).word for x in set(elements)}
    return {"OutputTensor": Tensor("float32", sizes, tuple(known[x] for x in elements))}


def sum_of_words(rows: Sequence[tuple[int, ...]]) -> int:
    """Return the bits of the sum of products of numbers that are given by their bits."""
    numbers = [[Single(word) for word in words] for words in rows]
    if numbers and len(numbers[0]) > 1:
        return sequences.dot(*zip(*numbers, strict=True)).word
    return sequences.total([number for (number,) in numbers]).word


def compute_sum(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the sums along the last axis, of A or of the products of A and B.

    ONNX has the formula: https://onnx.ai/onnx/operators/onnx__ReduceSum.html
    """
    (*kept, size), elements = _operands(inputs)
    rows = [tuple(elements[i * size : (i + 1) * size]) for i in range(prod(kept))]
    known = {row: sum_of_words(row) for row in set(rows)}
    return {"OutputTensor": Tensor("float32", tuple(kept), tuple(known[row] for row in rows))}


def _check_types(inputs: Inputs) -> None:
    rules.data_type(inputs, FLOAT, *(name for name in ("ATensor", "BTensor") if name in inputs))


def _check_sizes(inputs: Inputs) -> None:
    if "BTensor" in inputs:
        rules.repeat(inputs["ATensor"].sizes, inputs["BTensor"].sizes, "BTensor")


def check_function(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check the name of the function, data types and sizes."""
    known = sequences.BINARY if "BTensor" in inputs else sequences.UNARY
    rules.need(attributes["Function"] in known, "option", "Function")
    _check_types(inputs)
    _check_sizes(inputs)


def check_sum(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check data types, that there is an axis to sum, and sizes."""
    _check_types(inputs)
    rules.need(bool(inputs["ATensor"].sizes), "dimension_count", "ATensor")
    _check_sizes(inputs)


_FUNCTION_CLAUSES = """
EXF-1 (result): Each element is a function of an element of A, and of B for a function of two
  numbers, by the sequence of IEEE operations that exact-1 defines.
EXF-2 (result): A subnormal operand is 0 with its sign, and so is a result up to 2^-126.
EXF-3: A and B are FLOAT32.
EXF-4: The sizes of A and B repeat to each other.
EXF-5: The function is one of exact-1, and B is there if it takes two numbers.
"""
_SUM_CLAUSES = """
EXS-1 (result): Term i of the last axis is added to sum i modulo 64, one after another. The 64 sums
  are four vectors of 16, (0 + 1) + (2 + 3); then halves are added until one is left.
EXS-2 (result): With B the terms are products, each rounded to FLOAT32.
EXS-3 (result): Subnormal terms and operands of products are 0, and so are products and partial
  sums up to 2^-126. A sum that is zero is plus zero, as is a sum of nothing.
EXS-4: A and B are FLOAT32.
EXS-5: The sizes of A and B repeat to each other.
EXS-6: A has an axis.
"""
_ROWS = (
    rules.row("ATensor", "input", 0, 8, "FLOAT32"),
    rules.row("BTensor", "optional", 0, 8, "FLOAT32"),
    rules.row("OutputTensor", "output", 0, 8, "FLOAT32"),
)
FUNCTION = Definition(
    compute_function, check_function, _FUNCTION_CLAUSES, rows=_ROWS, attributes={"Function": str}
)
SUM = Definition(compute_sum, check_sum, _SUM_CLAUSES, rows=_ROWS)
