"""Matrix products: shapes, wide biases, float results, sums beside ties."""

import functools

import jax
import numpy as np
import pytest

import dmlax
from dmlax._core import requantize
from support import NATIVE, assert_same, draw, requantized
from support.calls.matmul import float_cases, scaled_sums, sums

IMPLEMENTATIONS = [*NATIVE, "xla", "reference"]
SHAPES = [  # the shapes of a and b: vectors, and matrices without elements
    ((9,), (2, 9, 4)),
    ((3, 6), (6,)),
    ((4, 0), (0, 3)),
    ((0, 3), (3, 2)),
]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_vectors_and_empty_matrices(shapes, implementation):
    a, b = draw(1, np.uint8, shapes[0]), draw(2, np.int8, shapes[1])
    zero = draw(3, np.int8, b.shape[-1:] if b.ndim > 1 else ())
    call = functools.partial(dmlax.matrix_multiply_integer, implementation=implementation)
    assert_same(call(a, b, b_zero_point=zero), sums(a, b, 0, zero))
    for packing in ("rows", "panels"):
        prepared = dmlax.prepare_matrix(b, b_zero_point=zero, packing=packing)
        assert_same(call(a, prepared), sums(a, b, 0, zero))


@pytest.mark.parametrize("implementation", NATIVE)
def test_columns_within_64(implementation):
    """They have a product of their own on AVX2."""
    a = draw(1, np.uint8, (2, 37, 50))
    b = np.random.default_rng(2).integers(-64, 65, (50, 70)).astype(np.int8)
    zeros = draw(6, np.uint8, (37, 1)), draw(7, np.int8)
    options = {"a_zero_point": zeros[0], "b_zero_point": zeros[1]}
    found = dmlax.matrix_multiply_integer(a, b, **options, implementation=implementation)
    assert_same(found, sums(a, b, *zeros))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("arithmetic", requantize.ARITHMETICS)
def test_adding_the_bias_does_not_wrap(implementation, arithmetic):
    """Sums and biases of the same sign, up to -2^32."""
    depth = 33030  # 255 * 255 times it wraps
    a = np.zeros((2, depth), np.uint8)
    a[0], a[1, :100] = 255, 255
    b = np.zeros((depth, 4), np.uint8)
    b[:, 1:], b[:, 3] = 255, 127
    bias = np.int32([2**31 - 1, -(2**31), 2**31 - 1, 12345])
    options = {"a_scale": 1.0, "b_scale": 1.0, "output_scale": 2.0**26, "output_dtype": np.int8}
    options |= {"arithmetic": arithmetic, "implementation": implementation}
    got = dmlax.quantized_linear_matrix_multiply(a, b, bias, **options)
    total = sums(a, b).astype(np.int64) + bias
    assert total.min() < -(2**31)
    assert total.max() > 2**31
    assert_same(got, requantized(total, (1.0, 1.0, 2.0**26), 0, np.int8))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("has_bias", [True, False])
def test_floats_are_rounded_once(dtype, has_bias):
    total, sa, sb, bias = float_cases(1500, dtype)
    got = jax.jit(requantize.scale_sums, static_argnums=(4, 5))(
        total, sa, sb, bias if has_bias else None, dtype, "exact"
    )
    assert_same(got, scaled_sums(total, sa, sb, bias if has_bias else None, dtype))


def test_float32_rounds_each_operation():
    total, sa, sb, bias = float_cases(1500)
    with np.errstate(all="ignore"):
        wanted = total.astype(np.float32) * (sa * sb) + bias
    got = jax.jit(requantize.scale_sums, static_argnums=(4, 5))(
        total, sa, sb, bias, np.float32, "float32"
    )
    nan = np.isnan(wanted)
    assert_same(np.isnan(got), nan)
    assert_same(np.asarray(got)[~nan], wanted[~nan])


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_symbolic_shapes_export(platform):
    rows, depth, columns = jax.export.symbolic_shape("m, k, n")
    given = (
        jax.ShapeDtypeStruct((rows, depth), np.uint8),
        jax.ShapeDtypeStruct((depth, columns), np.int8),
    )
    call = jax.jit(functools.partial(dmlax.matrix_multiply_integer, a_zero_point=3))
    exported = jax.export.export(call, platforms=[platform])(*given)
    assert exported.out_avals[0].shape == (rows, columns)
    if platform == "cpu":
        a, b = draw(1, np.uint8, (3, 5)), draw(2, np.int8, (5, 2))
        assert_same(exported.call(a, b), sums(a, b, 3))


# --- sums beside ties: an estimate decides all but the nearest ones


def ties_of(multipliers, rng):
    """For each multiplier the sum before one of its ties, and both as `mantissa * 2 ** -shift`."""
    mantissa, exponent = np.frexp(multipliers.astype(np.float64))
    mantissa, shift = np.ldexp(mantissa, 24).astype(np.int64), 24 - exponent.astype(np.int64)
    twice = 2 * rng.integers(-256, 256, multipliers.shape) + 1
    before = np.floor(np.ldexp(twice / mantissa, shift - 1))
    limits = np.iinfo(np.int32)
    return before.clip(limits.min + 8, limits.max - 8).astype(np.int32), mantissa, shift


def rounded_to_even(total, mantissa, shift):
    """Numbers of int64."""
    product = total * mantissa
    whole = product >> shift
    rest, half = product - (whole << shift), np.int64(1) << (shift - 1)
    return whole + ((rest > half) | ((rest == half) & (whole % 2 == 1)))


def by_product(left, bias, **options):
    """A column for each multiplier, a row for each number; the sums are `left - 8 + bias`."""
    a, b = np.zeros((left.size, 4), np.uint8), np.zeros((4, bias.size), np.int8)
    a[:, 0], b[0] = left, 1
    return dmlax.quantized_linear_matrix_multiply(a, b, bias, a_zero_point=np.uint8(8), **options)


def by_convolution(left, bias, a_scale, b_scale, **options):
    """Planes whose pixels are the numbers."""
    x = np.broadcast_to(left.astype(np.uint8), (1, 1, left.size, left.size))
    found = dmlax.quantized_linear_convolution(
        *(x, np.ones((bias.size, 1, 1, 1), np.int8), bias),
        input_scale=a_scale,
        filter_scale=b_scale,
        input_zero_point=np.uint8(8),
        **options,
    )
    return np.asarray(found)[0, :, 3].T


@pytest.mark.one_in(2)
@pytest.mark.parametrize("implementation", [*NATIVE, "xla"])
@pytest.mark.parametrize("function", [by_product, by_convolution])
@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(255), np.int8(-128), np.int8(3)], ids=repr)
def test_sums_beside_ties(zero, function, implementation):
    """Sixteen beside a tie of each multiplier; a quarter of these have exact ties."""
    rng = np.random.default_rng(int(zero) & 255)
    count, left = 20_000, np.arange(16)
    short = np.where(rng.random(count) < 0.25, 2**18 - 1, 0)
    mantissa = rng.integers(2**23, 2**24, count) & ~short
    multipliers = np.ldexp(mantissa, -24 - rng.integers(-8, 20, count)).astype(np.float32)
    bias, mantissa, shift = ties_of(multipliers, rng)
    found = function(
        *(left, bias),
        a_scale=np.float32(1),
        b_scale=multipliers,
        output_scale=np.float32(1),
        output_zero_point=zero,
        output_dtype=zero.dtype,
        implementation=implementation,
    )
    total = bias.astype(np.int64) + (left - 8)[:, None]
    limits = np.iinfo(zero.dtype)
    wanted = rounded_to_even(total, mantissa, shift) + int(zero)
    assert_same(found, wanted.clip(limits.min, limits.max).astype(zero.dtype))
