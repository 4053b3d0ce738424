"""Implementations that differ and are right: a vector that fails one of them is too strict."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ...format import layout
from ...operators import OPERATORS
from ...operators._shared import floats
from ...operators._shared.convolution import Windows
from ...operators._shared.floats import Real
from ...operators._shared.rounding import RANGES
from ..adapter import Case
from .convolution import Scales, wrapped
from .implementation import Found
from .layout import Desc, scattered
from .nonzero import then_zeros
from .record import PERMITTED, Bug, bug, in_part
from .rounding import Rounding
from .steps import Array, Outputs, Sizes


def variants(room: Any) -> Iterator[Bug]:
    """Yield the permitted variants of a room's operator: its own, and those of every operator."""
    for clause, part, step, ways in room.PERMITTED:
        yield from _in_part(room.OPERATOR, clause, part, step, ways)
    yield from _of_every(room.OPERATOR, room.RESULT)


def _in_part(
    operator: str, clause: str, part: str, step: str, ways: Mapping[str, Any]
) -> Iterator[Bug]:
    named = {f"permitted-{name}": way for name, way in ways.items()}
    return in_part(operator, clause, part, step, named, PERMITTED)


def _of_every(operator: str, clause: str) -> Iterator[Bug]:
    """Yield the variants that every operator has: of arrays, capabilities and descs."""

    def variant(name: str, clause: str, **steps: Any) -> Bug:
        return bug(operator, f"permitted-{name}", clause, PERMITTED, **steps)

    for name, form in FORMS.items():
        yield variant(name, clause, finish=form)
    yield variant("plain-calls-only", clause, declines=lambda case: bool(case.requires))
    if not OPERATORS[operator].tables:
        return
    for name, order in ORDERS.items():
        yield variant(name, "tensor-data-type", refuse=order)
    gaps = {"gaps-odd": partial(_with_gaps, 0x55), "gaps-ones": partial(_with_gaps, -1)}
    yield from _in_part(operator, "tensor-buffer", "layout", "scatter", gaps)
    yield variant("no-strides", clause, capabilities=frozenset({"descriptors"}))


# -- undefined rows ----------------------------------------------------------------------------


def _filled(value: Callable[[Array, Array], Any], rows: Array, sizes: Sizes) -> Array:
    """Fill what is below the rows with anything."""
    whole = then_zeros(rows, sizes)
    flat = whole.reshape(sizes[-2:])
    filling = np.broadcast_to(np.asarray(value(rows, flat), np.uint32), flat.shape)
    flat[len(rows) :] = filling[: len(flat) - len(rows)]
    return whole


UNDEFINED_ROWS: dict[str, Callable[[Array, Sizes], Array]] = {
    "rows-all-ones": partial(_filled, lambda rows, flat: 2**32 - 1),
    "rows-sentinel": partial(_filled, lambda rows, flat: len(flat)),
    "rows-repeat": partial(_filled, lambda rows, flat: rows[-1] if len(rows) else 0),
    "rows-garbage": partial(_filled, lambda rows, flat: np.arange(flat.size).reshape(flat.shape)),
    "rows-zero": then_zeros,
}


# -- the same results by other ways ------------------------------------------------------------


def _running_count(mask: Array) -> Array:
    """Scatter indices to where a running count says."""
    flat = mask.reshape(-1)
    found = np.zeros(int(flat.sum()), np.int64)
    found[(np.cumsum(flat) - 1)[flat]] = np.arange(flat.size)[flat]
    return found


def _blocked(products: Array) -> Array:
    """Add blocks of 4 within 32 bits that wrap."""
    total = np.zeros_like(products.sum(1))
    for at in range(0, products.shape[1], 4):
        total = wrapped(total + products[:, at : at + 4].sum(1))
    return np.asarray(total)


def _raw_padding(centred: Array, windows: Windows, zero: int) -> Array:
    """Pad the raw image by its zero point, then subtract it."""
    around = [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]
    return np.pad(centred + zero, around, constant_values=zero) - zero


def _by_integers(accumulator: int, scales: Scales) -> Real:
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


TOTALS: dict[str, Callable[[Array], Array]] = {
    "float64-sums": lambda products: products.astype(np.float64).sum(1).astype(np.int64),
    "blocked-sums": _blocked,
}
INDICES = {"running-count": _running_count}
PADDINGS = {"raw-padding": _raw_padding}
RESCALES = {"integer-rescale": _by_integers}
ROUNDINGS = {"nearest-by-search": Rounding(place=_by_search)}


# -- values that the vectors list --------------------------------------------------------------


def _nan_as(value: Callable[[int, str], int]) -> Rounding:
    def special(quotient: Real, zero_point: int, dtype: str) -> int:
        if quotient.kind == "nan":
            return value(zero_point, dtype)
        return RANGES[dtype][not quotient.negative]

    return Rounding(special=special)


NAN_ROUNDINGS = {
    "nan-zero-point": _nan_as(lambda zero_point, dtype: zero_point),
    "nan-highest": _nan_as(lambda zero_point, dtype: RANGES[dtype][1]),
    "nan-lowest": _nan_as(lambda zero_point, dtype: RANGES[dtype][0]),
}


# -- of every operator -------------------------------------------------------------------------


ORDERS: dict[str, Callable[[Case, Found], Found]] = {
    "last-violation": lambda case, found: found[::-1],
    "by-code": lambda case, found: sorted(found, key=lambda each: each.code),
    "by-field": lambda case, found: sorted(found, key=lambda each: each.field),
}
FORMS: dict[str, Callable[[Outputs, Case], Outputs]] = {
    "column-major-array": lambda outputs, case: {
        name: np.array(array, order="F") for name, array in outputs.items()
    },
    "big-endian": lambda outputs, case: {
        name: array.astype(array.dtype.newbyteorder()) for name, array in outputs.items()
    },
}


def _with_gaps(gap: int, desc: Desc, array: Array) -> Array:
    """Fill gaps by NaN in floats, else by a number."""
    if layout.is_packed(desc):
        return array
    filling = np.full(1, np.nan if array.dtype.kind == "f" else gap).astype(array.dtype)
    held = np.broadcast_to(filling, layout.buffer_length(desc)).copy()
    is_element = scattered(desc, np.ones(array.shape, bool))
    held[is_element] = scattered(desc, array)[is_element]
    return held
