"""Planted bugs of ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import trunc
from typing import Any

import numpy as np

from ...format.tensors import DTYPES
from ...operators._shared import floats
from ...operators._shared.floats import Real, exactly
from ..adapter import Case
from .bugs_quantize import SPREADS
from .element_wise import difference_times_scale
from .record import HONEST, Mutant, mutant, with_steps
from .steps import Array, Outputs, to_float, words

OPERATOR = "element_wise_dequantize_linear"
Subtract = Callable[[int, int, str], int]
Multiply = Callable[[int, Fraction, str], int]
Convert = Callable[[int, int, Fraction, str, str], int]


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module."""
    for name, (clause, about, subtract) in DIFFERENCES.items():
        yield _bug(name, clause, about, convert=_differing(subtract))
    for name, (clause, about, multiply) in PRODUCTS.items():
        yield _bug(name, clause, about, convert=_multiplying(multiply))
    about = "input and zero point are multiplied each on its own, and then subtracted"
    yield _bug("products-subtracted", "DQT-1", about, convert=_apart)
    about = "as x * scale + (-zero point * scale) with one rounding less"
    yield _bug("products-fused", "DQT-1", about, convert=_fused)
    for name, (about, spread) in SPREADS.items():
        yield _bug(name, "DQT-4", about, spread=spread)
    yield from _rest()


def _bug(name: str, clause: str, about: str, **steps: Any) -> Mutant:
    return mutant(OPERATOR, name, clause, about, with_steps("dequantize", **steps))


def rounded_once(difference: int, scale: Fraction, dtype: str) -> int:
    """Return the bits of the product, rounded once."""
    return floats.encode(exactly(difference * scale), dtype)


def _differing(subtract: Subtract) -> Convert:
    """Subtract in another way."""

    def convert(word: int, zero_point: int, scale: Fraction, source: str, dtype: str) -> int:
        return rounded_once(subtract(word, zero_point, source), scale, dtype)

    return convert


def _multiplying(multiply: Multiply) -> Convert:
    """Multiply in another way."""
    return lambda word, zero, scale, source, dtype: multiply(word - zero, scale, dtype)


def _apart(word: int, zero_point: int, scale: Fraction, source: str, dtype: str) -> int:
    a, b = (floats.nearest(exactly(each * scale), dtype) for each in (word, zero_point))
    if "inf" in (a.kind, b.kind):
        return difference_times_scale(word, zero_point, scale, source, dtype)
    return floats.encode(exactly(a.value - b.value), dtype)


def _fused(word: int, zero_point: int, scale: Fraction, source: str, dtype: str) -> int:
    """Round zero point * scale only, as a fused multiply-add does."""
    offset = floats.nearest(exactly(zero_point * scale), dtype)
    if offset.kind == "inf":
        return difference_times_scale(word, zero_point, scale, source, dtype)
    return floats.encode(exactly(word * scale - offset.value), dtype)


# -- the difference ----------------------------------------------------------------------------


def _in_bits(value: int, bits: int, unsigned: bool) -> int:
    """Keep the low bits, read with or without a sign."""
    low = 0 if unsigned else -(1 << (bits - 1))
    return (value - low) % (1 << bits) + low


def _wrapped(bits: int, unsigned: bool = False) -> Subtract:
    return lambda word, zero, dtype: _in_bits(word - zero, bits, unsigned)


def _in_own_type(word: int, zero_point: int, dtype: str) -> int:
    kind, width = DTYPES[dtype]
    return _in_bits(word - zero_point, width, kind == "uint")


def _saturated(word: int, zero_point: int, dtype: str) -> int:
    low, high = DTYPES[dtype].low, DTYPES[dtype].high
    return min(max(word - zero_point, low), high)


def _rounded(dtype: str) -> Subtract:
    """Round both integers to a float type before they are subtracted."""

    def subtract(word: int, zero_point: int, source: str) -> int:
        a, b = (floats.nearest(exactly(Fraction(v)), dtype) for v in (word, zero_point))
        if "inf" in (a.kind, b.kind):
            return word - zero_point
        return int(a.value - b.value)

    return subtract


def _other_sign(dtype: str) -> Subtract:
    """Read both operands of one type with the other sign."""

    def subtract(word: int, zero_point: int, source: str) -> int:
        if source != dtype:
            return word - zero_point
        kind, width = DTYPES[source]
        return _in_bits(word, width, kind == "int") - _in_bits(zero_point, width, kind == "int")

    return subtract


def _narrow(width: int) -> Subtract:
    """Keep so many bits of wider operands."""

    def subtract(word: int, zero_point: int, source: str) -> int:
        if DTYPES[source].width <= width:
            return word - zero_point
        unsigned = DTYPES[source].kind == "uint"
        return _in_bits(word, width, unsigned) - _in_bits(zero_point, width, unsigned)

    return subtract


DIFFERENCES: dict[str, tuple[str, str, Subtract]] = {
    "zero-point-ignored": ("DQT-1", "the zero point is ignored", lambda x, z, dtype: x),
    "zero-point-added": ("DQT-1", "the zero point is added", lambda x, z, dtype: x + z),
    "difference-reversed": (
        "DQT-1",
        "the input is subtracted from the zero point",
        lambda x, z, dtype: z - x,
    ),
    "difference-in-own-type": (
        "DQT-1",
        "the difference wraps in the type of the input",
        _in_own_type,
    ),
    "difference-saturates": (
        "DQT-1",
        "the difference is limited to the type of the input",
        _saturated,
    ),
    "difference-in-32-bits": ("DQT-1 DQT-2", "the difference wraps at 32 bits", _wrapped(32)),
    "difference-in-16-bits": ("DQT-1 DQT-2", "the difference wraps at 16 bits", _wrapped(16)),
    "difference-is-unsigned": (
        "DQT-1",
        "the difference is read as an unsigned integer of 32 bits",
        _wrapped(32, unsigned=True),
    ),
    "float32-before-difference": (
        "DQT-1",
        "input and zero point become FLOAT32 before they are subtracted",
        _rounded("float32"),
    ),
    "float16-before-difference": (
        "DQT-1",
        "input and zero point become FLOAT16 before they are subtracted",
        _rounded("float16"),
    ),
    "wide-integers-in-16-bits": ("DQT-2", "32-bit integers keep 16 bits", _narrow(16)),
    "wide-integers-in-8-bits": ("DQT-2", "16-bit and 32-bit integers keep 8 bits", _narrow(8)),
    **{
        f"{dtype}-with-other-sign": (
            "DQT-2",
            f"{dtype.upper()} is read with the other sign",
            _other_sign(dtype),
        )
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    },
}


# -- the product -------------------------------------------------------------------------------


def _bits(value: Any) -> int:
    return words(np.asarray(value))[0]


def _in(dtype: str | None, only: str = "") -> Multiply:
    """Multiply in NumPy's floats, then round to the type of the scale."""

    def multiply(difference: int, scale: Fraction, own: str) -> int:
        if only and own != only:
            return rounded_once(difference, scale, own)
        used = dtype or own
        if difference == 0:
            return 0
        product = to_float(Fraction(difference), used) * to_float(scale, used)
        return _bits(np.asarray(product).astype(own))

    return multiply


def _cut(difference: int, scale: Fraction, dtype: str) -> int:
    """Truncate the mantissa instead of rounding it."""
    word = rounded_once(difference, scale, dtype)
    number = floats.decode(word, dtype)
    is_beyond = number.kind == "finite" and number.magnitude > abs(difference * scale)
    return word - 1 if is_beyond else word


def _half_away(difference: int, scale: Fraction, dtype: str) -> int:
    exact = abs(difference * scale)
    word = rounded_once(difference, scale, dtype)
    number, above = (floats.decode(each, dtype) for each in (word, word + 1))
    if above.kind != "finite" or number.kind != "finite":
        return word
    return word + 1 if exact - number.magnitude == above.magnitude - exact else word


def _flushed(difference: int, scale: Fraction, dtype: str) -> int:
    word = rounded_once(difference, scale, dtype)
    form = floats.FORMATS[dtype]
    exponent = word >> form.fraction & ((1 << form.exponent) - 1)
    return word if exponent else 0


def _finite(difference: int, scale: Fraction, dtype: str) -> int:
    """Give the largest finite number instead of an infinity."""
    word = rounded_once(difference, scale, dtype)
    return word - 1 if floats.decode(word, dtype).kind == "inf" else word


def _signed_zero(difference: int, scale: Fraction, dtype: str) -> int:
    if difference == 0:
        return floats.encode(Real(scale < 0), dtype)
    return rounded_once(difference, scale, dtype)


def _with(change: Callable[[Fraction], Fraction]) -> Multiply:
    return lambda difference, scale, dtype: rounded_once(difference, change(scale), dtype)


def _flushed_scale(scale: Fraction) -> Fraction:
    return Fraction(0) if abs(scale) < Fraction(2) ** -126 else scale


def _truncated(difference: int, scale: Fraction, dtype: str) -> int:
    return floats.encode(exactly(Fraction(trunc(difference * scale))), dtype)


PRODUCTS: dict[str, tuple[str, str, Multiply]] = {
    "float32-product": (
        "DQT-1",
        "the difference becomes FLOAT32 before it is multiplied",
        _in("float32"),
    ),
    "float64-product": ("DQT-1", "the product is rounded to FLOAT64 first", _in("float64")),
    "float16-product": (
        "DQT-1 DQT-3",
        "for a FLOAT16 output the difference becomes FLOAT16 before it is multiplied",
        _in("float16", "float16"),
    ),
    "float16-through-float32": (
        "DQT-1 DQT-3",
        "a FLOAT16 output is rounded to FLOAT32 first",
        _in("float32", "float16"),
    ),
    "float32-through-float16": (
        "DQT-3",
        "a FLOAT32 output has passed through FLOAT16",
        _in("float16", "float32"),
    ),
    "truncates": ("DQT-1", "the mantissa is truncated", _cut),
    "half-away-from-zero": ("DQT-1", "ties between floats go away from zero", _half_away),
    "integers-only": ("DQT-1", "the product is truncated to an integer", _truncated),
    "flushes-result": ("DQT-1", "a subnormal result becomes zero", _flushed),
    "flushes-scale": ("DQT-1", "a subnormal scale is taken as zero", _with(_flushed_scale)),
    "saturates": ("DQT-1", "the largest number stands for infinity", _finite),
    "signed-zero": ("DQT-1", "zero times a negative scale is minus zero", _signed_zero),
    "divides": ("DQT-1", "the scale is a divisor", _with(lambda scale: 1 / scale)),
    "scale-ignored": ("DQT-1", "the scale is ignored", _with(lambda scale: Fraction(1))),
    "scale-without-sign": ("DQT-5", "the sign of the scale is lost", _with(abs)),
}


# -- the rest ----------------------------------------------------------------------------------


def _middle(x: Array, dtype: str) -> Array:
    width = np.dtype(dtype).itemsize * 8
    return np.array(2 ** (width - 1) if np.dtype(dtype).kind == "u" else 0, dtype)


def _lowest(x: Array, dtype: str) -> Array:
    return np.array(np.iinfo(dtype).min, dtype)


def _rest() -> Iterator[Mutant]:
    about = "an absent zero point of an unsigned type is taken to be its middle"
    yield _bug("absent-zero-point-is-middle", "DQT-6", about, absent=_middle)
    about = "an absent zero point of a signed type is taken to be its lowest value"
    yield _bug("absent-zero-point-is-lowest", "DQT-6", about, absent=_lowest)
    finishes: dict[str, tuple[str, str, Callable[[Array, Case], Array]]] = {
        "output-is-float32": (
            "DQT-3",
            "the output is FLOAT32 whatever the scale is",
            lambda y, case: y.astype(np.float32),
        ),
        "output-is-float64": (
            "DQT-3",
            "the output is FLOAT64",
            lambda y, case: y.astype(np.float64),
        ),
        "output-is-float16": (
            "DQT-3",
            "the output is FLOAT16 whatever the scale is",
            lambda y, case: y.astype(np.float16),
        ),
        "output-is-flat": (
            "DQT-4",
            "the output has one dimension",
            lambda y, case: y.reshape(-1),
        ),
        "minus-zero": (
            "DQT-1",
            "a result of zero is minus zero",
            lambda y, case: np.where(y == 0, np.asarray(-0.0, y.dtype), y),
        ),
    }
    for name, (clause, about, change) in finishes.items():
        yield mutant(OPERATOR, name, clause, about, replace(HONEST, finish=_finished(change)))


def _finished(change: Callable[[Array, Case], Array]) -> Callable[[Outputs, Case], Outputs]:
    return lambda outputs, case: {"OutputTensor": change(outputs["OutputTensor"], case)}
