"""Implementations that differ and are right: a vector that fails one of them is too strict."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from ...format import layout
from ...operators._shared import floats
from ...operators._shared.convolution import Windows
from ...operators._shared.floats import Real
from ...operators._shared.rounding import RANGES
from ...operators.desc_rules import Violation
from ...operators.tables import TABLES
from ..adapter import Case
from .convolution import Scales, wrapped
from .implementation import Implementation
from .layout import Desc, scattered
from .nonzero import then_zeros
from .record import HONEST, Mutant, mutant, with_steps
from .rounding import Rounding
from .steps import Array, Outputs, Sizes

NONZERO, QUANTIZED = "nonzero_coordinates", "quantized_linear_convolution"
INTEGER, QUANTIZE = "convolution_integer", "element_wise_quantize_linear"


def variants() -> Iterator[Mutant]:
    """Yield every permitted variant."""
    yield from _undefined_rows()
    yield from _other_ways()
    yield from _listed()
    for operator in TABLES:
        yield from _descs(operator)
        yield from _arrays(operator)
        yield from _declining(operator)


def _variant(operator: str, name: str, clause: str, about: str, made: Implementation) -> Mutant:
    return mutant(operator, f"permitted-{name}", clause, about, made, must_kill=False)


# -- undefined rows ----------------------------------------------------------------------------


def _filled(value: Callable[[Array, Array], Array]) -> Callable[[Array, Sizes], Array]:
    """Fill what is below the rows with anything."""

    def table(rows: Array, sizes: Sizes) -> Array:
        whole = then_zeros(rows, sizes)
        flat = whole.reshape(sizes[-2:])
        flat[len(rows) :] = value(rows, flat)[: len(flat) - len(rows)]
        return whole

    return table


def _again(rows: Array, flat: Array) -> Array:
    """Repeat the last row, or write zeros when there is none."""
    return np.broadcast_to(rows[-1] if len(rows) else np.uint32(0), flat.shape)


def _counting(rows: Array, flat: Array) -> Array:
    return np.arange(flat.size, dtype=np.uint32).reshape(flat.shape)


def _undefined_rows() -> Iterator[Mutant]:
    ways: dict[str, tuple[str, Callable[[Array, Sizes], Array]]] = {
        "rows-all-ones": (
            "undefined rows hold 2^32 - 1",
            _filled(lambda rows, flat: np.full_like(flat, 2**32 - 1)),
        ),
        "rows-sentinel": (
            "undefined rows hold the number of elements",
            _filled(lambda rows, flat: np.full_like(flat, len(flat))),
        ),
        "rows-repeat": ("undefined rows repeat the last one", _filled(_again)),
        "rows-garbage": ("undefined rows hold what was there before", _filled(_counting)),
        "rows-zero": ("undefined rows hold 0", then_zeros),
    }
    for name, (about, table) in ways.items():
        yield _variant(NONZERO, name, "NZC-6", about, with_steps("nonzero", table=table))


# -- the same results by other ways ------------------------------------------------------------


def _by_cumulative_sum(mask: Array) -> Array:
    """Scatter indices to where a running count says."""
    flat = mask.reshape(-1)
    found = np.zeros(int(flat.sum()), np.int64)
    found[(np.cumsum(flat) - 1)[flat]] = np.arange(flat.size)[flat]
    return found


def _in_float64(products: Array) -> Array:
    return np.asarray(products.astype(np.float64).sum(1).astype(np.int64))


def _blocked(products: Array) -> Array:
    """Add blocks of 4 within 32 bits that wrap."""
    sums = [products[:, at : at + 4].sum(1) for at in range(0, products.shape[1], 4)]
    total: Array = sums[0]
    for block in sums[1:]:
        total = wrapped(total + block)
    return total


def _raw_padding(centred: Array, windows: Windows, zero: int) -> Array:
    """Pad the raw image by its zero point, then subtract it."""
    around = [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]
    return np.pad(centred + zero, around, constant_values=zero) - zero


def _as_integers(accumulator: int, scales: Scales) -> Real:
    """Multiply and divide numerators and denominators only."""
    sx, sw, sy = scales
    above = accumulator * sx.numerator * sw.numerator * sy.denominator
    below = sx.denominator * sw.denominator * sy.numerator
    return floats.exactly(Fraction(above, below))


def _by_search(quotient: Fraction, zero_point: int) -> int:
    """Choose the nearer neighbour, the even one of two equally near."""
    below = quotient.__floor__()
    near = min((below, below + 1), key=lambda each: (abs(quotient - each), each % 2))
    return near + zero_point


def _other_ways() -> Iterator[Mutant]:
    made = with_steps("nonzero", order=_by_cumulative_sum)
    about = "rows are found by a running count"
    yield _variant(NONZERO, "running-count", "NZC-4", about, made)
    clauses = {QUANTIZED: "QLC-2", INTEGER: "CVI-1"}
    for operator, clause in clauses.items():
        made = with_steps("sums", total=_in_float64)
        about = "sums are kept in FLOAT64, which holds them all"
        yield _variant(operator, "float64-sums", clause, about, made)
        about = "sums wrap at 32 bits after every block of 4"
        made = with_steps("sums", total=_blocked)
        yield _variant(operator, "blocked-sums", clause, about, made)
        about = "the raw image is padded by its zero point"
        yield _variant(operator, "raw-padding", clause, about, with_steps("sums", pad=_raw_padding))
    made = with_steps("requantize", rescale=_as_integers)
    yield _variant(QUANTIZED, "integer-rescale", "QLC-1", "scales are integer ratios", made)
    for operator, part, clause in (
        (QUANTIZED, "requantize", "QLC-5"),
        (QUANTIZE, "quantize", "QNT-2"),
    ):
        made = with_steps(part, rounding=Rounding(place=_by_search))
        about = "the nearer neighbour is searched for"
        yield _variant(operator, "nearest-by-search", clause, about, made)


# -- values that the vectors list --------------------------------------------------------------


def _listed() -> Iterator[Mutant]:
    values: dict[str, Callable[[int, str], int]] = {
        "zero-point": lambda zero_point, dtype: zero_point,
        "highest": lambda zero_point, dtype: RANGES[dtype][1],
        "lowest": lambda zero_point, dtype: RANGES[dtype][0],
    }
    for name, value in values.items():
        made = with_steps("quantize", rounding=Rounding(special=_nan_as(value)))
        about = f"NaN gives the {name.replace('-', ' ')}"
        yield _variant(QUANTIZE, f"nan-{name}", "QNT-7", about, made)


def _nan_as(value: Callable[[int, str], int]) -> Callable[[Real, int, str], int]:
    def special(quotient: Real, zero_point: int, dtype: str) -> int:
        low, high = RANGES[dtype]
        if quotient.kind == "nan":
            return value(zero_point, dtype)
        return low if quotient.negative else high

    return special


# -- descs -------------------------------------------------------------------------------------


def _descs(operator: str) -> Iterator[Mutant]:
    orders: dict[str, tuple[str, Callable[[Sequence[Violation]], Sequence[Violation]]]] = {
        "last-violation": ("the last broken rule is reported", lambda found: found[::-1]),
        "by-code": (
            "the first code in the alphabet is reported",
            lambda found: sorted(found, key=lambda each: each.code),
        ),
        "by-field": (
            "the first field in the alphabet is reported",
            lambda found: sorted(found, key=lambda each: each.field),
        ),
    }
    for name, (about, order) in orders.items():
        made = replace(HONEST, inspect=_ordered(order))
        yield _variant(operator, name, "tensor-data-type", f"descs: {about}", made)
    for name, gap in {"gaps-odd": 0x55, "gaps-ones": -1}.items():
        made = replace(HONEST, layout=replace(HONEST.layout, scatter=_with_gaps(gap)))
        about = f"descs: gaps of an output hold {gap}"
        yield _variant(operator, name, "tensor-buffer", about, made)


def _ordered(
    order: Callable[[Sequence[Violation]], Sequence[Violation]],
) -> Callable[[Case, Sequence[Violation]], Sequence[Violation]]:
    return lambda case, found: order(found)


def _with_gaps(gap: int) -> Callable[[Desc, Array], Array]:
    """Fill gaps by NaN in floats, else by a number."""

    def scatter(desc: Desc, array: Array) -> Array:
        if layout.is_packed(desc):
            return array
        filling = np.full(1, np.nan if array.dtype.kind == "f" else gap).astype(array.dtype)
        held = np.broadcast_to(filling, layout.buffer_length(desc)).copy()
        is_element = scattered(desc, np.ones(array.shape, bool))
        held[is_element] = scattered(desc, array)[is_element]
        return held

    return scatter


# -- arrays and declining ----------------------------------------------------------------------


def _arrays(operator: str) -> Iterator[Mutant]:
    forms: dict[str, tuple[str, Callable[[Array], Array]]] = {
        "column-major-array": ("arrays lie in column-major order", np.asfortranarray),
        "big-endian": (
            "arrays have the other byte order",
            lambda array: array.astype(array.dtype.newbyteorder()),
        ),
    }
    for name, (about, form) in forms.items():
        made = replace(HONEST, finish=_formed(form))
        yield _variant(operator, name, _clause(operator), about, made)


def _clause(operator: str) -> str:
    return {NONZERO: "NZC-5", QUANTIZED: "QLC-1", INTEGER: "CVI-1", QUANTIZE: "QNT-1"}.get(
        operator, "DQT-1"
    )


def _formed(form: Callable[[Array], Array]) -> Callable[[Outputs, Case], Outputs]:
    return lambda outputs, case: {name: form(array) for name, array in outputs.items()}


def _declining(operator: str) -> Iterator[Mutant]:
    made = replace(HONEST, declines=lambda case: bool(case.requires))
    about = "whatever needs a capability is declined"
    yield _variant(operator, "plain-calls-only", _clause(operator), about, made)
    made = replace(HONEST, capabilities=frozenset({"descriptors"}))
    about = "strided tensors are not supported"
    yield _variant(operator, "no-strides", _clause(operator), about, made)
