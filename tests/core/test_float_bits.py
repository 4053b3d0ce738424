"""Float arithmetic by bits, against NumPy's IEEE float32 and against fractions."""

from fractions import Fraction
from operator import mul, truediv

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core import float_bits
from dmlax_conformance.oracle import exact as floats
from dmlax_conformance.oracle.exact_floats.single import Single
from support import assert_same, draw, wild_floats

SPECIAL = np.array(
    [1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 1.0, -1.0, 1.5],
    np.float32,
)
N = 20_000


def pairs(seed):
    x, y = wild_floats(seed, N), wild_floats(seed + 1, N)
    near = (draw(seed + 2, np.uint32, N) >> 9 | 0x3F800000).view(np.float32)  # values in [1, 2)
    grid = np.meshgrid(SPECIAL, SPECIAL)
    return np.concatenate([x, near, grid[0].ravel()]), np.concatenate(
        [y, near[::-1], grid[1].ravel()]
    )


def numpy_float32(operation, x, y):
    with np.errstate(all="ignore"):
        return operation(x, y)


def as_integer(wide):
    high, low = (np.asarray(part).astype(object) for part in wide)
    return high * 2**32 + low


def as_wide(values):
    values = np.asarray(values, np.uint64)
    return (values >> np.uint64(32)).astype(np.uint32), values.astype(np.uint32)


def wide_values(seed, count=2_000):
    """64-bit integers of every length, and the edges of each limb."""
    rng = np.random.default_rng(seed)
    values = draw(seed, np.uint64, count) >> rng.integers(0, 64, count).astype(np.uint64)
    edges = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1]
    return np.concatenate([values, np.array(edges, np.uint64)])


def test_multiply_is_the_ieee_product_subnormals_and_overflow_included():
    x, y = pairs(10)
    expected = numpy_float32(np.multiply, x, y)
    assert (np.isinf(expected).any(), (np.abs(expected) < 1.17e-38).any()) == (True, True)
    assert_same(jax.jit(float_bits.multiply)(x, y), expected)


def test_divide_is_the_ieee_quotient_subnormals_and_overflow_included():
    x, y = pairs(20)
    expected = numpy_float32(np.divide, x, y)
    assert (np.isinf(expected).any(), (np.abs(expected) < 1.17e-38).any()) == (True, True)
    assert_same(jax.jit(float_bits.divide)(x, y), expected)


def test_divide_keeps_infinities_and_nan_and_zero():
    x = np.array([np.inf, -np.inf, np.inf, np.nan, 0.0], np.float32)
    y = np.array([2.0, 2.0, -2.0, 2.0, 3.0], np.float32)
    np.testing.assert_array_equal(jax.jit(float_bits.divide)(x, y), x / y)


def rounded(value):
    """A fraction as float32."""
    real = floats.Real(value < 0, abs(value))
    return np.uint32(floats.encode(real, "float32")).view(np.float32)


def test_fma_is_rounded_once():
    """Sums that cancel, sums that lie apart, ties, subnormals and overflow."""
    x, y = (each[:1_500] for each in pairs(40))
    with np.errstate(all="ignore"):
        product = x.astype(float) * y
        near = (-product * np.exp2(np.random.default_rng(0).integers(-30, 30, len(x)))).astype(
            np.float32
        )
        cancelled = (-product).astype(np.float32)
    for z in (wild_floats(42, len(x)), near, cancelled):
        z = np.where(np.isfinite(z), z, np.float32(1))
        rows = [tuple(map(Fraction, map(float, row))) for row in zip(x, y, z, strict=True)]
        wanted = np.array([rounded(a * b + c) for a, b, c in rows], np.float32)
        assert_same(jax.jit(float_bits.fma)(x, y, z), wanted)


def test_add_and_subtract_are_ieee_of_any_values():
    special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, *SPECIAL])
    grid = [each.ravel() for each in np.meshgrid(special, special)]
    x, y = (np.concatenate(each) for each in zip(pairs(50), grid, strict=True))
    for ours, numpys in ((float_bits.add, np.add), (float_bits.subtract, np.subtract)):
        expected, found = numpy_float32(numpys, x, y), np.asarray(jax.jit(ours)(x, y))
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        assert_same(np.where(np.isnan(found), 0, found), np.where(np.isnan(expected), 0, expected))


def test_fma_of_infinities_nan_and_zeros_is_ieee():
    inf, nan = np.inf, np.nan
    rows = [
        ((inf, 0, 1), nan),
        ((1e-45, inf, 1), inf),
        ((inf, -2, inf), nan),
        ((inf, 2, inf), inf),
        ((3e38, 3e38, -inf), -inf),
        ((nan, 0, 0), nan),
        ((1, 2, nan), nan),
        ((-1, 2, inf), inf),
        ((0, -1, -0.0), -0.0),
        ((0, 1, -0.0), 0.0),
        ((2, 3, -6), 0.0),
    ]
    found = np.asarray(jax.jit(float_bits.fma)(*np.float32([row for row, _ in rows]).T))
    np.testing.assert_array_equal(found, np.float32([wanted for _, wanted in rows]))
    assert np.signbit(found[-3:]).tolist() == [True, False, False]


@pytest.mark.parametrize(("name", "operation"), [("multiply", mul), ("divide", truediv)])
def test_products_and_quotients_agree_with_integers(name, operation):
    x, y = (a[:500] for a in pairs(30))
    words = [
        operation(*(Single(int(word)) for word in pair)).word
        for pair in zip(x.view(np.uint32), y.view(np.uint32), strict=True)
    ]
    assert_same(
        jax.jit(getattr(float_bits, name))(x, y), np.array(words, np.uint32).view(np.float32)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_unpack_gives_a_value_back_from_sign_mantissa_and_exponent(dtype):
    x = np.concatenate([wild_floats(40, 2_000, dtype), np.zeros(1, dtype)])
    parts = jax.tree.map(np.asarray, float_bits.unpack(jnp.asarray(x)))
    for value, negative, mantissa, exponent in zip(x, *parts, strict=True):
        assert Fraction(float(value)) == (-1) ** negative * int(mantissa) * Fraction(2) ** int(
            exponent
        )
        assert value == 0 or 2**23 <= mantissa < 2**24


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_pack_rounds_any_64_bit_magnitude_once_ties_to_even(dtype):
    values = wide_values(50)
    exponents = np.random.default_rng(51).integers(-215, 100, values.size).astype(np.int32)
    exponents[::2] = np.random.default_rng(52).integers(-70, 10, values[::2].size)
    negative = draw(53, np.uint8, values.size) & 1 == 1
    packed = jax.jit(lambda n, m, e: float_bits.pack(n, m, e, dtype))(
        negative, as_wide(values), exponents
    )
    name = np.dtype(dtype).name
    words = [
        floats.encode(floats.exactly((-1) ** int(n) * int(v) * Fraction(2) ** int(e)), name)
        for n, v, e in zip(negative, values, exponents, strict=True)
    ]
    expected = np.array(words, f"uint{np.dtype(dtype).itemsize * 8}").view(dtype)
    zero = expected == 0
    assert_same(np.asarray(packed)[~zero], expected[~zero])
    np.testing.assert_array_equal(np.asarray(packed)[zero], expected[zero])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_pack_sends_exact_ties_to_the_even_neighbour(dtype):
    fraction = np.finfo(dtype).nmant
    kept = np.arange(1 << fraction, (1 << fraction) + 64, dtype=np.uint64)
    tie = as_wide((kept << np.uint64(1)) | np.uint64(1))
    pack = jax.jit(lambda *parts: float_bits.pack(*parts, dtype))
    got = pack(np.zeros(64, bool), tie, np.zeros(64, np.int32))
    assert_same(got, ((kept + (kept & np.uint64(1))) * np.uint64(2)).astype(dtype))


def test_wide_products_and_shifts_are_those_of_integers():
    a, b = draw(60, np.uint32, 2_000), draw(61, np.uint32, 2_000)
    product = float_bits.multiply_wide(jnp.asarray(a), jnp.asarray(b))
    np.testing.assert_array_equal(as_integer(product), a.astype(object) * b.astype(object))
    x = wide_values(62)
    left = tuple(map(jnp.asarray, as_wide(x)))
    for count in (0, 1, 20, 31):
        shifted = float_bits.shift_left_wide(left, jnp.uint32(count))
        np.testing.assert_array_equal(as_integer(shifted), (x.astype(object) << count) % 2**64)


def test_a_digit_of_a_quotient_leaves_a_positive_rest_of_two_divisors_at_most():
    """A rest of zero is not taken, so that the digits stay strictly below the quotient."""
    rng = np.random.default_rng(64)
    divisor = rng.integers(1 << 23, 1 << 24, 100_000).astype(np.int32)
    remainder = rng.integers(1, 2 * divisor + 1).astype(np.int32)
    remainder[::7] = divisor[::7]  # an exact quotient
    remainder[::11] = divisor[::11] // 128 * rng.integers(1, 256, divisor[::11].size) + 1
    inverse = np.float32(128) / divisor.astype(np.float32)
    digit = np.asarray(jax.jit(float_bits.quotient_digit)(remainder, inverse)).astype(np.int64)
    rest = remainder * np.int64(128) - digit * divisor
    assert ((rest > 0) & (rest <= 2 * divisor.astype(np.int64))).all()


@pytest.mark.parametrize("exponent", [-126, -1, 0, 1, 127])
def test_a_power_of_two_is_built_from_its_exponent(exponent):
    assert_same(float_bits.power_of_two(jnp.int32(exponent)), np.float32(2.0**exponent))


NONZERO = {
    "bool": ([0, 1], [False, True]),
    "int8": ([0, 1, 0x80, 0xFF], [False, True, True, True]),
    "uint32": ([0, 1, 0x80000000], [False, True, True]),
    "float16": ([0, 0x8000, 1, 0x8001, 0x7C00, 0x7E00], [False, False] + [True] * 4),
    "bfloat16": ([0, 0x8000, 1, 0x8001, 0x7F80, 0x7FC0], [False, False] + [True] * 4),
    "float32": ([0, 1 << 31, 1, 0x80000001, 0x7F800000, 0x7FC00000], [False, False] + [True] * 4),
}


@pytest.mark.parametrize("dtype", NONZERO)
def test_only_the_two_zeros_are_zero(dtype):
    words, expected = NONZERO[dtype]
    dtype = jnp.dtype(dtype)
    unsigned = np.array(words, f"uint{dtype.itemsize * 8}")
    x = unsigned.astype(bool) if dtype.kind == "b" else unsigned.view(dtype)
    np.testing.assert_array_equal(jax.jit(float_bits.is_nonzero)(jnp.asarray(x)), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nan_and_infinity_are_told_by_bits(dtype):
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, np.finfo(dtype).max], dtype)
    np.testing.assert_array_equal(float_bits.is_nan(jnp.asarray(x)), np.isnan(x))
    np.testing.assert_array_equal(float_bits.is_infinite(jnp.asarray(x)), np.isinf(x))
