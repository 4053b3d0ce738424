"""Equivalence classes and structures of element-wise quantization and dequantization."""

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.format.tensors import DTYPES, Tensor, to_numpy
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import exact

from . import elements
from .elements import FLOATS, INTEGERS, at_ranks, erring, of_types, of_values
from .matrix import Array, CoverageMatrix

IMAGE, SCALE, POINT = "InputTensor", "ScaleTensor", "ZeroPointTensor"


class ElementWiseView(elements.OutputView):
    """The input, and its parameters repeated to the input's sizes."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        self.source = vector.inputs[IMAGE].dtype
        self.x, self.scale = self._repeated(IMAGE), self._repeated(SCALE)
        self.zero_point = self._repeated(POINT).astype(np.int64)
        self.operands = self.x, self.scale
        self.scales = self.scale.view(f"u{self.scale.itemsize}").tolist()

    def _repeated(self, name: str) -> Array:
        given = self.vector.inputs.get(name, Tensor("uint8", (), (0,)))
        return np.broadcast_to(to_numpy(given), self.sizes).reshape(-1)

    def parameter(self, name: str) -> tuple[int, ...]:
        """Return the sizes of a parameter, as many as the input's; none if it is absent."""
        if name not in self.vector.inputs:
            return ()
        sizes = self.vector.inputs[name].sizes
        return (1,) * (len(self.sizes) - len(sizes)) + sizes

    def repeats(self, name: str) -> bool:
        """Return whether a parameter has several elements, and fewer than the input."""
        return 1 < self.length(name) < self.count


class QuantizeView(ElementWiseView, elements.QuotientView):
    """The exact quotients of input and scale."""

    @cached_property
    def rows(self) -> Any:
        """The quotient and the zero point of each element."""
        words = self.vector.inputs[IMAGE].words
        rows = zip(words, self.scales, self.zero_point.tolist(), strict=True)
        return [(self._quotient(word, scale), point) for word, scale, point in rows]

    def _quotient(self, word: int, scale: int) -> exact.Real:
        is_whole, divisor = self.source == "int32", exact.decode(scale, self.scale.dtype.name)
        x = exact.exactly(Fraction(word)) if is_whole else exact.decode(word, self.source)
        return exact.exactly(x.value / divisor.value) if x.kind == "finite" else x

    def errs(self, dtype: str, formula: Callable[..., Any]) -> Array:
        """Take the type in which an implementation divides if none is named."""
        return super().errs(dtype or self.scale.dtype.name, formula)


class DequantizeView(ElementWiseView):
    """The products of a difference and a scale; a row is a difference and the scale's word."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        self.difference = self.x.astype(np.int64) - self.zero_point
        self.result = elements.floats(self.expected, self.output)

    @property
    def rows(self) -> Any:
        """The difference and the scale of each element."""
        return zip(self.difference.tolist(), self.scales, strict=True)

    def classes_of(self, row: tuple[int, int]) -> set[str]:
        """Return the classes of a product."""
        result = exact.exactly(row[0] * exact.decode(row[1], self.output).value)
        return set() if result.is_zero else elements.float_classes(result, self.output)

    def product_errs(self, dtype: str) -> Array:
        """Return where a product in this float type, then rounded, is another number."""
        with np.errstate(all="ignore"):
            product = self.difference.astype(dtype) * self.scale.astype(dtype)
            return np.asarray(product.astype(self.output) != self.result)

    def _rounded(self, integers: Array) -> Array:
        """Return the products of integers and the scale, rounded once.

        A product with FLOAT32 has 57 bits, which the extended type holds; one with FLOAT16 has 44.
        """
        wide = "f8" if self.output == "float16" else "longdouble"
        with np.errstate(all="ignore"):
            product = integers.astype(wide) * self.scale.astype(wide)
            return np.asarray(np.where(integers == 0, 0, product).astype(self.output))

    def of_rounded_errs(self, dtype: str) -> Array:
        """Return where input and zero point, rounded to a float type, have another difference."""
        with np.errstate(all="ignore"):
            x, point = (v.astype(dtype).astype("f8") for v in (self.x, self.zero_point))
            is_other = self._rounded(x - point) != self.result
        return np.asarray(np.isfinite(x) & np.isfinite(point) & is_other)

    def of_products_errs(self) -> Array:
        """Return where rounded products of input and zero point have another difference."""
        x, point = self._rounded(self.x), self._rounded(self.zero_point)
        with np.errstate(all="ignore"):
            return np.asarray(np.isfinite(x) & np.isfinite(point) & (x - point != self.result))

    def leaves(self, low: int, high: int) -> Array:
        """Return where the difference is not in a range."""
        return np.asarray((self.difference < low) | (self.difference > high))


QUANTIZED: dict[str, Any] = {
    **elements.OF_BYTES,
    **erring(
        float_division=("", lambda x, s: x / s),
        float_reciprocal=("", lambda x, s: x * (1 / s)),
        float64_reciprocal=("float64", lambda x, s: x * (1 / s)),
        extended_reciprocal=("longdouble", lambda x, s: x * (1 / s)),
    ),
    "plus infinity": lambda view: view.x == np.inf,
    "minus infinity": lambda view: view.x == -np.inf,
    "NaN": lambda view: view.x != view.x,
    "minus zero": lambda view: (view.x == 0) & np.signbit(view.x),
    "subnormal input": lambda view: view.source in FLOATS and elements.is_subnormal(view.x),
}
DEQUANTIZED: dict[str, Any] = {
    **elements.OF_ROUNDING,
    **of_values("{} product errs", DequantizeView.product_errs, ("float32", "float64")),
    "float16 product errs": lambda v: v.output == "float16" and v.product_errs("float16"),
    "difference leaves its type": lambda view: view.leaves(
        DTYPES[view.source].low, DTYPES[view.source].high
    ),
    "difference leaves 16 bits": lambda view: view.leaves(-(2**15), 2**15 - 1),
    "difference leaves 32 bits": lambda view: view.leaves(-(2**31), 2**31 - 1),
    "negative difference": lambda view: view.difference < 0,
    **of_values("{} before the difference errs", DequantizeView.of_rounded_errs, FLOATS),
    "difference of rounded products errs": DequantizeView.of_products_errs,
    "plus infinity": lambda view: view.result == np.inf,
    "minus infinity": lambda view: view.result == -np.inf,
    "zero": lambda view: view.difference == 0,
    "zero of a negative scale": lambda view: (view.difference == 0) & (view.scale < 0),
}


def _varies_along(view: ElementWiseView, name: str, axis: int) -> bool:
    sizes = view.parameter(name)
    return view.repeats(name) and sizes[axis] == view.sizes[axis] == prod(sizes)


def _forms(label: str, name: str) -> dict[str, Any]:
    """Return the structures of a parameter that is one value, or varies along axes."""
    return {
        f"one {label}": lambda view: view.length(name) == 1,
        f"a {label} for each element": lambda v: v.parameter(name) == v.sizes and v.count > 1,
        f"{label}s along the first axis": lambda view: _varies_along(view, name, 0),
        f"{label}s along the last axis": lambda view: _varies_along(view, name, -1),
    }


STRUCTURES: dict[str, Any] = {
    **elements.ELEMENTS,
    **at_ranks(range(1, 9)),
    **at_ranks(range(5, 9), "rank {}, every axis varies", elements.varies),
    **at_ranks(range(2, 9), "scales repeat at rank {}", lambda view: view.repeats(SCALE)),
    **_forms("scale", SCALE),
    "no zero point": lambda view: view.length(POINT) == 0,
    **_forms("zero point", POINT),
    "scale and zero point repeat differently": lambda view: (
        view.parameter(POINT) not in ((), view.parameter(SCALE))
    ),
    "negative scale": lambda view: view.scale < 0,
}
OF_BYTES = {
    **of_types("{} input", IMAGE, dtypes=(*FLOATS, "int32")),
    **elements.OUTPUT_TYPES,
}
OF_FLOATS: dict[str, Any] = {
    **of_types("{} input", IMAGE, dtypes=INTEGERS),
    **elements.FLOAT_TYPES,
    "subnormal scale": lambda view: elements.is_subnormal(view.scale),
}
MATRICES = {
    "element_wise_quantize_linear": CoverageMatrix(QuantizeView, QUANTIZED, STRUCTURES | OF_BYTES),
    "element_wise_dequantize_linear": CoverageMatrix(
        DequantizeView, DEQUANTIZED, STRUCTURES | OF_FLOATS
    ),
}
