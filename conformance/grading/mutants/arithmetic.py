"""Integer sums, rescaling and rounding: the steps that families share, and how they go wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial, reduce
from math import ceil, floor, trunc
from typing import Any

import numpy as np

from dmlax_conformance.oracle import exact as floats
from dmlax_conformance.oracle.exact import NAN, RANGES, Real, clamp, round_half_even

from .engine.mutant import Table
from .engine.steps import Array, Call, Outputs, fractions, of_float, to_float

HALF, OUTPUT = Fraction(1, 2), "OutputTensor"

Spread = Callable[[Array, Call, Array], Array]  # a parameter to all sums of a call

# -- integer sums ------------------------------------------------------------------------------


def without(array: Array, zero_point: Array) -> Array:
    """Subtract a zero point that has the rank of the tensor."""
    return array.astype(np.int64) - zero_point.astype(np.int64)


def total(products: Array) -> Array:
    """Add up (N, product, ...) over all products."""
    return np.asarray(products.sum(1))


def wrapped(sums: Array) -> Array:
    """Keep the low 32 bits."""
    return sums.astype(np.int32).astype(np.int64)


def clipped(array: Array, bits: int = 16) -> Array:
    """Saturate at so many bits."""
    return np.clip(array, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _first(limit: Callable[[int], int]) -> Callable[[Array], Array]:
    """Add the first products only, unless there would be none."""
    return lambda products: total(products[:, : limit(products.shape[1]) or products.shape[1]])


def _whole(block: int, count: int) -> int:
    return count // block * block


def _in_floats(dtype: str, products: Array) -> Array:
    """Add one product after the other in a float type."""
    terms = np.concatenate([np.zeros_like(products.sum(1, keepdims=True)), products], 1)
    sums = np.add.accumulate(terms, 1, dtype)[:, -1]
    return np.nan_to_num(sums.astype(np.float64)).astype(np.int64)


def modulo(bits: int, value: Any) -> Any:
    """Keep so many low bits of a signed number."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _pairs(products: Array) -> Array:
    """Add pairs with saturation at 16 bits, as some vector instructions do."""
    even = np.pad(products, [(0, 0), (0, products.shape[1] % 2), *[(0, 0)] * (products.ndim - 2)])
    return total(clipped(even[:, ::2] + even[:, 1::2]))


def _blocked(products: Array) -> Array:
    """Add blocks of 4 within 32 bits that wrap."""
    blocks = np.split(products, range(4, products.shape[1], 4), 1)
    return reduce(lambda sums, block: wrapped(sums + total(block)), blocks, total(products[:, :0]))


WRONG_DIFFERENCES: Mapping[str, Callable[[Array, Array], Array]] = {
    "difference-wraps": lambda a, z: without(a, z).astype(a.dtype).astype(np.int64),
    "difference-wraps-signed": lambda a, z: without(a, z).astype(np.int8).astype(np.int64),
    "difference-saturates": lambda a, z: clipped(without(a, z), 8),
}
WRONG_TOTALS: Mapping[str, Callable[[Array], Array]] = {
    "last-product-lost": _first(partial(_whole, 2)),
    **{f"products-beyond-{n}s-lost": _first(partial(_whole, n)) for n in (4, 8, 16)},
    **{f"only-{count}-products": _first(partial(min, count)) for count in (256, 512, 4096)},
    **{f"sums-in-{dtype}": partial(_in_floats, dtype) for dtype in ("float16", "float32")},
    "sums-in-16-bits": lambda products: modulo(16, total(products)),
    "sums-in-24-bits": lambda products: modulo(24, total(products)),
    "sums-saturate-at-16-bits": lambda products: clipped(total(products)),
    "pairs-saturate-at-16-bits": _pairs,
    "products-wrap-at-16-bits": lambda products: total(modulo(16, products)),
    "products-saturate-at-16-bits": lambda products: total(clipped(products)),
}
PERMITTED_TOTALS: Mapping[str, Callable[[Array], Array]] = {
    "float64-sums": lambda products: products.astype(np.float64).sum(1).astype(np.int64),
    "blocked-sums": _blocked,
}

CORRECTIONS: Mapping[str, Callable[..., Any]] = {  # by zero points, and the sums they multiply
    "filter-sums-in-16-bits": lambda zx, zw, of_x, of_w, count: zx * (of_w - modulo(16, of_w)),
    "input-sums-in-16-bits": lambda zx, zw, of_x, of_w, count: zw * (of_x - modulo(16, of_x)),
    "zero-points-in-float32": lambda zx, zw, of_x, of_w, count: (
        (zx * zw * count).astype(np.float32).astype(np.int64) - zx * zw * count
    ),
}


def corrected(sums: Callable[[Call], Array], spread: Spread, x: str, w: str) -> Mapping[str, Any]:
    """Return sums whose corrections by zero points have too few bits, by name."""

    def narrow(wrong: Callable[..., Any], call: Call) -> Any:
        bare = {name: call.inputs[name] for name in (x, w)}
        ones = {name: np.ones_like(array) for name, array in bare.items()}
        inputs = ({**bare, w: ones[w]}, {**bare, x: ones[x]}, ones)
        right, zero = sums(call), np.zeros(1, np.int64)
        points = [
            spread(call.inputs.get(name.replace("Tensor", "ZeroPointTensor"), zero), call, right)
            for name in (x, w)
        ]
        zx, zw = (point.reshape(right.shape).astype(np.int64) for point in points)
        return right + wrong(zx, zw, *(sums(call._replace(inputs=given)) for given in inputs))

    return {f"gap-{name}": {"sums": partial(narrow, way)} for name, way in CORRECTIONS.items()}


# -- rescaling ---------------------------------------------------------------------------------

Scales = tuple[Fraction, Fraction, Fraction]  # of the two operands and of the output
Rescale = Callable[[int, Scales], Real]


def exact_rescale(accumulator: int, scales: Scales) -> Real:
    """Return the sum times both scales of the operands, divided by the output scale."""
    return floats.exactly(accumulator * _multiplier(scales))


@cache
def _multiplier(scales: Scales) -> Fraction:
    return scales[0] * scales[1] / scales[2]


def with_scales(change: Callable[[Fraction, Fraction, Fraction], Scales]) -> Rescale:
    """Rescale exactly by other scales."""
    return lambda accumulator, scales: exact_rescale(accumulator, change(*scales))


def _in(dtype: str, formula: Callable[..., Any], accumulator: int, scales: Scales) -> Real:
    """Compute with NumPy's floats, rounding every step."""
    number = to_float(Fraction(accumulator), dtype)
    return of_float(formula(number, *(to_float(scale, dtype) for scale in scales)))


def fixed_point(value: Fraction, bits: int) -> Fraction:
    """Return a multiplier with so many bits."""
    above, below = abs(value.numerator).bit_length(), value.denominator.bit_length()
    unit = Fraction(2) ** (above - below - bits)
    return round_half_even(value / unit) * unit


def _in_two_steps(accumulator: int, scales: Scales) -> Real:
    """Multiply by 31 bits of the multiplier, round half up, then shift and round again."""
    multiplier = _multiplier(scales)
    lengths = [abs(part).bit_length() for part in multiplier.as_integer_ratio()]
    power = Fraction(2) ** (lengths[0] - lengths[1] + 1)
    return floats.exactly(floor(accumulator * fixed_point(multiplier, 30) / power + HALF) * power)


def _few_bits(bits: int, accumulator: int, scales: Scales) -> Real:
    """Keep so many bits after the binary point of the multiplier."""
    multiplier = round_half_even(_multiplier(scales) * 2**bits)
    return floats.exactly(Fraction(accumulator * multiplier, 2**bits))


def _rounded_factor(
    split: Callable[..., tuple[Fraction, Fraction]], accumulator: int, scales: Scales
) -> Real:
    """Round a factor to FLOAT32, and be exact from there; `split` gives factor and divisor."""
    factor, divisor = split(*scales)
    rounded = floats.nearest(floats.exactly(factor), "float32")
    if rounded.kind == "finite":
        return floats.exactly(accumulator * rounded.value / divisor)
    is_negative = (rounded.negative != (accumulator < 0)) != (divisor < 0)
    return NAN if accumulator == 0 else Real(is_negative, kind="inf")


def _by_integers(accumulator: int, scales: Scales) -> Real:
    """Multiply and divide numerators and denominators only."""
    sx, sw, sy = scales
    above = accumulator * sx.numerator * sw.numerator * sy.denominator
    return floats.exactly(Fraction(above, sx.denominator * sw.denominator * sy.numerator))


WRONG_RESCALES: Mapping[str, Rescale] = {
    "output-scale-multiplied": with_scales(lambda x, w, y: (x, w, 1 / y)),
    "float32-in-turn": partial(_in, "float32", lambda a, x, w, y: a * x * w / y),
    **{
        f"{dtype}-{name}": partial(_in, dtype, formula)
        for dtype in ("float32", "float64")
        for name, formula in {
            "multiplier": lambda a, x, w, y: a * (x * w / y),
            "formula": lambda a, x, w, y: a * (x * w) / y,
            "reciprocal": lambda a, x, w, y: a * (x * w) * (type(y)(1) / y),
        }.items()
    },
    "float64-times-float32-multiplier": partial(
        _rounded_factor, lambda x, w, y: (x * w / y, Fraction(1))
    ),
    "float32-product-of-scales": partial(_rounded_factor, lambda x, w, y: (x * w, y)),
    "float32-accumulator": lambda a, scales: exact_rescale(int(np.float32(a)), scales),
    "float16-formula": partial(_in, "float16", lambda a, x, w, y: a * (x * w) / y),
    "fixed-point-31": _in_two_steps,
    "fixed-point-24": partial(_few_bits, 24),
    "fixed-point-16": partial(_few_bits, 16),
}
PERMITTED_RESCALES = {"integer-rescale": _by_integers}

# -- rounding ----------------------------------------------------------------------------------


def round_then_add(quotient: Fraction, zero_point: int) -> int:
    """Round to nearest, ties to even, and then add the zero point."""
    return round_half_even(quotient) + zero_point


def at_the_ends(quotient: Real, zero_point: int, dtype: str) -> int:
    """Saturate an infinity by its sign; NaN is the lowest value."""
    low, high = RANGES[dtype]
    return low if quotient.kind == "nan" or quotient.negative else high


@dataclass(frozen=True)
class Rounding:
    """The steps from a real quotient to an 8-bit integer, in order."""

    place: Callable[[Fraction, int], int] = round_then_add
    clamp: Callable[[int, str], int] = clamp
    special: Callable[[Real, int, str], int] = at_the_ends

    def __call__(self, quotient: Real, zero_point: int, dtype: str) -> int:
        """Return the quantized integer."""
        if quotient.kind != "finite":
            return self.special(quotient, zero_point, dtype)
        return self.clamp(self.place(quotient.value, zero_point), dtype)


def _half_away(value: Fraction) -> int:
    return floor(value + HALF) if value >= 0 else ceil(value - HALF)


def _half_odd(value: Fraction) -> int:
    below = floor(value)
    return below + 1 - below % 2 if value - below == HALF else round_half_even(value)


def _twice(steps: int) -> Rounding:
    """Round to a fraction of an integer first."""
    return _by(lambda value: round_half_even(Fraction(round_half_even(value * steps), steps)))


def _by(rule: Callable[[Fraction], int]) -> Rounding:
    return Rounding(lambda quotient, zero_point: rule(quotient) + zero_point)


def _then(change: Callable[[int], int]) -> Rounding:
    """Change the rounded quotient before the zero point is added."""
    return _by(lambda quotient: change(round_half_even(quotient)))


def _within(low: int, high: int, other: str) -> Rounding:
    """Limit one data type to less than its range; the other is as it should be."""
    return Rounding(
        clamp=lambda value, dtype: (
            clamp(value, dtype) if dtype == other else min(max(value, low), high)
        )
    )


def _wrap_if(test: Callable[[int, int, int], bool]) -> Rounding:
    """Wrap what passes a test of its value and the ends of the range."""

    def wrap(value: int, dtype: str) -> int:
        low, high = RANGES[dtype]
        return (value - low) % 256 + low if test(value, low, high) else clamp(value, dtype)

    return Rounding(clamp=wrap)


def nan_as(value: Callable[[int, str], int]) -> Rounding:
    """Return another value for NaN, from the zero point and the data type."""

    def special(quotient: Real, zero_point: int, dtype: str) -> int:
        is_nan = quotient.kind == "nan"
        return value(zero_point, dtype) if is_nan else at_the_ends(quotient, zero_point, dtype)

    return Rounding(special=special)


def _by_search(quotient: Fraction) -> int:
    """Choose the nearer neighbour, the even one of two equally near."""
    below = floor(quotient)
    return min((below, below + 1), key=lambda n: (abs(quotient - n), n % 2))


WRONG_ROUNDINGS: Mapping[str, Mapping[str, Rounding]] = {  # by topic
    "round": {
        "half-away-from-zero": _by(_half_away),
        "half-toward-zero": _by(lambda v: ceil(v - HALF) if v >= 0 else floor(v + HALF)),
        "half-up": _by(lambda value: floor(value + HALF)),
        "half-down": _by(lambda value: ceil(value - HALF)),
        "half-odd": _by(_half_odd),
        "half-even-if-positive": _by(lambda v: round_half_even(v) if v >= 0 else _half_away(v)),
        "truncates": _by(trunc),
        "floors": _by(floor),
        "ceils": _by(ceil),
        "zero-point-first": Rounding(lambda quotient, zero: round_half_even(quotient + zero)),
        "plus-half-truncated": Rounding(lambda quotient, zero: trunc(quotient + zero + HALF)),
    },
    "exact": {
        "rounds-twice": _twice(16),
        "rounds-twice-fine": _twice(2**16),
        "one-too-high": _then(lambda value: value + 1),
    },
    "clamp": {
        "clamps-before-zero-point": _then(lambda value: clamp(value, "int8")),
        "clamps-to-16-bits-first": _then(partial(modulo, 16)),
        "clamps-to-32-bits-first": _then(partial(modulo, 32)),
        "quotient-of-32-bits-is-lowest": _then(  # as when a float is cast
            lambda value: value if -(2**31) <= value < 2**31 else -(2**31)
        ),
        "clamps-to-minus-127": _within(-127, 127, "uint8"),
        "clamps-uint8-to-254": _within(0, 254, "int8"),
        "clamps-uint8-from-1": _within(1, 255, "int8"),
        "clamps-int8-to-126": _within(-128, 126, "uint8"),
        "clamps-uint8-to-127": _within(0, 127, "int8"),
        "clamps-int8-from-0": _within(0, 127, "uint8"),
        "wraps": _wrap_if(lambda value, low, high: True),
        "wraps-above": _wrap_if(lambda value, low, high: value > high),
        "wraps-below": _wrap_if(lambda value, low, high: value < low),
    },
}
PERMITTED_ROUNDINGS = {"nearest-by-search": _by(_by_search)}
PERMITTED_NANS = {
    "nan-zero-point": nan_as(lambda zero_point, dtype: zero_point),
    "nan-highest": nan_as(lambda zero_point, dtype: RANGES[dtype][1]),
    "nan-lowest": nan_as(lambda zero_point, dtype: RANGES[dtype][0]),
}


def roundings(part: str, rounded: str, clamped: str, exact: str) -> Table:
    """Return the table of wrong roundings of a part, by the topics of its three steps."""
    topics = {"round": rounded, "clamp": clamped, "exact": exact}
    return {(topic, f"{part}.rounding"): WRONG_ROUNDINGS[name] for name, topic in topics.items()}


# -- from sums to the output -------------------------------------------------------------------


def store_sums(sums: Array, call: Call) -> Outputs:
    """Return the sums as the output."""
    return {OUTPUT: sums.astype(np.int32)}


def spread_scales(call: Call, names: Sequence[str], sums: Array, spread: Spread) -> list[Scales]:
    """Return the scales of every sum, row-major."""
    tensors = [call.inputs[name] for name in names]
    exact = [np.array(fractions(x), object).reshape(x.shape) for x in tensors]
    return list(zip(*(spread(x, call, sums).reshape(-1) for x in exact), strict=True))


@dataclass(frozen=True)
class Requantize:
    """The steps from sums to the quantized output, in order."""

    scales: Sequence[str]
    spread: Spread
    bias: Callable[[Array, Array], Array]
    rescale: Callable[[int, Scales], Real] = exact_rescale
    rounding: Rounding = field(default_factory=Rounding)
    dtype: Callable[[Call], str] = lambda call: call.outputs[OUTPUT].dtype
    store: Callable[[list[int], str], Array] = np.array

    def __call__(self, sums: Array, call: Call) -> Outputs:
        """Return the quantized output."""
        given, dtype = call.inputs, self.dtype(call)
        scales = spread_scales(call, self.scales, sums, self.spread)
        zero = given.get("OutputZeroPointTensor", np.zeros((), np.int8))
        points = self.spread(zero, call, sums).reshape(-1).tolist()
        if "BiasTensor" in given:
            sums = self.bias(sums, given["BiasTensor"])
        rows = zip(sums.reshape(-1).tolist(), scales, points, strict=True)
        words = [self.rounding(self.rescale(sum_, row), point, dtype) for sum_, row, point in rows]
        return {OUTPUT: self.store(words, dtype).reshape(sums.shape)}
