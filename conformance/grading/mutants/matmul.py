"""Mutants of the three matrix products: their steps, and one table of wrong ways."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import ceil, floor, prod
from typing import Any

import numpy as np

from dmlax_conformance.oracle import exact as floats
from dmlax_conformance.oracle.exact import FORMATS, Real
from dmlax_conformance.oracle.operator import dashed
from dmlax_conformance.runner.adapter import Case

from . import arithmetic
from .arithmetic import HALF, Requantize, clipped, modulo, store_sums, total, without, wrapped
from .engine.mutant import Table, Way, When
from .engine.refusals import has_length, has_rank, is_bad, is_long
from .engine.steps import Array, Call, Outputs, Sizes, of_float, reals, to_float
from .family import for_each, load

A, B, BIAS, OUTPUT = "ATensor", "BTensor", "BiasTensor", "OutputTensor"
SCALES = A_SCALE, B_SCALE, OUTPUT_SCALE = "AScaleTensor", "BScaleTensor", "OutputScaleTensor"
POINTS = A_POINT, B_POINT, OUTPUT_POINT = [name.replace("Scale", "ZeroPoint") for name in SCALES]
ZERO = np.zeros((), np.int8)
Ways = Mapping[str, Any]
Factors = tuple[Fraction, ...]  # the scales of A and B
Repeat = Callable[[Array, Sizes], Array]  # matrices to a batch, or a bias to the output's sizes
Combine = Callable[[int, Factors, Real, str], Real]  # from a sum, scales, a bias and a data type
Formula = Callable[..., Any]  # of a sum, both scales and a bias

# -- steps -------------------------------------------------------------------------------------


def axes_of_rank_1(inputs: Mapping[str, Array]) -> tuple[int, ...]:
    """Return the axes of the sums that operands of rank 1 do not have."""
    return tuple(axis for name, axis in ((A, -2), (B, -1)) if inputs[name].ndim == 1)


def matrices(call: Call) -> tuple[Array, Array]:
    """Return both operands; an operand of rank 1 is one row of A, or one column of B."""
    a, b = call.inputs[A], call.inputs[B]
    return a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b


def parameter(given: Array, rank: int) -> Array:
    """Return a parameter without leading axes beyond a rank."""
    return given.reshape(() if given.size == 1 else given.shape[max(given.ndim - rank, 0) :])


def spread(given: Array, call: Call, sums: Array) -> Array:
    """Repeat a parameter to all sums."""
    sizes = np.expand_dims(sums, axes_of_rank_1(call.inputs)).shape
    return np.broadcast_to(parameter(given, len(sizes)), sizes)


def repeat(matrices: Array, batch: Sizes) -> Array:
    """Repeat the matrices of an operand to a batch."""
    return np.broadcast_to(matrices, (*batch, *matrices.shape[-2:]))


@dataclass(frozen=True)
class Products:
    """The steps of the integer sums, in order."""

    centre_a: Callable[[Array, Array], Array] = without
    centre_b: Callable[[Array, Array], Array] = without
    pair: Callable[[Array, Array], tuple[Array, Array]] = lambda a, b: (a, b)
    repeat: Repeat = repeat
    total: Callable[[Array], Array] = total
    wrap: Callable[[Array], Array] = wrapped

    def __call__(self, call: Call) -> Array:
        """Return the 32-bit sums in the sizes of the output."""
        a, b = matrices(call)
        a = self.centre_a(a, parameter(call.inputs.get(A_POINT, ZERO), a.ndim))
        b = self.centre_b(b, parameter(call.inputs.get(B_POINT, ZERO), b.ndim))
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (self.repeat(matrices, batch) for matrices in self.pair(a, b))
        products = a[..., None] * b[..., None, :, :]
        sums = self.total(products.reshape(prod(products.shape[:-2]), *products.shape[-2:]))
        whole = self.wrap(sums.reshape(*products.shape[:-2], products.shape[-1]))
        return whole.squeeze(axes_of_rank_1(call.inputs))


def exactly(formula: Formula, through: str = "", is_minus: Any = None) -> Combine:
    """Return a formula in real arithmetic, then rounded to a float type, or with a sign of zero."""

    def combine(total: int, scales: Factors, bias: Real, dtype: str) -> Real:
        if bias.kind != "finite":
            return bias
        result = floats.exactly(formula(Fraction(total), *scales, bias.value))
        if is_minus and result.is_zero:
            return Real(is_minus(*scales, bias))
        return floats.nearest(result, through) if through else result

    return combine


def scale_and_add(total: Any, a: Any, b: Any, bias: Any) -> Any:
    """Return the sum times both scales, plus the bias."""
    return total * a * b + bias


exact = exactly(scale_and_add)


@dataclass(frozen=True)
class ToFloat:
    """The steps from sums to a float output, in order."""

    spread_bias: Callable[[Array, Sizes], Array] = np.broadcast_to
    combine: Combine = exact
    encode: Callable[[Real, str], int] = floats.encode

    def __call__(self, sums: Array, call: Call) -> Outputs:
        """Return the output, rounded once."""
        dtype = call.outputs[OUTPUT].dtype
        bias = self.spread_bias(call.inputs.get(BIAS, np.zeros((), dtype)), sums.shape)
        scales = arithmetic.spread_scales(call, SCALES[:2], sums, spread)
        rows = zip(sums.reshape(-1).tolist(), scales, reals(bias), strict=True)
        words = [self.encode(self.combine(*row, dtype), dtype) for row in rows]
        bits = np.array(words, f"uint{8 * np.dtype(dtype).itemsize}")
        return {OUTPUT: bits.view(dtype).reshape(sums.shape)}


def add_bias(sums: Array, bias: Array) -> Array:
    """Add a bias that repeats to the output; nothing wraps."""
    return np.asarray(sums + bias.astype(np.int64))


# -- wrong ways --------------------------------------------------------------------------------


def _on_other_axis(given: Array, call: Call) -> Array:
    """Take a parameter of rows for one of columns, and the reverse, where matrices are square."""
    a, b = matrices(call)
    if given.size == 1 or len({*a.shape[-2:], *b.shape[-2:]}) > 1:
        return given
    return np.swapaxes(given, -1, -2) if given.ndim > 1 else given[:, None]


def _with_type_of(other: str) -> Callable[[Array, Call], Array]:
    """Read the bits of an operand in the data type of the other operand."""
    return lambda data, call: data.view(call.inputs[other].dtype) if data.itemsize == 1 else data


def _at_least_normal(name: str) -> Way:
    """Take scales below the least normal number of FLOAT32 for it."""
    return lambda scale, call: np.copysign(np.maximum(np.abs(scale), 2.0**-126), scale)


def _with_swapped_points(call: Call) -> Call:
    """Subtract from an operand the zero point of the other, where both are one value."""
    a, b = (call.inputs.get(name, ZERO) for name in (A_POINT, B_POINT))
    if a.size > 1 or b.size > 1:
        return call
    return call._replace(inputs={**call.inputs, A_POINT: b, B_POINT: a})


def _repeated(order: Callable[[int, int], Array]) -> Repeat:
    """Repeat matrices in another order, which follows from how many there are and should be."""

    def repeat_otherwise(matrices: Array, batch: Sizes) -> Array:
        sizes = matrices.shape[-2:]
        if batch == matrices.shape[:-2] or not matrices.size:
            return repeat(matrices, batch)
        flat = matrices.reshape(-1, *sizes)
        return flat[order(len(flat), prod(batch))].reshape(*batch, *sizes)

    return repeat_otherwise


def _align_left(matrices: Array, batch: Sizes) -> Array:
    """Repeat along the last axes of a batch, as if sizes aligned on the left."""
    left = (*matrices.shape[:-2], *[1] * (len(batch) - matrices.ndim + 2))
    fits = all(size in (1, wanted) for size, wanted in zip(left, batch, strict=True))
    return repeat(matrices.reshape(*left, *matrices.shape[-2:]) if fits else matrices, batch)


def _transposed(matrix: Array) -> Array:
    """Transpose square matrices."""
    return np.swapaxes(matrix, -1, -2) if matrix.shape[-1] == matrix.shape[-2] else matrix


def _in_blocks(block: int, array: Array, axis: int) -> Array:
    """Leave what lies beyond whole blocks along an axis 0, if there is a whole block."""
    length = array.shape[axis]
    is_kept = np.arange(length) < (length // block * block or length)
    return np.where(is_kept[:, None] if axis == -2 else is_kept, array, 0)


def _lost(output: Array, case: Case) -> Array:
    """Drop the axis of one row, whatever the rank of A is."""
    is_product = case.desc is None and not axes_of_rank_1(case.inputs)
    return output[..., 0, :] if is_product and output.shape[-2] == 1 else output


def _scales_first(total: Any, a: Any, b: Any, bias: Any) -> Any:
    return total * (a * b) + bias


def _in_floats(dtype: str, formula: Formula, only: str = "") -> Combine:
    """Round every step of a formula to a float type, for all output types or only one."""

    def combine(total: int, scales: Factors, bias: Real, asked: str) -> Real:
        if only and asked != only:
            return exact(total, scales, bias, asked)
        factors = (to_float(number, dtype) for number in (Fraction(total), *scales))
        return of_float(formula(*factors, _to_float(bias, dtype)))

    return combine


def _to_float(number: Real, dtype: str) -> Any:
    """Return the NumPy float nearest to a number, which may be infinite or NaN."""
    return np.array(floats.encode(number, dtype), f"uint{dtype[5:]}").view(dtype)[()]


def _float32(value: Fraction) -> Fraction:
    """Round a number to FLOAT32, unless it overflows."""
    rounded = floats.nearest(floats.exactly(value), "float32")
    return rounded.value if rounded.kind == "finite" else value


def _encoding(change: Callable[[Fraction, Fraction, Any], Any]) -> Callable[[Real, str], int]:
    """Change a magnitude first, given its unit in the last place and NumPy's `finfo`."""

    def encode(number: Real, dtype: str) -> int:
        unit = floats.scaled(1, floats.last_place(number.magnitude, FORMATS[dtype]))
        magnitude = Fraction(change(number.magnitude, unit, np.finfo(dtype)))
        return floats.encode(replace(number, magnitude=magnitude), dtype)

    return encode


def _along_rows(bias: Array, sizes: Sizes) -> Array:
    """Take the bias of columns for one of rows, where both fit."""
    is_square = len(sizes) > 1 and sizes[-1] == sizes[-2]
    return np.broadcast_to(bias[:, None] if is_square and bias.ndim == 1 else bias, sizes)


def _on_first(axis: int, bias: Array, sizes: Sizes) -> Array:
    """Place the bias on what comes first along an axis only."""
    placed = np.broadcast_to(bias, sizes).copy()
    if -len(sizes) <= axis < len(sizes):
        np.moveaxis(placed, axis, 0)[1:] = 0
    return placed


def _added(place: Repeat) -> Callable[[Array, Array], Array]:
    return lambda sums, bias: add_bias(sums, place(bias, sums.shape))


def _operands(test: Callable[[Array, Array], Any]) -> When:
    return lambda case: test(case.inputs[A], case.inputs[B])


def _spare_rows(a: Array, b: Array) -> int:
    """Return by how much the rows of B exceed the columns of A, if both have axes."""
    return int(b.shape[-2:][0] - a.shape[-1]) if a.ndim and b.ndim else 0


def _do_batches_differ(a: Array, b: Array) -> bool:
    """Return whether batches are all that is wrong."""
    pairs = zip(a.shape[-3::-1], b.shape[-3::-1], strict=False)
    return not _spare_rows(a, b) and any(x != y and 1 not in (x, y) for x, y in pairs)


def _has_batch(name: str) -> When:
    return lambda case: name in case.inputs and max(case.inputs[name].shape[:-2], default=1) > 1


# -- the table, by topics (the clauses of all products) and places ------------------------------

SUM = "MMI-1 MMF-1 MMF-2 QMM-1 QMM-2"
SHAPE = "MMI-2 MMF-3 QMM-3"
RANKS = "MMI-3 MMF-4 QMM-4"
OPERAND_TYPES = "MMI-1 MMI-4 MMF-2 MMF-6 QMM-2 QMM-8"
OPERAND_POINTS = "MMI-5 MMF-2 MMF-5 QMM-2 QMM-7"
PARAMETERS = {
    **dict.fromkeys((A_POINT, B_POINT), OPERAND_POINTS),
    **dict.fromkeys((A_SCALE, B_SCALE), "MMF-5 QMM-7"),
    **dict.fromkeys((OUTPUT_SCALE, OUTPUT_POINT), "QMM-7"),
}
OF_PARAMETERS: Mapping[str, Ways] = {
    "read": {"{}-on-the-other-axis": lambda name: _on_other_axis},
    "accept sizes": {
        "accepts-flat-{}s": lambda name: has_rank(name, 1),
        "accepts-{}s-by-k": partial(has_length, tensor=A, axis=-1),
    },
    "refuse sizes": {"refuses-{}s": is_long, "refuses-{}s-of-a-batch": _has_batch},
}
DIFFERENCES = arithmetic.WRONG_DIFFERENCES.items()
TABLE: Table = {
    (OPERAND_POINTS, "sums.centre_a"): {f"a-{name}": way for name, way in DIFFERENCES},
    (OPERAND_POINTS, "sums.centre_b"): {f"b-{name}": way for name, way in DIFFERENCES},
    (SHAPE, "sums.repeat"): {
        "batch-cycled": _repeated(lambda count, most: np.arange(most) % count),
        "batch-stretched": _repeated(lambda count, most: np.arange(most) // -(-most // count)),
        "batch-is-first-matrix": _repeated(lambda count, most: np.zeros(most, int)),
        "batch-aligned-left": _align_left,
    },
    (SUM, "sums.pair"): {
        "b-turned": lambda a, b: (a, _transposed(b)),
        "a-turned": lambda a, b: (_transposed(a), b),
        "b-held-by-columns": lambda a, b: (
            a,
            b.reshape(*b.shape[:-2], *b.shape[:-3:-1]).swapaxes(-1, -2),
        ),
        **{
            f"rows-beyond-{n}s-lost": lambda a, b, n=n: (_in_blocks(n, a, -2), b)
            for n in (2, 4, 8, 16, 32)
        },
    },
    (SUM, "sums.total"): {
        **arithmetic.WRONG_TOTALS,
        **{
            f"columns-beyond-{n}s-lost": lambda products, n=n: _in_blocks(n, total(products), -1)
            for n in (2, 4, 8, 16, 32, 64)
        },
    },
    ("MMI-6 MMF-10 QMM-11", "sums.wrap"): {
        "sums-saturate": lambda sums: clipped(sums, 32),
        "sums-never-wrap": lambda sums: np.asarray(np.abs(wrapped(sums)) * np.sign(sums)),
    },
    ("MMF-1", "float.combine"): {
        "float32-in-turn": _in_floats("float32", scale_and_add),
        "float32-scales-first": _in_floats("float32", _scales_first),
        "float32-b-first": _in_floats("float32", lambda total, a, b, bias: total * b * a + bias),
        "float64-formula": _in_floats("float64", scale_and_add),
        "float64-for-float16": _in_floats("float64", scale_and_add, "float16"),
        "float16-formula": _in_floats("float16", scale_and_add),
        "float16-formula-for-float16": _in_floats("float16", _scales_first, "float16"),
        "fma": exactly(lambda s, a, b, c: _float32(s) * _float32(a * b) + c, "float32"),
        "float32-sum": exactly(lambda s, a, b, c: _float32(s) * a * b + c),
        "float32-product-of-scales": exactly(lambda s, a, b, c: s * _float32(a * b) + c),
        **{f"through-float{bits}": exactly(scale_and_add, f"float{bits}") for bits in (16, 32, 64)},
    },
    ("MMF-1 MMF-7", "float.combine"): {
        "bias-after-rounding": lambda total, scales, bias, dtype: of_float(
            to_float(Fraction(total * prod(scales)), dtype) + _to_float(bias, dtype)
        ),
        "bias-before-scaling": exactly(lambda s, a, b, c: (s + c) * a * b),
        "bias-quantized-first": exactly(
            lambda s, a, b, c: modulo(32, int(s) + round(c / (a * b))) * a * b
        ),
    },
    ("MMF-8", "float.combine"): {
        "zero-has-sign-of-bias": exactly(scale_and_add, is_minus=lambda a, b, c: c.negative),
        "zero-has-sign-of-scales": exactly(scale_and_add, is_minus=lambda a, b, c: a * b < 0),
    },
    ("MMF-1 MMF-8", "float.encode"): {
        "rounds-half-away": _encoding(lambda size, unit, info: floor(size / unit + HALF) * unit),
        "rounds-toward-zero": _encoding(lambda size, unit, info: floor(size / unit) * unit),
        "rounds-away-from-zero": _encoding(lambda size, unit, info: ceil(size / unit) * unit),
        "overflow-is-largest": _encoding(lambda size, unit, info: min(size, float(info.max))),
        "subnormals-flushed": _encoding(
            lambda size, unit, info: size if size + unit / 2 >= float(info.tiny) else 0
        ),
        "vanishing-has-no-sign": lambda number, dtype: (
            0 if floats.nearest(number, dtype).is_zero else floats.encode(number, dtype)
        ),
    },
    ("MMF-7", "float.spread_bias"): {
        "bias-along-rows": _along_rows,
        "bias-on-first-row": partial(_on_first, -2),
        "bias-cycled": np.resize,
    },
    ("MMF-7", f"read {BIAS}"): {
        "bias-ignored": lambda bias, call: np.zeros_like(bias),
        "bias-subtracted": lambda bias, call: -bias,
        "bias-twice": lambda bias, call: bias + bias,
        "bias-without-sign": lambda bias, call: np.abs(bias),
        "bias-nan-is-0": lambda bias, call: np.where(np.isnan(bias), bias.dtype.type(0), bias),
        "bias-infinity-is-largest": lambda bias, call: np.nan_to_num(bias, nan=np.nan),
        "bias-in-float16": lambda bias, call: bias.astype(np.float16).astype(bias.dtype),
        "bias-truncated": lambda bias, call: np.where(np.isfinite(bias), np.trunc(bias), bias),
    },
    ("QMM-9", "requantize.bias"): {
        "bias-wraps": lambda sums, bias: wrapped(add_bias(sums, bias)),
        "bias-saturates": lambda sums, bias: clipped(add_bias(sums, bias), 32),
        "bias-in-float32": lambda sums, bias: (np.float32(sums) + np.float32(bias)).astype(
            np.int64
        ),
        "bias-on-first-matrix": _added(partial(_on_first, 0)),
        "bias-on-first-row": _added(partial(_on_first, 1)),
        "bias-along-rows": _added(_along_rows),
    },
    ("QMM-1", "requantize.rescale"): {
        "a-scale-for-b": arithmetic.with_scales(lambda a, b, y: (a, a, y)),
        "b-scale-for-a": arithmetic.with_scales(lambda a, b, y: (b, b, y)),
        "a-and-output-scale-swapped": arithmetic.with_scales(lambda a, b, y: (y, b, a)),
        **arithmetic.WRONG_RESCALES,
    },
    (RANKS, f"output {OUTPUT}"): {
        "keeps-axes-of-rank-1": lambda y, case: (
            y if case.desc else np.expand_dims(y, axes_of_rank_1(case.inputs))
        ),
        "drops-axis-of-one-row": _lost,
    },
    (OPERAND_TYPES, f"read {A}"): {"a-with-type-of-other": _with_type_of(B)},
    (OPERAND_TYPES, f"read {B}"): {"b-with-type-of-other": _with_type_of(A)},
    (OPERAND_TYPES, f"refuse data_type {B}"): {
        "refuses-mixed-types": _operands(lambda a, b: a.dtype != b.dtype),
        "refuses-int8-a-with-uint8-b": _operands(lambda a, b: a.dtype.kind + b.dtype.kind == "iu"),
    },
    (SHAPE, f"accept sizes {B}"): {
        "accepts-fewer-rows-of-b": _operands(lambda a, b: _spare_rows(a, b) < 0),
        "accepts-more-rows-of-b": _operands(lambda a, b: _spare_rows(a, b) > 0),
        "accepts-batches-that-differ": _operands(_do_batches_differ),
    },
    (SHAPE, f"refuse sizes {B}"): {
        "refuses-batches-that-repeat": _operands(lambda a, b: a.shape[:-2] != b.shape[:-2]),
        "refuses-batches-that-both-repeat": _operands(
            lambda a, b: (
                np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) not in (a.shape[:-2], b.shape[:-2])
            )
        ),
        "refuses-ranks-that-differ": _operands(lambda a, b: a.ndim != b.ndim),
    },
    **{
        (RANKS, f"refuse dimension_count {name}"): {
            f"refuses-{dashed(name)}-of-rank-{rank}": has_rank(name, rank) for rank in (1, 5)
        }
        for name in (A, B)
    },
    ("QMM-2 QMM-7 MMF-2 MMF-5 MMI-5", f"refuse sizes {B_POINT}"): {
        "refuses-b-zero-points-of-rank-1": lambda case: (
            is_long(B_POINT)(case) and case.inputs[B_POINT].ndim == 1
        ),
    },
    ("MMF-7 QMM-9", f"accept sizes {BIAS}"): {
        "accepts-bias-of-rows": has_length(BIAS, A, -2),
        "accepts-bias-of-higher-rank": lambda case: case.inputs[BIAS].ndim > 2,
    },
    ("MMF-7 QMM-9", f"refuse sizes {BIAS}"): {
        "refuses-bias-of-output-sizes": lambda case: (
            BIAS in case.inputs and case.inputs[BIAS].shape == tuple(case.outputs[OUTPUT].sizes)
        ),
        "refuses-bias-of-rank-0": has_rank(BIAS, 0),
    },
    ("MMF-11 QMM-12", f"accept value {B_SCALE}"): {
        "checks-first-b-scale-only": is_bad(B_SCALE, -1),
        "checks-last-b-scale-only": is_bad(B_SCALE, 0),
    },
    (f"{SUM} {OPERAND_POINTS}", "whole"): arithmetic.corrected(Products(), spread, A, B),
    (OPERAND_POINTS, "whole"): {"zero-points-swapped": {"read": _with_swapped_points}},
    **for_each(PARAMETERS, OF_PARAMETERS),
    **for_each(
        dict.fromkeys((A_SCALE, B_SCALE), "MMF-11"), {"read": {"{}-flushed": _at_least_normal}}
    ),
    **arithmetic.roundings("requantize", "QMM-5", "QMM-6", "QMM-1"),
    ("MMI-1 MMF-2 QMM-2", "permitted sums.total"): arithmetic.PERMITTED_TOTALS,
    ("MMF-1", "permitted float.combine"): {
        "common-denominator": exactly(lambda s, a, b, c: c + b * (a * s))
    },
    ("QMM-1", "permitted requantize.rescale"): arithmetic.PERMITTED_RESCALES,
    ("QMM-5", "permitted requantize.rounding"): arithmetic.PERMITTED_ROUNDINGS,
}

# -- the operators -----------------------------------------------------------------------------

MUTANTS = load(
    "matmul",
    {
        "matrix_multiply_integer": {"sums": Products(), "store": store_sums},
        "matrix_multiply_integer_to_float": {"sums": Products(), "float": ToFloat()},
        "quantized_linear_matrix_multiply": {
            "sums": Products(),
            "requantize": Requantize(SCALES, spread, add_bias),
        },
    },
    TABLE,
)
