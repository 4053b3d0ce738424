"""Shapes, parameters and sums of a matrix product, which are those of `numpy.matmul`."""

from fractions import Fraction
from functools import cache
from itertools import zip_longest
from math import prod
from operator import mul
from typing import NamedTuple

from ...format.tensors import Tensor
from . import floats
from .call_rules import Inputs
from .element_wise import broadcast
from .rounding import wrap_int32

Sizes = tuple[int, ...]


class Shape(NamedTuple):
    """Sizes of a product; an operand of rank 1 is one row of A, or one column of B."""

    a: Sizes
    b: Sizes
    batch: Sizes
    output: Sizes

    @property
    def whole(self) -> Sizes:
        """The sizes of all sums, with the axes that operands of rank 1 take away."""
        return (*self.batch, self.a[-2], self.b[-1])

    @property
    def rows(self) -> Sizes:
        """The sizes to which a parameter of the output repeats."""
        return (*self.batch, self.a[-2], 1)


def shape_of(a: Sizes, b: Sizes) -> Shape:
    """Return the sizes of the product of operands that agree."""
    own_a, own_b = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    pairs = zip_longest(own_a[-3::-1], own_b[-3::-1], fillvalue=1)
    batch = tuple(y if x == 1 else x for x, y in pairs)[::-1]
    return Shape(own_a, own_b, batch, (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())))


def repeat(tensor: Tensor | None, sizes: Sizes, missing: int = 0) -> list[int]:
    """Return a parameter for each element: leading ones and the rank of one value do not count."""
    if tensor is None or len(tensor.words) == 1:
        return [missing if tensor is None else tensor.words[0]] * prod(sizes)
    own = tensor.sizes[max(len(tensor.sizes) - len(sizes), 0) :]
    return broadcast(Tensor(tensor.dtype, own, tensor.words), sizes)


def products(inputs: Inputs) -> tuple[Shape, list[int]]:
    """Return the sizes and the wrapped int32 sums of products, row-major."""
    a, b = inputs["ATensor"], inputs["BTensor"]
    shape = shape_of(a.sizes, b.sizes)
    rows = _rows(_centred(a, inputs.get("AZeroPointTensor"), shape.a), shape.a)
    columns = _columns(_centred(b, inputs.get("BZeroPointTensor"), shape.b), shape.b)
    pairs = zip(_places(shape.a, shape.batch), _places(shape.b, shape.batch), strict=True)
    sums = [
        wrap_int32(sum(map(mul, row, column)))
        for i, j in pairs
        for row in rows[i]
        for column in columns[j]
    ]
    return shape, sums


def scale_of(inputs: Inputs, name: str, sizes: Sizes) -> list[Fraction]:
    """Return the value of a scale for each element."""
    tensor = inputs[name]
    return [_value(word, tensor.dtype) for word in repeat(tensor, sizes)]


@cache
def _value(word: int, dtype: str) -> Fraction:
    return floats.decode(word, dtype).value


def _centred(tensor: Tensor, zero_point: Tensor | None, sizes: Sizes) -> list[int]:
    """Subtract the zero point: one value, one for each row of A, or one for each column of B."""
    points = repeat(zero_point, sizes)
    return [word - point for word, point in zip(tensor.words, points, strict=True)]


def _rows(words: list[int], sizes: Sizes) -> list[list[list[int]]]:
    """Return the rows of each matrix."""
    *batch, height, width = sizes
    starts = range(prod(batch) * height)
    rows = [words[at * width : (at + 1) * width] for at in starts]
    return [rows[at * height : (at + 1) * height] for at in range(prod(batch))]


def _columns(words: list[int], sizes: Sizes) -> list[list[list[int]]]:
    """Return the columns of each matrix."""
    *batch, height, width = sizes
    area = height * width
    return [
        [words[at * area + column : (at + 1) * area : width] for column in range(width)]
        for at in range(prod(batch))
    ]


def _places(sizes: Sizes, batch: Sizes) -> list[int]:
    """Return the index of the operand's matrix that each matrix of the output is made from."""
    own = sizes[:-2]
    return broadcast(Tensor("int32", own, tuple(range(prod(own)))), batch)
