"""Equivalence classes of each family of operators."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.format.tensors import DTYPES, DType, Tensor, to_numpy
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import exact, exact_floats, pooling
from dmlax_conformance.oracle.binary import add_quotients, multiply_quotients
from dmlax_conformance.oracle.convolution import SCALES, sum_quotients
from dmlax_conformance.oracle.dynamic_quantize import quotients
from dmlax_conformance.oracle.exact import FORMATS, RANGES, Real
from dmlax_conformance.oracle.exact_floats.single import (
    INFINITY,
    LEAST_NORMAL,
    SIGN,
    Single,
    single,
)
from dmlax_conformance.oracle.matmul import add, repeat, shape_of
from dmlax_conformance.oracle.nonzero import is_nonzero

from . import elements
from .elements import BIAS, FLOATS, NEAR_TIES, OF_BYTES, Array, QuotientView, erring, floats

IMAGE, SCALE, POINT = "InputTensor", "ScaleTensor", "ZeroPointTensor"

# -- convolutions and pools ----------------------------------------------------------------------


class ConvolutionView(elements.SumView):
    """The sums of a convolution."""

    integers = "convolution_integer"
    scale_names = SCALES

    @cached_property
    def accumulators(self) -> Array:
        """The sums with bias, in 32 bits."""
        return super().accumulators.astype("i4").astype("i8")

    def repeated(self, name: str) -> Array:
        """Return the words of a parameter for each element; a missing one is 0."""
        given = self.vector.inputs.get(name)
        words = np.array(given.words if given else (0,), np.int64)
        shape = (1, words.size, *[1] * (len(self.sizes) - 2))
        return np.broadcast_to(words.reshape(shape), self.sizes).reshape(-1)


class PoolView(elements.OutputView):
    """Pools; a row is the elements of a window, of which padding has none."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        attributes = vector.attributes or pooling.whole(vector.inputs[IMAGE].sizes)
        self.attributes: dict[str, Any] = {"IncludePadding": False, **attributes}

    @property
    def rows(self) -> Any:
        """The elements of each window."""
        given = self.vector.inputs[IMAGE]
        for _, places in pooling.elements(given.sizes, self.attributes):
            yield tuple(given.words[place] for place in places)

    def classes_of(self, row: tuple[int, ...]) -> set[str]:
        """Return the classes of a window; one of padding alone has none."""
        held = _of_window(row, *RANGES[self.output]) if row else {}
        return {name for name, holds in held.items() if holds}


def _of_window(row: tuple[int, ...], low: int, high: int) -> dict[str, bool]:
    """Return which classes the largest element of a window is in."""
    largest = max(row)
    return {
        "the first is the largest": row[0] > max(row[1:], default=high),
        "the last is the largest": row[-1] > max(row[:-1], default=high),
        "another is the largest": max(row[1:-1], default=low) > max(row[0], row[-1]),
        "several are the largest": row.count(largest) > 1,
        "the highest": largest == high,
        "the lowest": largest == low,
        "beyond 7 bits": largest > 127,
        "zero among negatives": largest == 0 > min(row),
        "all are negative": largest < 0,
        "a negative is larger without its sign": -min(row) > largest > 0,
    }


class AverageView(PoolView, elements.QuotientView):
    """The exact means of a call."""

    classes_of = elements.QuotientView.classes_of  # type: ignore[assignment]

    @cached_property
    def means(self) -> list[tuple[pooling.Mean, int]]:
        """The mean of each window: sum, number of elements, words of scales; and zero point."""
        return list(pooling.means(self.vector.inputs, self.attributes))

    @property
    def rows(self) -> Any:
        """The mean over the output scale, and the zero point, of each window."""
        return ((pooling.mean(each), point) for each, point in self.means)

    @property
    def operands(self) -> Any:
        """The sums, the numbers of elements, and both scales."""
        totals, counts, *words = np.array([each for each, _ in self.means]).reshape(-1, 4).T
        return totals, counts, *(floats(each, "f4") for each in words)


AVERAGES = {
    "near tie in float32": elements.NEAR_TIES["near tie in float32"],
    **elements.erring(
        float32_multiplier=("f4", lambda total, n, sx, sy: total * (sx / (sy * n))),
        float32_formula=("f4", lambda total, n, sx, sy: total * sx / n / sy),
    ),
}
CONVOLVED: dict[str, Any] = {
    **elements.RESCALED,
    "accumulator above 16 bits": lambda view: view.accumulators >= 2**15,
    "accumulator below 16 bits": lambda view: view.accumulators < -(2**15),
}

# -- element-wise quantization and dequantization ------------------------------------------------


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

    def errs(self, dtype: str, formula: Callable[..., Any]) -> bool:
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

    def leaves(self, dtype: DType) -> Array:
        """Return where the difference is not in the range of a data type."""
        return np.asarray((self.difference < dtype.low) | (self.difference > dtype.high))


DIVIDED: dict[str, Any] = {
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
SCALED: dict[str, Any] = {
    **{
        f"{dtype} product errs": lambda view, dtype=dtype: (
            (dtype != "float16" or view.output == dtype) and view.product_errs(dtype)
        )
        for dtype in ("float16", "float32", "float64")
    },
    "difference leaves its type": lambda view: view.leaves(DTYPES[view.source]),
    "difference leaves 16 bits": lambda view: view.leaves(DTYPES["int16"]),
    "difference leaves 32 bits": lambda view: view.leaves(DTYPES["int32"]),
    "negative difference": lambda view: view.difference < 0,
    "plus infinity": lambda view: view.result == np.inf,
    "minus infinity": lambda view: view.result == -np.inf,
    "zero": lambda view: view.difference == 0,
    "zero of a negative scale": lambda view: (view.difference == 0) & (view.scale < 0),
}

# -- matrix products -----------------------------------------------------------------------------


class MatmulView(elements.SumView):
    """The sums of a matrix product."""

    integers = "matrix_multiply_integer"
    scale_names = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        self.shape = shape_of(vector.inputs["ATensor"].sizes, vector.inputs["BTensor"].sizes)

    def repeated(self, name: str) -> Array:
        """Return the words of a parameter for each sum; a missing one is 0."""
        sizes = self.shape.output if name == BIAS else self.shape.whole
        return np.array(repeat(self.vector.inputs.get(name), sizes), np.int64)


class FloatView(MatmulView):
    """Sums that become floats; a row is a sum, and the words of both scales and of the bias."""

    @property
    def rows(self) -> Any:
        """The words of each sum."""
        words = map(self.repeated, (*self.scale_names[:2], BIAS))
        return zip(*(each.tolist() for each in (self.sums, *words)), strict=True)

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


MULTIPLIED: dict[str, Any] = {
    **elements.RESCALED,
    "accumulator above 32 bits with bias": lambda view: view.accumulators >= 2**31,
    "accumulator below 32 bits with bias": lambda view: view.accumulators < -(2**31),
}
OF_FLOATS = (
    *elements.OF_TIES,
    *("near tie", "zero", "zero of a negative scale"),
    *("overflows above", "overflows below", "vanishes above", "vanishes below"),
    *("bias of minus zero", "bias of NaN", "bias of plus infinity", "bias of minus infinity"),
    *("bias cancels", "bias decides a tie", "bias is lost"),
)


# -- lookups and dynamic quantization ------------------------------------------------------------


class LookupView(elements.OutputView):
    """The place in the table of each element, from 0."""

    @property
    def places(self) -> Array:
        """The places."""
        x = self.vector.inputs["InputTensor"]
        return np.array(x.words, np.int64) - DTYPES[x.dtype].low


PLACES: dict[str, Any] = {
    "the first entry": lambda view: view.places == 0,
    "the last entry": lambda view: view.places == 255,
    "the last of the first half": lambda view: view.places == 127,
    "the first of the second half": lambda view: view.places == 128,
    "in the first half": lambda view: view.places < 128,
    "in the second half": lambda view: view.places >= 128,
    "an odd place": lambda view: view.places % 2 == 1,
    "beyond 16 places": lambda view: view.places >= 16,
    "the highest value": lambda view: view.expected == DTYPES[view.output].high,
    "the lowest value": lambda view: view.expected == DTYPES[view.output].low,
    "a negative value": lambda view: view.expected < 0,
    "beyond 7 bits": lambda view: view.expected > 127,
}
NEAR = "near tie in float32"
BEYOND = ("far ", "above 32", "below 32", "saturates ")  # a quotient is at most 255
WITHIN = tuple(name for name in elements.OF_BYTES if not name.startswith(BEYOND))


# -- nonzero coordinates -------------------------------------------------------------------------


class NonzeroView(elements.OutputView):
    """The elements of the input, and which are found: they are not zero."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        self.tensor = vector.inputs["InputTensor"]
        self.type, self.x = DTYPES[self.tensor.dtype], to_numpy(self.tensor).reshape(-1)
        self.index, self.columns = np.arange(self.count), self.sizes[-1] if self.sizes else 1
        words, dtype = self.tensor.words, self.tensor.dtype
        self.found = np.array([is_nonzero(word, dtype) for word in words], bool)

    @cached_property
    def beside(self) -> Array:
        """The number of non-zero neighbours, 0 to 2."""
        around = np.pad(self.found, 1).astype(int)
        return np.asarray(around[:-2] + around[2:])


def _of_kinds(*kinds: str, **tests: Any) -> dict[str, Any]:
    """Return predicates that hold for these kinds of data type only."""
    return {
        name.replace("_", " "): lambda view, test=test: view.type.kind in kinds and test(view)
        for name, test in tests.items()
    }


FOUND: dict[str, Any] = {
    **_of_kinds(
        "bits",
        minus_zero=lambda view: (view.x == 0) & np.signbit(view.x),
        subnormal=lambda view: elements.is_subnormal(view.x),
        largest_finite=lambda view: np.abs(view.x) == np.finfo(view.x.dtype).max,
        plus_infinity=lambda view: view.x == np.inf,
        minus_infinity=lambda view: view.x == -np.inf,
        NaN=lambda view: view.x != view.x,
    ),
    **_of_kinds(
        *("int", "uint"),
        largest_integer=lambda view: view.x == view.type.high,
        even_integer=lambda view: view.found & (view.x % 2 == 0),
    ),
    **_of_kinds(
        "int",
        smallest_integer=lambda view: view.x == view.type.low,
        minus_one=lambda view: view.x == -1,
    ),
    **_of_kinds("uint", top_bit_alone=lambda view: view.x == view.type.high // 2 + 1),
    "one": lambda view: view.x == 1,
    "first of a row": lambda view: view.found & (view.index % view.columns == 0),
    "last of a row": lambda view: view.found & ((view.index + 1) % view.columns == 0),
    "found alone": lambda view: view.found & (view.beside == 0),
    "found within a run": lambda view: view.found & (view.beside == 2),
    "zero": lambda view: np.array(view.tensor.words) == 0,
    "zero between others": lambda view: ~view.found & (view.beside == 2),
}


# -- floats that have one answer -----------------------------------------------------------------

REAL: dict[str, Callable[[float], float]] = {  # to more digits than float32 has
    **{name: getattr(math, name) for name in ("atan", "cos", "erf", "exp", "expm1", "sin", "tanh")},
    **{name: getattr(math, name) for name in ("log", "log1p")},
    "exp2": lambda x: 2.0**x,
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: (
        x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    ),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "softplus": lambda x: math.log1p(math.exp(x)) if x < 700 else x,
}


class ExactView(elements.OutputView):
    """The operands and the result of each element, by their bits."""

    @property
    def rows(self) -> Any:
        """The name of the function, the words of operands, and that of the result."""
        name = self.vector.attributes["Function"]
        _, operands = exact_floats._operands(self.vector.inputs)
        return ((name, *x, y) for x, y in zip(operands, self.expected.tolist(), strict=True))

    def classes_of(self, row: Any) -> set[str]:
        """Return the classes of an element."""
        name, *operands, result = row
        x, y = Single(operands[0]), Single(result)
        found = {name} if 0 < y.size < INFINITY else {f"{name} of no number"} if y.is_nan else set()
        held = {
            "NaN": x.is_nan,
            "infinity": x.size == INFINITY,
            "minus zero": x.word == SIGN,
            "plus zero": x.word == 0,
            "subnormal": 0 < x.size < LEAST_NORMAL,
        }
        found |= {f"{name} of {kind}" for kind, holds in held.items() if holds}
        with suppress(ArithmeticError, ValueError, AssertionError, KeyError):
            if LEAST_NORMAL < y.size < INFINITY and single(REAL[name](float(x.value()))) != y:
                found.add(f"{name} is not the nearest")
        return found


EXACT = (
    *exact_floats.FUNCTIONS,
    *(
        f"{name} of {kind}"
        for name in exact_floats.FUNCTIONS
        for kind in ("NaN", "infinity", "minus zero", "plus zero", "subnormal", "no number")
    ),
    *(f"{name} is not the nearest" for name in REAL),
)


class ExactSumView(elements.OutputView):
    """The terms of each sum."""

    @property
    def rows(self) -> Any:
        """The words of the operands of each term, and the sum's."""
        size = self.vector.inputs["ATensor"].sizes[-1]
        _, terms = exact_floats._operands(self.vector.inputs)
        parts = (tuple(terms[i * size : (i + 1) * size]) for i in range(self.count))
        return zip(parts, self.expected.tolist(), strict=True)

    def classes_of(self, row: Any) -> set[str]:
        """Return the classes of a sum."""
        terms, word = row
        y = Single(word)
        if not terms or max(Single(x).size for term in terms for x in term) >= INFINITY:
            return {"NaN" if y.is_nan else "infinity" if y.size == INFINITY else "of nothing"}
        values = [prod((Single(x).value() for x in term), start=Fraction(1)) for term in terms]
        real, largest = abs(sum(values, Fraction(0))), max(map(abs, values))
        found = single(sum(values))
        is_small = any(0 < abs(value) < Fraction(1, 2**126) for value in values)
        held = {
            "zero": word == 0,
            "of one term": len(terms) == 1,
            "of two terms": len(terms) == 2,
            "of up to 64 terms": 2 < len(terms) <= 64,
            "of more than 64 terms": 64 < len(terms) <= 1000,
            "of more than 1,000 terms": len(terms) > 1000,
            "a small term": is_small,
            "a product": len(terms[0]) > 1,
            "cancels": 0 < real < largest / 1024,
            "not the nearest": y.is_nan or y != found,
            "negative": y.is_negative,
            "overflows": y.size == INFINITY,
            "NaN": y.is_nan,
        }
        return {name for name, holds in held.items() if holds}


OF_SUMS = (
    *("NaN", "infinity", "of nothing", "zero", "of one term", "of two terms", "of up to 64 terms"),
    *("of more than 64 terms", "of more than 1,000 terms", "a small term", "a product"),
    *("cancels", "not the nearest", "negative", "overflows"),
)


def _rounded(quotients: Any) -> Any:
    return partial(QuotientView, quotients=quotients)


# By operator: how a vector is viewed, names of classes of rows, and predicates of other classes.
FAMILIES: Mapping[str, tuple[Callable[[Vector], Any], tuple[str, ...], Mapping[str, Any]]] = {
    "convolution_integer": (ConvolutionView, (), elements.SUMS),
    "quantized_linear_convolution": (ConvolutionView, OF_BYTES, CONVOLVED),
    "quantized_linear_convolution_add": (_rounded(sum_quotients), OF_BYTES, elements.NEAR_TIES),
    "quantized_linear_average_pooling": (AverageView, OF_BYTES, AVERAGES),
    "quantized_linear_global_average_pooling": (AverageView, OF_BYTES, AVERAGES),
    "max_pooling": (PoolView, tuple(_of_window((0,), 0, 0)), {}),
    "element_wise_quantize_linear": (QuantizeView, elements.OF_BYTES, DIVIDED),
    "element_wise_dequantize_linear": (DequantizeView, elements.OF_TIES, SCALED),
    "matrix_multiply_integer": (MatmulView, (), elements.SUMS),
    "quantized_linear_matrix_multiply": (MatmulView, OF_BYTES, MULTIPLIED),
    "matrix_multiply_integer_to_float": (FloatView, OF_FLOATS, {}),
    "element_wise_quantized_linear_add": (_rounded(add_quotients), OF_BYTES, NEAR_TIES),
    "element_wise_quantized_linear_multiply": (_rounded(multiply_quotients), OF_BYTES, NEAR_TIES),
    "quantized_lookup": (LookupView, (), PLACES),
    "dynamic_quantize_linear": (_rounded(quotients), WITHIN, {NEAR: NEAR_TIES[NEAR]}),
    "nonzero_coordinates": (NonzeroView, (), FOUND),
    "exact_function": (ExactView, EXACT, {}),
    "exact_sum": (ExactSumView, OF_SUMS, {}),
}
