"""Operators on floats, each with one rounding, and moves of elements."""

import operator
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ..format.tensors import DTYPES, Tensor
from ..operators.nonzero_coordinates.meaning import nonzero_coordinates
from .arrays import (
    combined,
    filled,
    float32_of,
    integers_of,
    tensor_of,
    value_of,
    values_of,
    words_of,
)
from .graph import Node
from .quantized import Answer, Operands, exponential_of

CAST_TO = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool"}


def arithmetic(function: Callable[[Any, Any], Any], node: Node, operands: Operands) -> Answer:
    """Compute a function of two numbers."""
    a, b = both(operands)
    found = combined(a, b, function)
    return (float32_of(found) if a.dtype == "float32" else tensor_of(a.dtype, found),)


add = partial(arithmetic, operator.add)
multiply = partial(arithmetic, operator.mul)


def greater(node: Node, operands: Operands) -> Answer:
    """Compare."""
    return (tensor_of("bool", combined(*both(operands), operator.gt)),)


def unary(function: Callable[[Node, Fraction], Any], node: Node, operands: Operands) -> Answer:
    """Compute a function of one number."""
    x = first(operands)
    known = {v: function(node, v) for v in set(values_of(x).reshape(-1))}
    found = [known[value_of(word, x.dtype)] for word in x.words]
    return (float32_of(filled(found, x.sizes)),)


def both(operands: Operands) -> tuple[Tensor, Tensor]:
    """Return the two operands, neither of which is absent."""
    a, b = (x for x in operands if x is not None)
    return a, b


def first(operands: Operands) -> Tensor:
    """Return the first operand, which is never absent."""
    x = operands[0]
    assert x is not None
    return x


def attribute(node: Node, name: str, default: Fraction) -> Fraction:
    """Return a float attribute."""
    given = node.attributes.get(name)
    return default if given is None else value_of(given.words[0], "float32")


def _hard_sigmoid(node: Node, x: Fraction) -> Fraction:
    alpha, beta = attribute(node, "alpha", Fraction(0)), attribute(node, "beta", Fraction(0))
    return min(max(alpha * x + beta, Fraction(0)), Fraction(1))


relu = partial(unary, lambda node, x: max(x, Fraction(0)))
hard_sigmoid = partial(unary, _hard_sigmoid)


def softmax(node: Node, operands: Operands) -> Answer:
    """Divide exponentials by their sum along the last axis."""
    x = first(operands)
    rows = values_of(x).reshape(-1, x.sizes[-1])
    terms = [[exponential_of(value) for value in row] for row in rows]
    found = [term / sum(row) for row in terms for term in row]
    return (float32_of(filled(found, x.sizes)),)


def cast(node: Node, operands: Operands) -> Answer:
    """Convert integers and booleans to another data type."""
    x, dtype = first(operands), CAST_TO[node.attributes["to"]]
    found = values_of(x)
    return (float32_of(found) if DTYPES[dtype].kind == "bits" else tensor_of(dtype, found),)


def reshape(node: Node, operands: Operands) -> Answer:
    """Give other sizes; 0 keeps a size and -1 is what is left."""
    x, wanted = first(operands), integers_of(operands[1])
    sizes = [x.sizes[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    return (tensor_of(x.dtype, words_of(x).reshape(sizes)),)


def flatten(node: Node, operands: Operands) -> Answer:
    """Make a matrix of what is before an axis and after it."""
    x, axis = first(operands), node.attributes.get("axis", 1)
    rows = int(np.prod(x.sizes[:axis]))
    return (tensor_of(x.dtype, words_of(x).reshape(rows, -1)),)


def transpose(node: Node, operands: Operands) -> Answer:
    """Permute the axes."""
    x = first(operands)
    return (tensor_of(x.dtype, words_of(x).transpose(node.attributes["perm"])),)


def slice_axes(node: Node, operands: Operands) -> Answer:
    """Take a range of some axes."""
    x, starts, ends, axes, *steps = operands
    assert x is not None
    strides = integers_of(steps[0]) if steps else (1,) * len(integers_of(axes))
    parts = [slice(None)] * len(x.sizes)
    rows = zip(*map(integers_of, (axes, starts, ends)), strides, strict=True)
    for axis, start, end, step in rows:
        parts[axis] = slice(start, end, step)
    return (tensor_of(x.dtype, words_of(x)[tuple(parts)]),)


def gather(node: Node, operands: Operands) -> Answer:
    """Take the elements at indices along an axis."""
    x, indices = operands
    assert x is not None
    assert indices is not None
    places = words_of(indices).astype(np.int64)
    return (tensor_of(x.dtype, np.take(words_of(x), places, node.attributes.get("axis", 0))),)


def nonzero(node: Node, operands: Operands) -> Answer:
    """Return the coordinates of what is not zero, an axis each row."""
    x = first(operands)
    rows = nonzero_coordinates(x, len(x.sizes))
    found = filled([place for row in rows for place in row], (len(rows), len(x.sizes)))
    return (tensor_of("int64", found.T),)


def resize(node: Node, operands: Operands) -> Answer:
    """Repeat elements: the nearest, of coordinates that are divided by the scale."""
    x, scales = first(operands), operands[2]
    assert scales is not None
    mode = (node.attributes["coordinate_transformation_mode"], node.attributes["nearest_mode"])
    assert mode == ("asymmetric", "floor")
    found = words_of(x)
    for axis, word in enumerate(scales.words):
        scale = value_of(word, "float32")
        places = [int(place / scale) for place in range(int(x.sizes[axis] * scale))]
        found = np.take(found, places, axis)
    return (tensor_of(x.dtype, found),)
