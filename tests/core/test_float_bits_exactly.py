"""Bits against Python's integers and fractions: few cases, each beside an edge, op by op."""

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core import float_bits
from dmlax_conformance.oracle import exact as floats
from support import WORDS, assert_same, draw, wild_floats

pytestmark = pytest.mark.mutation  # the files without `exactly` say the same, jitted

FORMATS = [np.float32, np.float16]
LIMBS = [0, 1, 2, 3, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x10001, 0xFFFF0000, 0xFFFE0001]
LIMBS += [0x7FFFFFFF, 0x80000000, 0x80000001, 0xAAAAAAAA, 0x55555555, 0xFFFFFFFE, 0xFFFFFFFF]


def words_of(dtype):
    """Bits of every exponent with mantissas at both ends, of both signs, zero among them."""
    fraction, width = np.finfo(dtype).nmant, np.dtype(dtype).itemsize * 8
    fields = np.arange((1 << (width - 1 - fraction)) - 1)[:, None] << fraction
    ends = np.array([0, 1, 3 << (fraction - 2), (1 << fraction) - 1])
    positive = (fields | ends).reshape(-1)
    return np.concatenate([positive, positive | (1 << (width - 1))])


def values_of(dtype):
    return words_of(dtype).astype(WORDS[np.dtype(dtype).itemsize]).view(dtype)


def on_device(function, *args):
    """An op at a time, so that nothing is compiled for the function as a whole."""
    return function(*jax.tree.map(jnp.asarray, args))


def rounded(number, dtype):
    """The bits of a fraction, rounded once; an exact zero is plus zero."""
    return floats.encode(floats.exactly(number), np.dtype(dtype).name)


def as_floats(words, dtype):
    return np.array(words, WORDS[np.dtype(dtype).itemsize]).view(dtype)


def exact(x):
    return [Fraction(float(value)) for value in x]


def operands():
    """Every tenth pair of edges in float32, and wild ones."""
    values = values_of(np.float32)
    values = values[values != 0]
    x = np.concatenate([values[::3], wild_floats(3, 500)])
    y = np.concatenate([np.random.default_rng(4).permutation(values)[: values[::3].size]] * 1)
    return x, np.concatenate([y, wild_floats(5, 500)])


def test_products_are_fractions_rounded_once():
    x, y = operands()
    pairs = zip(exact(x), exact(y), strict=True)
    expected = as_floats([rounded(a * b, np.float32) for a, b in pairs], np.float32)
    got = np.asarray(on_device(float_bits.multiply, x, y))
    np.testing.assert_array_equal(got, expected)
    assert (np.signbit(got) == (np.signbit(x) ^ np.signbit(y))).all()


def test_quotients_are_fractions_rounded_once():
    x, y = operands()
    near = np.float32(1) + np.arange(400, dtype=np.float32) * np.float32(2.0**-23)
    x, y = np.concatenate([x, near, near[::-1]]), np.concatenate([y, near[::-1], near * 3])
    pairs = zip(exact(x), exact(y), strict=True)
    expected = as_floats([rounded(a / b, np.float32) for a, b in pairs], np.float32)
    got = np.asarray(on_device(float_bits.divide, x, y))
    np.testing.assert_array_equal(got, expected)
    assert (np.signbit(got) == (np.signbit(x) ^ np.signbit(y))).all()


@pytest.mark.parametrize("factor", [1, 3, 0x7FFF])
def test_quotients_that_are_ties_of_subnormals_become_even(factor):
    odd = np.arange(1, 64, 2, dtype=np.uint32)
    x = (odd * np.uint32(factor)).view(np.float32)
    got = on_device(float_bits.divide, x, np.full_like(x, 2 * factor))
    below = odd // 2
    assert_same(got, (below + below % 2).view(np.float32))


def test_quotients_of_special_values_are_ieee():
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    x, y = (grid.reshape(-1) for grid in np.meshgrid(special, np.float32([2, -2, 1e-45, 3e38])))
    np.testing.assert_array_equal(on_device(float_bits.divide, x, y), x / y)


def magnitudes():
    """Integers of every length: alone, beside a tie at every place, and with a last bit beyond."""
    lengths = range(1, 65)
    found = {1 << (length - 1) for length in lengths} | {(1 << length) - 1 for length in lengths}
    for kept in (11, 24):
        for length in range(kept + 1, 65):
            for head in ((1 << kept) - 2, (1 << kept) - 1, (1 << (kept - 1)) + 2):
                tie = (2 * head + 1) << (length - kept - 1)
                found |= {tie, tie - 1, tie + 1}
    return sorted(found)


@pytest.mark.parametrize("dtype", FORMATS)
def test_packing_rounds_once_at_every_exponent(dtype):
    layout = float_bits.float_format(dtype)
    values = magnitudes()
    span = layout.exponent_limit + layout.fraction + 4
    lowest = layout.unit_exponent - 3
    places = [(lowest + place % span) - value.bit_length() for place, value in enumerate(values)]
    values, places = values * 2, places + [-value.bit_length() + 1 for value in values]
    negative = np.arange(len(values)) % 2 == 1
    wide = np.array(values, np.uint64)
    limbs = (wide >> np.uint64(32)).astype(np.uint32), wide.astype(np.uint32)
    pack = functools.partial(on_device, lambda n, m, e: float_bits.pack(n, m, e, dtype))
    got = np.asarray(pack(negative, limbs, np.array(places, np.int32)))
    parts = zip(values, places, strict=True)
    expected = [rounded(value * Fraction(2) ** place, dtype) for value, place in parts]
    signs = np.where(negative, layout.sign, 0).tolist()
    words = [word | sign for word, sign in zip(expected, signs, strict=True)]
    assert_same(got, as_floats(words, dtype))
    zero = np.zeros(2, np.uint32)
    nothing = pack(np.array([True, False]), (zero, zero), np.array([0, 90], np.int32))
    assert_same(nothing, np.zeros(2, dtype))


@pytest.mark.parametrize("dtype", FORMATS)
def test_bits_lost_from_both_limbs_are_above_a_tie(dtype):
    pairs = [(high, low) for high in (1, 2, 3) for low in (high, 2**32 - high)]
    high, low = np.array(pairs, np.uint32).T
    tie = np.uint32(1 << 31 | 1 << (30 - np.finfo(dtype).nmant))
    pack = functools.partial(on_device, lambda n, m, e: float_bits.pack(n, m, e, dtype))
    got = pack(np.zeros(6, bool), (high | tie, low), np.full(6, -63, np.int32))
    assert_same(got, np.full(6, np.nextafter(dtype(1), dtype(2))))


def test_wide_products_are_those_of_integers():
    a, b = (grid.reshape(-1) for grid in np.meshgrid(*[np.array(LIMBS, np.uint32)] * 2))
    a = np.concatenate([a, draw(1, np.uint32, 200)])
    b = np.concatenate([b, draw(2, np.uint32, 200)])
    high, low = map(np.asarray, on_device(float_bits.multiply_wide, a, b))
    assert (high.dtype, low.dtype) == (np.uint32, np.uint32)
    products = [int(x) * int(y) for x, y in zip(a, b, strict=True)]
    assert [int(x) << 32 | int(y) for x, y in zip(high, low, strict=True)] == products


def test_wide_shifts_are_those_of_integers():
    high, low, count = (
        grid.reshape(-1)
        for grid in np.meshgrid(*[np.array(LIMBS, np.uint32)] * 2, np.arange(32, dtype=np.uint32))
    )
    shifted = on_device(float_bits.shift_left_wide, (high, low), count)
    wide = high.astype(object) * 2**32 + low.astype(object)
    expected = (wide << count.astype(object)) % 2**64
    assert_same(shifted[0], (expected >> 32).astype(np.uint32))
    assert_same(shifted[1], (expected % 2**32).astype(np.uint32))


def test_a_digit_is_the_largest_or_the_one_before_it():
    divisors = np.array([1 << 23, (1 << 23) + 1, 12345678, (1 << 24) - 1], np.int32)
    remainders = np.array([1, 2, 77, 1 << 16, 1 << 22, (1 << 23) - 1], np.int32)
    divisor, remainder = (grid.reshape(-1) for grid in np.meshgrid(divisors, remainders))
    divisor = np.concatenate([divisor] + [divisors] * 3)
    remainder = np.concatenate([remainder, divisors, divisors // 2, 2 * divisors])
    inverse = np.float32(128) / divisor.astype(np.float32)
    digit = np.asarray(on_device(float_bits.quotient_digit, remainder, inverse)).astype(np.int64)
    rest = remainder.astype(np.int64) * 128 - digit * divisor
    assert (digit >= 0).all()
    assert ((rest > 0) & (rest <= divisor + divisor // 1000)).all()


@pytest.mark.parametrize("dtype", FORMATS)
def test_unpacked_parts_multiply_to_the_value(dtype):
    x = values_of(dtype)
    negative, mantissa, exponent = (part.tolist() for part in on_device(float_bits.unpack, x))
    signs = np.signbit(x).tolist()
    assert negative == signs
    parts = zip(signs, mantissa, exponent, strict=True)
    assert [(-1) ** n * m * Fraction(2) ** e for n, m, e in parts] == exact(x)
    normal = [m for m, value in zip(mantissa, x, strict=True) if value != 0]
    assert min(normal) >= 1 << 23
    assert max(normal) < 1 << 24


@pytest.mark.parametrize("dtype", FORMATS)
def test_formats_are_those_of_ieee(dtype):
    layout, limits = float_bits.float_format(dtype), np.finfo(dtype)
    assert layout.bits == limits.bits
    assert layout.fraction == limits.nmant
    assert layout.unit_exponent == limits.minexp - limits.nmant
    assert layout.infinity == int(np.array(np.inf, dtype).view(WORDS[limits.bits // 8]))
    assert layout.sign == int(np.array(-0.0, dtype).view(WORDS[limits.bits // 8]))
    assert layout.exponent_limit == 1 << limits.iexp


def test_raw_bits_are_unsigned_integers_of_the_same_width():
    for dtype in ("int8", "uint16", "int32", "float16", "float32", "bfloat16"):
        x = jnp.asarray([1, 0]).astype(dtype) * -1 if dtype != "uint16" else jnp.ones(2, dtype)
        assert_same(float_bits.raw_bits(x), np.asarray(x).view(WORDS[x.dtype.itemsize]))
    assert_same(float_bits.raw_bits(jnp.array([True, False])), np.array([1, 0], np.uint8))
    with jax.enable_x64(True):
        wide = np.array([-1, 2**40], np.int64)
        assert_same(float_bits.raw_bits(jnp.asarray(wide)), wide.view(np.uint64))


def test_nonzero_is_told_by_all_bits_but_a_float_sign():
    for dtype in ("int8", "uint32", "float16", "float32"):
        unsigned = WORDS[jnp.dtype(dtype).itemsize]
        width = jnp.dtype(dtype).itemsize * 8
        words = [0, *(1 << place for place in range(width))]
        expected = [False] + [True] * (width - 1) + ["float" not in dtype]
        x = np.array(words, unsigned).view(dtype)
        assert np.asarray(float_bits.is_nonzero(jnp.asarray(x))).tolist() == expected


def test_powers_of_two_are_built_from_their_exponents():
    exponents = np.arange(-126, 128, dtype=np.int32)
    assert_same(float_bits.power_of_two(jnp.asarray(exponents)), np.ldexp(np.float32(1), exponents))


@pytest.mark.parametrize("dtype", FORMATS)
def test_nan_and_infinity_are_told_from_their_neighbours(dtype):
    infinity, sign = float_bits.float_format(dtype).infinity, float_bits.float_format(dtype).sign
    words = [infinity - 1, infinity, infinity + 1, sign - 1, 0, 1]
    x = jnp.asarray(as_floats(words + [word | sign for word in words], dtype))
    assert (
        np.asarray(float_bits.is_infinite(x)).tolist()
        == [False, True, False, False, False, False] * 2
    )
    assert np.asarray(float_bits.is_nan(x)).tolist() == [False, False, True, True, False, False] * 2
