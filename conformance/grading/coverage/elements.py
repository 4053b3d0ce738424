"""Elements of an output: exact results and their classes, and structures that families share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.oracle import OPERATORS, exact
from dmlax_conformance.oracle.exact import FORMATS, RANGES, Real, divide_half_even, round_half_even

from .matrix import Array, counted

EIGHT, FLOATS = ("int8", "uint8"), ("float32", "float16")
INTEGERS = tuple(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32))
Quotients = Callable[..., Sequence[tuple[Real, int]]]
BY_TWO = (1, 2, 4, 8, 16, 32, 64)
OUTPUT, BIAS, OUTPUT_POINT = "OutputTensor", "BiasTensor", "OutputZeroPointTensor"


class OutputView:
    """The parts of a call that predicates read; an array has an entry for each element.

    The classes of an element are those of its row, which is what its result is made of. An axis is
    the index of each element along it, and its length.
    """

    rows: Any
    operands: Any  # arrays from which formulas in floats compute the results

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        asked = counted(vector)
        self.vector, self.sizes, self.output = vector, asked.sizes, asked.dtype
        self.count = prod(self.sizes)
        self.index = np.arange(self.count)
        self.columns = self.sizes[-1] if self.sizes else 1
        self.axes = {
            "elements": (self.index, self.count),
            "a row": (self.index % max(self.columns, 1), self.columns * (len(self.sizes) > 1)),
        }

    def name_axes(self, sizes: Sequence[int], *names: str) -> None:
        """Name the axes of sizes that have as many elements."""
        indices = np.unravel_index(self.index, sizes) if self.count else [self.index] * len(names)
        self.axes |= {n: (i, s) for n, i, s in zip(names, indices, sizes, strict=True)}

    def name_axes_of_images(self, channels: str) -> None:
        """Name the axes of images, which have up to three axes of space."""
        images, number, *space = self.sizes
        space = [1] * (3 - len(space)) + space
        self.name_axes((images, number, *space), "images", channels, "planes", "rows", "columns")

    @cached_property
    def expected(self) -> Array:
        """The words of the output."""
        expect: Any = self.vector.expect
        return np.array(expect[OUTPUT].words, np.int64)

    def dtype(self, name: str) -> str:
        """Return the data type of an input or an output."""
        tensor: Any = self.vector.inputs.get(name) or self.vector.outputs[name]
        return str(tensor.dtype)

    def length(self, name: str) -> int:
        """Return how many elements a parameter has; an absent one has none."""
        given = self.vector.inputs.get(name)
        return 0 if given is None else len(given.words)

    @cached_property
    def distinct(self) -> tuple[list[Any], Array]:
        """The distinct rows, and the place of each element's row among them."""
        places: dict[Any, int] = {}
        at = [places.setdefault(row, len(places)) for row in self.rows]
        return list(places), np.array(at, int)

    def of_distinct(self, values: Iterable[Any]) -> Array:
        """Return for each element the value of its distinct row."""
        return np.array([*values])[self.distinct[1]] if self.count else np.zeros(0, int)

    @cached_property
    def named(self) -> list[set[str]]:
        """The classes of each distinct row."""
        return [self.classes_of(row) for row in self.distinct[0]]

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
        return those(_holds(*row, self.output)) if row[0].kind == "finite" else set()

    def errs(self, dtype: str, formula: Callable[..., Any]) -> Array:
        """Return the near ties that a formula in a float type rounds to other integers."""
        with np.errstate(all="ignore"):
            found = np.rint(formula(*(np.asarray(each).astype(dtype) for each in self.operands)))
            placed = found + self.of_distinct(point for _, point in self.distinct[0])
            is_finite = np.isfinite(placed)
            clipped = np.clip(np.where(is_finite, placed, 0), *RANGES[self.output])
        is_near = self.of_distinct(is_near_tie(quotient) for quotient, _ in self.distinct[0])
        return np.asarray(is_near & is_finite & (clipped != self.expected))

    def misleads(self, dtype: str) -> Array:
        """Return the quotients that, rounded to a float type first, become other integers."""
        return self.of_distinct(
            is_near_tie(each)
            and round_half_even(exact.nearest(each, dtype).value) != round_half_even(each.value)
            for each, _ in self.distinct[0]
        )


def those(holds: Mapping[str, bool]) -> set[str]:
    """Return the classes that hold."""
    return {name for name, is_so in holds.items() if is_so}


def _holds(quotient: Real, zero_point: int, dtype: str) -> dict[str, bool]:
    """Return which classes a quotient is in: what is easily done wrong when it is rounded."""
    (value, one), (low, high) = quotient.value.as_integer_ratio(), RANGES[dtype]
    rounded = divide_half_even(value, one)
    distance, placed = value - rounded * one, value + zero_point * one  # in parts of one
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


def of_values(text: str, test: Callable[..., Any], values: Iterable[Any]) -> dict[str, Any]:
    """Return a predicate for each value that a test takes."""
    return {text.format(each): lambda view, each=each: test(view, each) for each in values}


def classes(*names: str) -> dict[str, Any]:
    """Return a predicate for each class of rows."""
    return of_values(
        "{}", lambda view, name: view.of_distinct(name in own for own in view.named), names
    )


def erring(**formulas: tuple[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the class of near ties at which a formula in a float type errs, for each formula."""
    return {
        f"{name.replace('_', ' ')} errs": lambda view, formula=formula: view.errs(*formula)
        for name, formula in formulas.items()
    }


OF_ROUNDING = classes(
    *("exact", "rounded down", "rounded up", "tie, even below", "tie, even above", "subnormal")
)
OF_BYTES = classes(*_holds(Real(False), 0, "int8"))
NEAR_TIE = {"near tie in float32": lambda view: view.misleads("float32")}
QUOTIENTS = {**OF_BYTES, **NEAR_TIE, "near tie in float64": lambda view: view.misleads("float64")}
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
    **OF_BYTES,
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


def along(axis: str, limits: Iterable[int] = (), lanes: Iterable[int] = ()) -> dict[str, Any]:
    """Return structures along an axis: beyond limits, in whole vectors of lanes, and after them."""

    def is_within(view: OutputView, lane: int) -> Any:
        index, length = view.axes[axis]
        return index < length // lane * lane

    def is_after(view: OutputView, lane: int) -> Any:
        return ~is_within(view, lane) & (view.axes[axis][1] >= lane)

    def is_beyond(view: OutputView, least: int) -> Any:
        return view.axes[axis][0] >= least

    return {
        **of_values(f"{axis} beyond {{}}", is_beyond, limits),
        **of_values(f"{axis}: in whole vectors of {{}}", is_within, lanes),
        **of_values(f"{axis}: after whole vectors of {{}}", is_after, lanes),
    }


LANES = (8, 16, 32, 64)
ELEMENTS: dict[str, Any] = {
    "fewer than 8 elements": lambda view: view.count < 8,
    **along("elements", (8, 16, 32, 64, 128, 256), LANES),
    **along("a row", (), (8, 16, 32)),
}


def of_one(*names: str) -> dict[str, Any]:
    """Return the structures of axes that have one entry: "column" is of the axis "columns"."""
    return of_values("one {}", lambda view, name: view.axes[f"{name}s"][1] == 1, names)


def at_ranks(
    ranks: Iterable[int], text: str = "rank {}", test: Callable[[Any], Any] = lambda view: True
) -> dict[str, Any]:
    """Return a structure for each rank, where a test holds as well."""
    return of_values(text, lambda view, rank: len(view.sizes) == rank and test(view), ranks)


def varies(view: OutputView) -> bool:
    """Return whether every axis has more than one entry."""
    return min(view.sizes) > 1


def of_types(text: str, *fields: str, dtypes: Sequence[str] = EIGHT) -> dict[str, Any]:
    """Return a structure for each combination of the data types of tensors."""
    return {
        text.format(*own): lambda view, own=own: tuple(map(view.dtype, fields)) == own
        for own in product(dtypes, repeat=len(fields))
    }


OUTPUT_TYPES = of_types("{} output", OUTPUT)
FLOAT_TYPES = of_types("{} output", OUTPUT, dtypes=FLOATS)


def lengths(tensor: str, label: str, one: str = "a {}", many: str = "") -> dict[str, Any]:
    """Return a structure for no, one and several elements of a parameter, which has a label.

    Every call has its scales, and some parameters never have several elements.
    """
    texts = ("" if "Scale" in tensor else "no {}", one, many)
    return {
        text.format(label): lambda view, own=own: min(view.length(tensor), 2) == own
        for own, text in enumerate(texts)
        if text
    }


ONE_OR_MANY = ("one {}", "{}s")
WITH_BIAS: dict[str, Any] = {
    "no bias": lambda view: view.length(BIAS) == 0,
    "a bias": lambda view: view.length(BIAS) > 0,
}
