"""Elements of an output: exact results and their equivalence classes."""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.oracle import OPERATORS, exact
from dmlax_conformance.oracle.exact import FORMATS, RANGES, Real, divide_half_even, round_half_even

Array = npt.NDArray[Any]
LARGEST = 10_000  # elements of a call that counts

FLOATS = ("float32", "float16")
Quotients = Callable[..., Sequence[tuple[Real, int]]]
OUTPUT, BIAS, OUTPUT_POINT = "OutputTensor", "BiasTensor", "OutputZeroPointTensor"


def counted(vector: Vector) -> Request | Tensor:
    """Return the output whose elements count, or the input if its elements do."""
    return vector.outputs.get("OutputTensor") or vector.inputs["InputTensor"]


def takes_part(vector: Vector) -> bool:
    """Return whether a vector is a call whose elements count."""
    is_call = vector.is_valid and vector.desc is None and not vector.memory
    return is_call and prod(counted(vector).sizes) <= LARGEST


class OutputView:
    """The parts of a call that predicates read; an array has an entry for each element.

    The classes of an element are those of its row, which is what its result is made of.
    """

    rows: Any
    operands: Any  # arrays from which formulas in floats compute the results

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        asked = counted(vector)
        self.vector, self.sizes, self.output = vector, asked.sizes, asked.dtype
        self.count = prod(self.sizes)

    @cached_property
    def expected(self) -> Array:
        """The words of the output."""
        expect: Any = self.vector.expect
        return np.array(expect[OUTPUT].words, np.int64)

    @cached_property
    def named(self) -> set[str]:
        """The classes of all rows."""
        return set[str]().union(*map(self.classes_of, {*self.rows}))

    def classes_of(self, row: Any) -> set[str]:
        """Return the classes of a row."""
        raise NotImplementedError


class QuotientView(OutputView):
    """Quotients that are rounded: a row is an exact quotient and the zero point that is added."""

    def __init__(self, vector: Vector, quotients: Quotients | None = None) -> None:
        """Keep the vector, and the function of the oracle that makes the quotients."""
        super().__init__(vector)
        self.quotients = quotients

    @property
    def rows(self) -> Any:
        """The quotient and the zero point of each element."""
        given = self.vector
        assert self.quotients
        return self.quotients(given.attributes, given.inputs, given.outputs)

    def classes_of(self, row: tuple[Real, int]) -> set[str]:
        """Return the classes of a quotient."""
        if row[0].kind != "finite":
            return set()
        return {name for name, holds in _holds(*row, self.output).items() if holds}

    def errs(self, dtype: str, formula: Callable[..., Any]) -> bool:
        """Return whether a formula in a float type rounds a near tie to another integer."""
        rows = list(self.rows)
        with np.errstate(all="ignore"):
            found = np.rint(formula(*(np.asarray(each).astype(dtype) for each in self.operands)))
            placed = found + np.array([point for _, point in rows]).reshape(found.shape)
            is_finite = np.isfinite(placed)
            clipped = np.clip(np.where(is_finite, placed, 0), *RANGES[self.output])
        is_near = np.array([is_near_tie(quotient) for quotient, _ in rows]).reshape(found.shape)
        return bool(np.any(is_near & is_finite & (clipped.reshape(-1) != self.expected)))

    def misleads(self, dtype: str) -> bool:
        """Return whether a quotient, rounded to a float type first, becomes another integer."""
        return any(
            round_half_even(exact.nearest(each, dtype).value) != round_half_even(each.value)
            for each, _ in {*self.rows}
            if is_near_tie(each)
        )


def _holds(quotient: Real, zero_point: int, dtype: str) -> dict[str, bool]:
    """Return which classes a quotient is in: what is easily done wrong when it is rounded."""
    (value, one), (low, high) = quotient.value.as_integer_ratio(), RANGES[dtype]
    rounded = divide_half_even(value, one)
    distance, placed = value - rounded * one, value + zero_point * one  # units of `one`
    is_inside, is_tie = low < rounded + zero_point < high, abs(2 * distance) == one
    return {
        "tie, even below": is_inside and is_tie and distance > 0,
        "tie, even above": is_inside and is_tie and distance < 0,
        "tie below zero": is_inside and is_tie and value < 0,
        "whole": is_inside and distance == 0,
        "between": is_inside and distance != 0 and not is_tie,
        "zero": value == 0,
        "beside the highest value": high * one <= placed <= (high + 2) * one,
        "beside the lowest value": (low - 2) * one <= placed <= low * one,
        "saturates high": placed > (high + 2) * one,
        "saturates low": placed < (low - 2) * one,
        "far above 16 bits": value >= one << 15,
        "far below 16 bits": value < -one << 15,
        "above 32 bits": value >= one << 31,
        "below 32 bits": value < -one << 31,
    }


class SumView(QuotientView):
    """Sums of products; with a bias they are accumulators, which three scales rescale."""

    integers: str  # the operator that computes the sums
    scale_names: tuple[str, str, str]

    @cached_property
    def sums(self) -> Array:
        """The sums, in 32 bits."""
        names = {row.tensor for row in OPERATORS[self.integers].tensors}
        given = {name: own for name, own in self.vector.inputs.items() if name in names}
        asked = {OUTPUT: Request("int32", self.vector.outputs[OUTPUT].sizes)}
        compute = OPERATORS[self.integers].compute
        return np.array(compute(self.vector.attributes, given, asked)[OUTPUT].words, np.int64)

    def repeated(self, name: str) -> Array:
        """Return the words of a parameter for each sum; a missing one is 0."""
        raise NotImplementedError

    @cached_property
    def accumulators(self) -> Array:
        """The sums with bias."""
        return self.sums + self.repeated(BIAS)

    @property
    def operands(self) -> Any:
        """The accumulators and the scales."""
        scales = (floats(self.repeated(name), "f4") for name in self.scale_names)
        return (self.accumulators, *scales)

    @cached_property
    def rows(self) -> Any:
        """The accumulator times both scales over the output's, and the output zero point."""
        words = (*map(self.repeated, self.scale_names), self.repeated(OUTPUT_POINT))
        rows = zip(self.accumulators.tolist(), *(each.tolist() for each in words), strict=True)
        return [_rescaled(*row) for row in rows]


@lru_cache(maxsize=1 << 16)
def _rescaled(total: int, x: int, w: int, y: int, point: int) -> tuple[Real, int]:
    sx, sw, sy = (exact.decode(word, "float32").value for word in (x, w, y))
    return exact.exactly(total * sx * sw / sy), point


def floats(words: Array, dtype: str) -> Array:
    """Return the floats of this type that have these words."""
    return words.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)


def is_subnormal(values: Array) -> Array:
    """Return which floats are subnormal."""
    return np.asarray((np.abs(values) < np.finfo(values.dtype).tiny) & (values != 0))


@lru_cache(maxsize=1 << 16)
def is_near_tie(quotient: Real) -> bool:
    """Return whether a quotient is within 1/16 of a half: a tie or a near tie."""
    value, one = quotient.magnitude.as_integer_ratio()
    if quotient.kind != "finite" or value > 1000 * one:
        return False
    return 8 * abs(2 * (value % one) - one) < one


def float_classes(result: Real, dtype: str) -> set[str]:
    """Return the classes of a finite number other than 0 that is rounded to a float type."""
    word, side = exact.encode(Real(False, result.magnitude), dtype), ("above", "below")
    if word in (0, FORMATS[dtype].infinity):
        return {f"{'overflows' if word else 'vanishes'} {side[result.negative]}"}
    steps, one = exact.in_last_places(result.magnitude, FORMATS[dtype])
    whole, lost = divmod(steps, one)
    found = {"subnormal"} if word < 1 << FORMATS[dtype].fraction else set()
    if 2 * lost == one:
        return found | {f"tie, even {side[1 - whole % 2]}"}
    found |= {"near tie"} if abs(2 * lost - one) * 2**7 < 2 * one else set()
    return found | {"exact" if not lost else "rounded up" if 2 * lost > one else "rounded down"}


def erring(**formulas: tuple[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the class of near ties at which a formula in a float type errs, for each formula."""
    return {
        f"{name.replace('_', ' ')} errs": lambda view, formula=formula: view.errs(*formula)
        for name, formula in formulas.items()
    }


OF_TIES = ("exact", "rounded down", "rounded up", "tie, even below", "tie, even above", "subnormal")
OF_BYTES = tuple(_holds(Real(False), 0, "int8"))
NEAR_TIES: dict[str, Any] = {
    f"near tie in {dtype}": lambda view, dtype=dtype: view.misleads(dtype)
    for dtype in ("float32", "float64")
}
SUMS: dict[str, Any] = {
    "zero": lambda view: view.expected == 0,
    "above 16 bits": lambda view: view.expected > 2**15,
    "below 16 bits": lambda view: view.expected < -(2**15),
    "above 24 bits": lambda view: view.expected > 2**24,
    "below 24 bits": lambda view: view.expected < -(2**24),
    "lost in float32": lambda view: view.expected.astype("f4").astype("i8") != view.expected,
    "within 16 bits": lambda view: (abs(view.expected) < 2**15) & (view.expected != 0),
}
RESCALED: dict[str, Any] = {
    **erring(
        float32_multiplier=("f4", lambda a, x, w, y: a * (x * w / y)),
        float32_formula=("f4", lambda a, x, w, y: a * (x * w) / y),
        float64_multiplier=("f8", lambda a, x, w, y: a * (x * w / y)),
        float64_reciprocal=("f8", lambda a, x, w, y: a * (x * w) * (1 / y)),
        extended_multiplier=("longdouble", lambda a, x, w, y: a * (x * w / y)),
    ),
    "live sum": lambda view: view.sums != 0,
    "accumulator above 24 bits": lambda view: view.accumulators > 2**24,
    "accumulator below 24 bits": lambda view: view.accumulators < -(2**24),
}
