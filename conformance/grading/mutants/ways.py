"""The wrong ways of each family: a function of the oracle that is replaced, and by what.

A row has clauses, a function in `dmlax_conformance.oracle`, and ways by name. A way takes the
oracle's function and returns the wrong one.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from math import ceil, floor, trunc
from typing import Any

import numpy as np

from dmlax_conformance.oracle import exact, fixed_point
from dmlax_conformance.oracle.exact import RANGES, exactly, nearest
from dmlax_conformance.oracle.exact_floats import sequences
from dmlax_conformance.oracle.exact_floats.single import INFINITY, single
from grading.coverage.families import REAL

from .derived import FIELDS, rows_of
from .mutant import VALUES, Mutant, mutant

Way = Callable[[Any], Any]
Ways = Mapping[str, Way]
HALF, FLOATS = Fraction(1, 2), ("float16", "float32")


def instead(function: Any) -> Way:
    """Replace the oracle's function by another, whatever it was."""
    return lambda own: function


def given(change: Callable[..., Any]) -> Way:
    """Change what the oracle's function is given; the change returns its arguments."""
    return lambda own: lambda *arguments: own(*change(*arguments))


def after(change: Callable[[Any], Any]) -> Way:
    """Change what the oracle's function returns."""
    return lambda own: lambda *arguments: change(own(*arguments))


def _rounded(rule: Callable[[Fraction], int]) -> Way:
    return instead(lambda numerator, denominator: rule(Fraction(numerator, denominator)))


def _within(of: str, low: int, high: int) -> Way:
    """Limit one data type to less than its range."""
    return given(lambda value, dtype: (min(max(value, low), high) if dtype == of else value, dtype))


def _bits(count: int, value: int) -> int:
    """Keep so many low bits of a signed number."""
    return (value + (1 << count - 1)) % (1 << count) - (1 << count - 1)


def _saturated(value: int) -> int:
    return min(max(value, -(2**15)), 2**15 - 1)


def _float(dtype: str, value: Fraction) -> Fraction:
    return nearest(exactly(value), dtype).value


def _multiplied(change: Callable[[Fraction], Fraction]) -> Way:
    return given(lambda total, factor, *others: (total, change(factor), *others))


def _fixed(bits: int, value: Fraction) -> Fraction:
    """Return a multiplier with so many bits after the point."""
    return Fraction(round(value * 2**bits), 2**bits)


def _sums(change: Callable[[int], int]) -> Way:
    """Change the int32 sums of a product or a convolution."""
    return after(lambda found: (found[0], [change(total) for total in found[1]]))


def _quotients(dtype: str) -> Way:
    return after(lambda found: [(nearest(value, dtype), point) for value, point in found])


def _first(change: Callable[[Any], Any]) -> Way:
    """Change the first argument."""
    return given(lambda first, *others: (change(first), *others))


def _always(mode: str, own: Any) -> Any:
    """Compute every mode as one."""
    return dict.fromkeys(own, own[mode])


def _cut(bits: int, by: fixed_point.Multiplier) -> fixed_point.Multiplier:
    """Keep the highest bits of a multiplier."""
    return by._replace(value=by.value >> 31 - bits << 31 - bits)


def _through(other: str) -> Way:
    """Round to another float type first."""
    return lambda own: lambda number, dtype: own(exact.decode(own(number, other), other), dtype)


ROUND: Ways = {
    "half-away-from-zero": _rounded(lambda v: floor(v + HALF) if v >= 0 else ceil(v - HALF)),
    "half-toward-zero": _rounded(lambda v: ceil(v - HALF) if v >= 0 else floor(v + HALF)),
    "half-up": _rounded(lambda value: floor(value + HALF)),
    "half-down": _rounded(lambda value: ceil(value - HALF)),
    "half-odd": _rounded(lambda v: 2 * floor(v / 2) + 1 if v % 1 == HALF else round(v)),
    **{f"{rule.__name__}s": _rounded(rule) for rule in (trunc, floor, ceil)},
    "rounds-twice": _rounded(lambda value: round(Fraction(round(value * 16), 16))),
}
CLAMP: Ways = {
    "wraps": instead(lambda value, dtype: (value - RANGES[dtype][0]) % 256 + RANGES[dtype][0]),
    "clamps-to-16-bits-first": given(lambda value, dtype: (_bits(16, value), dtype)),
    "clamps-to-32-bits-first": given(lambda value, dtype: (_bits(32, value), dtype)),
    "clamps-to-minus-127": _within("int8", -127, 127),
    "clamps-int8-to-126": _within("int8", -128, 126),
    "clamps-uint8-from-1": _within("uint8", 1, 255),
    "clamps-uint8-to-254": _within("uint8", 0, 254),
    "clamps-uint8-to-127": _within("uint8", 0, 127),
}
INT32_CLAMP = {name: way for name, way in CLAMP.items() if "32" not in name}
RESCALE: Ways = {
    **{f"{dtype}-multiplier": _multiplied(partial(_float, dtype)) for dtype in FLOATS},
    **{f"fixed-point-{bits}": _multiplied(partial(_fixed, bits)) for bits in (16, 24, 31)},
    "float32-accumulator": _first(lambda total: int(np.float32(total))),
    "zero-point-first": instead(
        lambda total, factor, point, dtype: exact.clamp(round(total * factor + point), dtype)
    ),
}
SUMS: Ways = {
    **{f"sums-in-{bits}-bits": _sums(partial(_bits, bits)) for bits in (16, 24)},
    "sums-in-float32": _sums(lambda total: int(np.float32(total))),
    "sums-saturate-at-16-bits": _sums(_saturated),
}
DIFFERENCES: Ways = {
    "difference-wraps": after(lambda array: array.astype("i1").astype("i8")),
    "difference-saturates": after(lambda array: np.clip(array, -128, 127)),
    "difference-without-sign": after(np.abs),
}
CHANNELS: Ways = {
    "first-value-for-all": given(lambda tensor, place: (tensor, 0)),
    "values-reversed": given(
        lambda tensor, place: (tensor and replace(tensor, words=tensor.words[::-1]), place)
    ),
}
QUOTIENTS: Ways = {f"quotient-in-{dtype}": _quotients(dtype) for dtype in FLOATS}
BIAS: Ways = {
    "bias-is-subtracted": given(lambda a, b: (a, replace(b, negative=not b.negative))),
    "product-rounded-first": _first(partial(_float, "float32")),
    "zero-has-sign-of-bias": lambda own: lambda a, b: b if not a else own(a, b),
}
MEAN: Ways = {
    "sum-is-not-divided": _first(lambda mean: mean._replace(elements=1)),
    "scales-swapped": _first(lambda mean: mean._replace(input=mean.output, output=mean.input)),
    "mean-truncated-first": _first(
        lambda mean: mean._replace(total=int(mean.total / (mean.elements or 1)), elements=1)
    ),
    "sums-saturate-at-16-bits": _first(lambda mean: mean._replace(total=_saturated(mean.total))),
    **{f"{dtype}-mean": after(partial(nearest, dtype=dtype)) for dtype in FLOATS},
}
PADDING: Ways = {
    f"padding-counts-{is_in}": given(
        lambda inputs, options, is_in=is_in: (inputs, {**options, "IncludePadding": is_in})
    )
    for is_in in (True, False)
}
TAPS: Ways = {
    "first-element-lost": after(lambda rows: [row[len(row) > 1 :] for row in rows]),
    "last-element-lost": after(lambda rows: [row[: len(row) - 1 or 1] for row in rows]),
}
LAST: Ways = {"index-of-the-last": after(lambda rows: [row[::-1] for row in rows])}
LOWEST: Ways = {"padding-is-0": lambda own: dict.fromkeys(own, own["uint8"])}
COMBINE: Ways = {
    **QUOTIENTS,
    "subtracts": _first(lambda combine: lambda a, b: a - b),
}
SIGNS: Ways = {
    "uint8-as-int8": lambda own: {**own, "uint8": own["int8"]},
    "int8-as-uint8": lambda own: {**own, "int8": own["uint8"]},
}
THROUGH: Ways = {f"through-{dtype}": _through(dtype) for dtype in FLOATS}
RANGE: Ways = {
    "largest-only": _first(lambda values: [max(values, default=0)]),
    "symmetric": _first(lambda values: [*values, *(-value for value in values)]),
    "every-second": _first(lambda values: values[::2]),
}
POINT: Ways = {"point-is-0": after(lambda found: (found[0], 0))}
NONZERO: Ways = {
    "minus-zero-is-found": instead(lambda word, dtype: word != 0),
    "only-ones": instead(lambda word, dtype: word == 1),
    "nan-is-zero": lambda own: (
        lambda word, dtype: (
            own(word, dtype) and not (dtype in exact.FORMATS and exact.is_nan(word, dtype))
        )
    ),
}
ORDER: Ways = {
    "reversed": after(lambda places: places[::-1]),
    "sorted-as-texts": after(lambda places: sorted(places, key=str)),
}
COUNT: Ways = {"last-lost": after(lambda places: places[:-1])}
COLUMNS: Ways = {
    "one-based": after(lambda row: tuple(place + 1 for place in row)),
    "axes-reversed": after(lambda row: row[::-1]),
}


def _fused(coefficients: Any, x: Any) -> Any:
    """Evaluate a polynomial with one rounding for each step."""
    value = single(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = single(value.value() * x.value() + single(coefficient).value())
    return value


def _total_of(lanes: int, rows: int) -> Callable[..., Any]:
    """Return a sum of another number of sums, which are first added in so many rows."""

    def total(terms: Any) -> Any:
        sums = [sequences.ZERO] * lanes
        for place, term in enumerate(terms):
            sums[place % lanes] = sequences._plus(sums[place % lanes], sequences.flush(term))
        while len(sums) > 1:
            width = len(sums) // (rows if len(sums) >= lanes else 2)
            parts = [sums[place : place + width] for place in range(0, len(sums), width)]
            sums = [reduce(sequences._plus, column) for column in zip(*parts, strict=True)]
        return sums[0]

    return total


def _nearest_sum(terms: Any) -> Any:
    """Round the sum once."""
    if all(term.size < INFINITY for term in terms):
        return single(sum((sequences.flush(term).value() for term in terms), Fraction(0)))
    return _total_of(64, 2)(terms)


def _fused_dot(x: Any, y: Any) -> Any:
    """Round a product and a sum together."""
    sums = [sequences.ZERO] * 64
    for place, (a, b) in enumerate(zip(x, y, strict=True)):
        if max(a.size, b.size, sums[place % 64].size) < INFINITY:
            whole = a.value() * b.value() + sums[place % 64].value()
            sums[place % 64] = single(whole)
        else:
            sums[place % 64] = sums[place % 64] + a * b
    return sequences.total(sums)


def _instead_of(name: str) -> Way:
    """Round the real number, as float64 has it, instead of the sequence's."""

    def function(x: Any) -> Any:
        if x.size < INFINITY:
            with suppress(ArithmeticError, ValueError):
                return single(REAL[name](float(x.value())))
        return sequences.UNARY[name](x)

    return lambda own: {**own, name: function}


SEQUENCES: Ways = {f"nearest-{name.replace('_', '-')}": _instead_of(name) for name in REAL}
POLYNOMIAL: Ways = {"fused": instead(_fused)}
NOTHING_LOST = after(lambda pair: pair._replace(low=sequences.ZERO))
FINISH: Ways = {
    "keeps-subnormal": instead(lambda x: x),
    "keeps-2^-126": instead(sequences.flush),
}
FLUSH: Ways = {"keeps-subnormal-operands": instead(lambda x: x)}
ZEROS: Ways = {"loses-sign": after(lambda x: x if x.size else abs(x))}
TOTAL: Ways = {
    **{f"{lanes}-sums": instead(_total_of(lanes, 2)) for lanes in (1, 8, 16, 32, 128)},
    "halves-of-64": instead(_total_of(64, 2)),
    "four-in-turn": instead(_total_of(64, 4)),
    "rounded-once": instead(_nearest_sum),
    "zero-keeps-sign": after(lambda x: x if x.size else -x),
}
DOT: Ways = {"fused": instead(_fused_dot)}
PLUS: Ways = {"keeps-subnormal-sums": instead(lambda x, y: x + y)}
MODES: Ways = {f"always-{mode}": partial(_always, mode) for mode in fixed_point.MULTIPLIED}
HALF_UP: Ways = {
    "halves-away-from-zero": instead(fixed_point.half_away),
    "halves-down": lambda own: lambda x, count: -own(-x, count),
    "halves-even": instead(lambda x, count: round(Fraction(x, 1 << count))),
    "floors": instead(lambda x, count: x >> count),
}
HALF_AWAY: Ways = {
    "second-halves-up": instead(fixed_point.half_up),
    "second-halves-even": instead(lambda x, count: round(Fraction(x, 1 << count))),
    "second-truncates": instead(lambda x, count: trunc(Fraction(x, 1 << count))),
}
MULTIPLIER: Ways = {f"multiplier-of-{bits}-bits": after(partial(_cut, bits)) for bits in (8, 15)}
SATURATED: Ways = {
    "multiplier-of-24-bits": after(lambda by: by._replace(value=by.value & -128)),
    "multiplier-of-float32": _first(partial(_float, "float32")),
    "multiplier-below-2^31": lambda own: lambda real: own(real - real / 2**31),
}
HIGH: Ways = {
    "shifts-left-late": instead(
        lambda x, by: fixed_point.half_up(x * by.value, 31) << max(by.exponent, 0)
    ),
    "never-shifts-left": given(lambda x, by: (x, by._replace(exponent=min(by.exponent, 0)))),
}
WIDE: Ways = {
    "shifts-left-in-64-bits": instead(
        lambda x, by: fixed_point.half_up((x << max(by.exponent, 0)) * by.value, 31)
    )
}
FLOAT64: Ways = {
    "product-is-real": instead(lambda x, real: floor(abs(x * real) + HALF) * (1 if x > 0 else -1)),
    "product-halves-even": instead(lambda x, real: round(_float("float64", x * real))),
    "product-halves-up": instead(lambda x, real: floor(_float("float64", x * real) + HALF)),
    "product-in-float32": instead(lambda x, real: round(_float("float32", x * real))),
}
WRAPPED: Ways = {
    "bias-does-not-wrap": lambda own: (
        lambda total, factor, point, dtype, mode: exact.clamp(
            fixed_point.scaled(total, _float("float64", factor), mode) + point, dtype
        )
    )
}
ADDED: Ways = {
    "scales-swapped": given(lambda x, y, s, mode: (x, y, (s[1], s[0], s[2]), mode)),
    "real-number": instead(lambda x, y, s, mode: round((x * s[0] + y * s[1]) / s[2])),
    **{
        f"always-{wrong}": given(lambda x, y, s, mode, wrong=wrong: (x, y, s, wrong))
        for wrong in (fixed_point.SINGLE, fixed_point.DOUBLE)
    },
}
PRODUCT: Ways = {
    "real-number": instead(lambda x, y, s, mode: round(x * y * s[0] * s[1] / s[2])),
    "factor-in-float64": instead(
        lambda x, y, s, mode: fixed_point.scaled(x * y, _float("float64", s[0] * s[1] / s[2]), mode)
    ),
}
AVERAGED: Ways = {
    "real-number": instead(lambda total, n, s, mode: round(total * s[0] / (s[1] * n))),
    "multiplier-of-mean": instead(
        lambda total, n, s, mode: fixed_point.scaled(total, s[0] / (s[1] * n), mode)
    ),
    "sum-is-not-divided": given(lambda total, n, s, mode: (total, 1, s, mode)),
}
STEPS: Ways = {f"over-{steps}": instead(steps) for steps in (254, 256)}
_ALL = "QLC-16 QMM-13 ADD-10 MUL-10 GAP-10"
_SHIFTED = "QLC-16 QMM-13 MUL-10 GAP-10"
REQUANTIZED: tuple[tuple[str, str, Ways], ...] = (
    ("QLC-16 QMM-13", "fixed_point.MULTIPLIED", MODES),
    (_ALL, "fixed_point.half_up", HALF_UP),
    (_ALL, "fixed_point.half_away", HALF_AWAY),
    (_ALL, "fixed_point.multiplier", MULTIPLIER),
    ("QLC-16 QMM-13", "fixed_point.multiplier", SATURATED),
    (_SHIFTED, "fixed_point.high", HIGH),
    ("QLC-16 QMM-13", "fixed_point.high", WIDE),
    ("QLC-16 QMM-13", "fixed_point.float64", FLOAT64),
    ("QMM-13", "fixed_point.rescale", WRAPPED),
    ("ADD-10", "fixed_point.added", ADDED),
    ("MUL-10", "fixed_point.multiplied", PRODUCT),
    ("GAP-10", "fixed_point.averaged", AVERAGED),
    ("QLC-16 QMM-13", "exact.clamp", CLAMP),
    ("ADD-10 MUL-10 GAP-10", "exact.clamp", INT32_CLAMP),
)
WAYS: Mapping[str, tuple[tuple[str, str, Ways], ...]] = {
    "convolution": (
        ("QLC-5 QCA-17", "exact.divide_half_even", ROUND),
        ("QLC-6 QCA-18", "exact.clamp", CLAMP),
        ("QLC-1 QCA-1", "exact.rescale", RESCALE),
        ("CVI-1 QLC-2 QCA-2", "convolution.accumulators", SUMS),
        ("CVI-1 QLC-2 QCA-2", "convolution._centred", DIFFERENCES),
        ("QLC-7 QCA-7", "convolution.parameter", CHANNELS),
        ("QCA-16", "binary.add_quotients", QUOTIENTS),
    ),
    "matmul": (
        ("QMM-5 MMF-1", "exact.divide_half_even", ROUND),
        ("QMM-6", "exact.clamp", CLAMP),
        ("QMM-1", "exact.rescale", RESCALE),
        ("MMI-1 MMF-1 QMM-2", "matmul._products", SUMS),
        ("MMI-1 MMF-1 QMM-2", "matmul._centred", DIFFERENCES),
        ("MMF-7", "matmul.add", BIAS),
    ),
    "pooling": (
        ("AVG-2 GAP-2", "exact.divide_half_even", ROUND),
        ("AVG-3 GAP-3", "exact.clamp", CLAMP),
        ("AVG-1 GAP-1", "pooling.mean", MEAN),
        ("AVG-11", "pooling.means", PADDING),
        ("MAX-3 AVG-10 GAP-1", "pooling._along", TAPS),
        ("MAX-7", "pooling._along", LAST),
        ("MAX-2", "pooling.DTYPES", LOWEST),
    ),
    "binary": (
        ("ADD-2 MUL-2", "exact.divide_half_even", ROUND),
        ("ADD-3 MUL-3", "exact.clamp", CLAMP),
        ("ADD-1 MUL-1", "binary._quotients", COMBINE),
    ),
    "exact_floats": (
        ("EXF-1", "exact_floats.FUNCTIONS", SEQUENCES),
        ("EXF-1", "exact_floats.sequences.polynomial", POLYNOMIAL),
        ("EXF-1", "exact_floats.sequences.exact_sum", {"sum-loses-nothing": NOTHING_LOST}),
        ("EXF-1", "exact_floats.sequences.exact_product", {"product-loses-nothing": NOTHING_LOST}),
        ("EXF-2 EXS-3", "exact_floats.sequences.finish", FINISH),
        ("EXF-2", "exact_floats.sequences.finish", ZEROS),
        ("EXF-2", "exact_floats.sequences.flush", FLUSH),
        ("EXS-1", "exact_floats.sequences.total", TOTAL),
        ("EXS-2", "exact_floats.sequences.dot", DOT),
        ("EXS-3", "exact_floats.sequences._plus", PLUS),
    ),
    "lookup": (("LUT-1", "lookup.DTYPES", SIGNS),),
    "element_wise": (
        ("QNT-2 DQT-1", "exact.divide_half_even", ROUND),
        ("QNT-3", "exact.clamp", CLAMP),
        ("DQT-1", "exact.encode", THROUGH),
    ),
    "dynamic_quantize": (
        ("DYN-5", "exact.divide_half_even", ROUND),
        ("DYN-2", "dynamic_quantize.STEPS", STEPS),
        ("DYN-1 DYN-2", "dynamic_quantize.parameters", RANGE),
        ("DYN-4", "dynamic_quantize.parameters", POINT),
    ),
    "nonzero": (
        ("NZC-2", "nonzero.is_nonzero", NONZERO),
        ("NZC-4", "nonzero._hits", ORDER),
        ("NZC-5", "nonzero._hits", COUNT),
        ("NZC-1", "nonzero.coordinates", COLUMNS),
    ),
}


def wrong_ways(operator: str) -> Iterator[Mutant]:
    """Yield the mutants of the table of an operator's family."""
    (family,) = (name for name, own in FIELDS.items() if operator in own["operators"])
    tables = ("", WAYS.get(family, ())), ("requantized-", REQUANTIZED)
    for prefix, rows in tables:
        for clauses, place, ways in rows_of(operator, rows):
            for name, way in ways.items():
                yield mutant(operator, f"{prefix}{name}", clauses, VALUES, place, way)
