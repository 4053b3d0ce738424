"""Operators on floats, each with one rounding, and moves of elements."""

import operator
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..format.tensors import DTYPES, Tensor
from ..oracle.exact_floats import sequences
from ..oracle.exact_floats.sequences import compute, total_in_packets
from ..oracle.exact_floats.single import Single, single
from ..oracle.nonzero import nonzero_coordinates
from .arrays import (
    Words,
    combined,
    filled,
    float32_of,
    number_of,
    tensor_of,
    value_of,
    values_of,
    words_of,
)
from .graph import Node
from .quantized import Answer, Operands

CAST_TO = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool"}


def arithmetic(function: Callable[[Any, Any], Any], node: Node, operands: Operands) -> Answer:
    """Compute a function of two numbers."""
    a, b = operands
    found = combined(function, a, b)
    return (float32_of(found) if a.dtype == "float32" else tensor_of(a.dtype, found),)


add = partial(arithmetic, operator.add)
multiply = partial(arithmetic, operator.mul)


def greater(node: Node, operands: Operands) -> Answer:
    """Compare."""
    return (tensor_of("bool", combined(operator.gt, *operands)),)


def unary(function: Callable[[Node, Fraction], Any], node: Node, operands: Operands) -> Answer:
    """Compute a function of one number."""
    x = operands[0]
    known = {v: function(node, v) for v in set(values_of(x).reshape(-1))}
    found = [known[value_of(word, x.dtype)] for word in x.words]
    return (float32_of(filled(found, x.sizes)),)


def _hard_sigmoid(node: Node, x: Fraction) -> Fraction:
    alpha, beta = (number_of(node.attributes[name]) for name in ("alpha", "beta"))
    return min(max(alpha * x + beta, Fraction(0)), Fraction(1))


relu = partial(unary, lambda node, x: max(x, Fraction(0)))
hard_sigmoid = partial(unary, _hard_sigmoid)


def _rows(x: Tensor) -> list[list[Single]]:
    numbers, size = [Single(word) for word in x.words], x.sizes[-1]
    return [numbers[place : place + size] for place in range(0, len(numbers), size)]


def _of_rows(sizes: tuple[int, ...], rows: Iterable[Iterable[Single]]) -> Answer:
    return (Tensor("float32", sizes, tuple(x.word for row in rows for x in row)),)


def softmax(node: Node, operands: Operands) -> Answer:
    """Divide exponentials by their sum along the last axis."""
    (x,) = operands
    return _of_rows(x.sizes, map(sequences.softmax, _rows(x)))


def layer_normalization(node: Node, operands: Operands) -> Answer:
    """Normalize the last axis."""
    x, scale, bias = operands
    epsilon = Single(node.attributes["epsilon"].words[0])
    (scales,), (biases,) = _rows(scale), _rows(bias)
    rows = (sequences.layer_normalization(row, epsilon, scales, biases) for row in _rows(x))
    return _of_rows(x.sizes, rows)


def gelu(node: Node, operands: Operands) -> Answer:
    """Compute the Gaussian error linear unit."""
    (x,) = operands
    return _of_rows(x.sizes, [[compute(sequences.gelu, Single(word)) for word in x.words]])


def mean(node: Node, operands: Operands) -> Answer:
    """Average the last axis, which is kept."""
    x, axes = operands
    assert axes.words == (-1,)
    count = single(x.sizes[-1])
    totals = ([compute(sequences.divide, total_in_packets(row), count)] for row in _rows(x))
    return _of_rows((*x.sizes[:-1], 1), totals)


def product(node: Node, operands: Operands) -> Answer:
    """Multiply by a matrix."""
    x, w = operands
    columns = list(zip(*_rows(w), strict=True))
    rows = ([sequences.dot(row, column) for column in columns] for row in _rows(x))
    return _of_rows((*x.sizes[:-1], len(columns)), rows)


def cast(node: Node, operands: Operands) -> Answer:
    """Convert integers and booleans to another data type."""
    x, dtype = operands[0], CAST_TO[node.attributes["to"]]
    found = values_of(x)
    return (float32_of(found) if DTYPES[dtype].kind == "bits" else tensor_of(dtype, found),)


def nonzero(node: Node, operands: Operands) -> Answer:
    """Return the coordinates of what is not zero, with a row for each axis."""
    x = operands[0]
    rows = nonzero_coordinates(x, len(x.sizes))
    found = filled([place for row in rows for place in row], (len(rows), len(x.sizes)))
    return (tensor_of("int64", found.T),)


def moving(function: Callable[..., Words]) -> Callable[[Node, Operands], Answer]:
    """Return the operator that moves the words of its first operand by a function."""

    def compute(node: Node, operands: Operands) -> Answer:
        x, *others = operands
        return (tensor_of(x.dtype, function(words_of(x), node.attributes, *others)),)

    return compute


@moving
def reshape(words: Words, attributes: Mapping[str, Any], sizes: Tensor) -> Words:
    """Give other sizes; 0 keeps a size, and -1 stands for what is left."""
    kept = (words.shape[axis] if size == 0 else size for axis, size in enumerate(sizes.words))
    return words.reshape(*kept)


@moving
def flatten(words: Words, attributes: Mapping[str, Any]) -> Words:
    """Make a matrix of the axes before an axis and those from it on."""
    return words.reshape(prod(words.shape[: attributes.get("axis", 1)]), -1)


@moving
def transpose(words: Words, attributes: Mapping[str, Any]) -> Words:
    """Permute the axes."""
    return words.transpose(attributes["perm"])


@moving
def slice_axes(words: Words, attributes: Mapping[str, Any], *operands: Tensor) -> Words:
    """Take a range of some axes; the operands are starts, ends, axes and perhaps steps."""
    starts, ends, axes, *steps = (operand.words for operand in operands)
    parts = [slice(None)] * words.ndim
    for axis, *part in zip(axes, starts, ends, *steps, strict=True):
        parts[axis] = slice(*part)
    return words[tuple(parts)]


@moving
def gather(words: Words, attributes: Mapping[str, Any], indices: Tensor) -> Words:
    """Take the elements at indices along an axis."""
    places = words_of(indices).astype(np.int64)
    return np.take(words, places, attributes.get("axis", 0))


@moving
def resize(words: Words, attributes: Mapping[str, Any], roi: None, scales: Tensor) -> Words:
    """Repeat elements: the nearest, of coordinates that are divided by the scale."""
    mode = attributes["coordinate_transformation_mode"], attributes["nearest_mode"]
    assert mode == ("asymmetric", "floor")
    for axis, scale in enumerate(values_of(scales)):
        places = [int(place / scale) for place in range(int(words.shape[axis] * scale))]
        words = np.take(words, places, axis)
    return words
