"""Equivalence classes and structures of matrix products."""

from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import exact
from dmlax_conformance.oracle.exact import FORMATS, Real
from dmlax_conformance.oracle.matmul import add, repeat, shape_of

from . import elements
from .elements import BIAS, BY_TWO, LANES, ONE_OR_MANY, along, classes, floats, lengths
from .matrix import Array, CoverageMatrix

A, B = "ATensor", "BTensor"


class MatmulView(elements.SumView):
    """Matrices, rows and columns of the output, and the sums."""

    integers = "matrix_multiply_integer"
    scale_names = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        a, b = vector.inputs[A].sizes, vector.inputs[B].sizes
        self.ranks, self.shape = (len(a), len(b)), shape_of(a, b)
        self.matrices, self.products = prod(self.shape.batch), self.shape.a[-1]
        whole = self.matrices, *self.shape.whole[-2:]
        self.name_axes(whole, "matrices", "rows", "columns")
        bias = vector.inputs.get(BIAS)
        self.bias = bias.sizes if bias and len(bias.words) > 1 else ()

    def repeated(self, name: str) -> Array:
        """Return the words of a parameter for each sum; a missing one is 0."""
        sizes = self.shape.output if name == BIAS else self.shape.whole
        return np.array(repeat(self.vector.inputs.get(name), sizes), np.int64)


class FloatView(MatmulView):
    """Sums that become floats; a row is a sum, and the words of both scales and of the bias."""

    @property
    def words(self) -> tuple[Array, ...]:
        """The sums, and the words of both scales and of the bias of each."""
        return (self.sums, *map(self.repeated, (*self.scale_names[:2], BIAS)))

    @property
    def rows(self) -> Any:
        """The words of each sum."""
        return zip(*(each.tolist() for each in self.words), strict=True)

    def classes_of(self, row: Any) -> set[str]:
        """Return the classes of a sum, the product of its scales, and a bias, if there is one."""
        total, *words, word = row
        a, b = (exact.decode(each, "float32").value for each in words)
        has_bias, bias = BIAS in self.vector.inputs, exact.decode(word, self.output)
        product = total * a * b
        result = add(product, bias)
        found = _of_bias(product, bias, result, self.output) if has_bias else set()
        if result.is_zero and not total:
            return found | {"zero"} | ({"zero of a negative scale"} if a * b < 0 else set())
        is_rounded = result.kind == "finite" and not result.is_zero and product
        return found | (elements.float_classes(result, self.output) if is_rounded else set())

    def errs(self, dtype: str, formula: Any) -> Array:
        """Return where a formula in a float type comes to another number."""
        totals, *scales, bias = self.words
        addend, (a, b) = floats(bias, self.output), (floats(x, "f4").astype(dtype) for x in scales)
        with np.errstate(all="ignore"):
            found = formula(totals.astype(dtype), a, b, addend.astype(dtype))
            words = found.astype(self.output).view(f"u{addend.itemsize}")
        return np.asarray((words != self.expected) & ~np.isnan(addend) & ~np.isnan(found))


def _of_bias(product: Fraction, bias: Real, result: Real, dtype: str) -> set[str]:
    """Return the classes of a bias that is added to a product."""
    side = "minus" if bias.negative else "plus"
    if bias.kind != "finite":
        return {"bias of NaN" if bias.kind == "nan" else f"bias of {side} infinity"}
    if bias.is_zero:
        return {"bias of minus zero"} if bias.negative else set()
    found = {"bias cancels"} if product and result.magnitude * 2**7 < abs(product) else set()
    if bias.magnitude * 2**25 < abs(product):
        steps, one = exact.in_last_places(abs(product), FORMATS[dtype])
        found |= {"bias decides a tie" if 2 * (steps % one) == one else "bias is lost"}
    return found


STRUCTURES: dict[str, Any] = {
    **elements.of_one("row", "column"),
    "A of rank 1": lambda view: view.ranks[0] == 1,
    "B of rank 1": lambda view: view.ranks[1] == 1,
    "both of rank 2": lambda view: view.ranks == (2, 2),
    "both of rank 3": lambda view: view.ranks == (3, 3),
    "rank 4 and more": lambda view: max(view.ranks) >= 4,
    "A repeats": lambda view: prod(view.shape.a[:-2]) < view.matrices,
    "B repeats": lambda view: prod(view.shape.b[:-2]) < view.matrices,
    **along("columns", (*BY_TWO, 128), LANES),
    **along("rows", BY_TWO, (8, 16)),
    **along("matrices", (1, 2, 4, 8)),
    "one product": lambda view: view.products == 1,
    "products by fours": lambda view: view.products % 4 == 0,
    "products not by fours": lambda view: view.products % 4 != 0,
    **elements.of_values(
        "more than {} products", lambda view, count: view.products > count, (8, 32, 64, 256)
    ),
    **elements.of_types("{} A, {} B", A, B),
    **lengths("AZeroPointTensor", "zero point of A", *ONE_OR_MANY),
    **lengths("BZeroPointTensor", "zero point of B", *ONE_OR_MANY),
}
OF_SCALES = {
    **elements.WITH_BIAS,
    **lengths("AScaleTensor", "scale of A", *ONE_OR_MANY),
    **lengths("BScaleTensor", "scale of B", *ONE_OR_MANY),
}
QUANTIZED: dict[str, Any] = {
    **elements.RESCALED,
    "accumulator above 32 bits with bias": lambda view: view.accumulators >= 2**31,
    "accumulator below 32 bits with bias": lambda view: view.accumulators < -(2**31),
}
OF_QUANTIZED: dict[str, Any] = {
    **OF_SCALES,
    "bias of each column": lambda view: view.bias == view.shape.output[-1:],
    "bias of each row": lambda view: view.bias[-1:] == (1,) != view.bias[-2:-1],
    **lengths("OutputScaleTensor", "output scale", *ONE_OR_MANY),
    **lengths(elements.OUTPUT_POINT, "output zero point", *ONE_OR_MANY),
    **elements.OUTPUT_TYPES,
}
OF_FLOATS = {
    **elements.OF_ROUNDING,
    **classes("near tie", "zero", "zero of a negative scale"),
    **classes("overflows above", "overflows below", "vanishes above", "vanishes below"),
    **classes("bias of minus zero", "bias of NaN", "bias of plus infinity"),
    **classes("bias of minus infinity", "bias cancels", "bias decides a tie", "bias is lost"),
    **elements.erring(
        float32_formula=("float32", lambda total, a, b, bias: total * (a * b) + bias),
        float64_formula=("float64", lambda total, a, b, bias: total * (a * b) + bias),
    ),
}
MATRICES = {
    "matrix_multiply_integer": CoverageMatrix(MatmulView, elements.SUMS, STRUCTURES),
    "quantized_linear_matrix_multiply": CoverageMatrix(
        MatmulView, QUANTIZED, STRUCTURES | OF_QUANTIZED
    ),
    "matrix_multiply_integer_to_float": CoverageMatrix(
        FloatView, OF_FLOATS, STRUCTURES | OF_SCALES | elements.FLOAT_TYPES
    ),
}
