"""Matrix products: random calls by every lowering, shapes, wide biases, float results."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grading import near_ties

import dmlax
from dmlax._core import requantize
from support import NATIVE, assert_same, draw, requantized
from support.calls.matmul import LOWERINGS, PADDED, float_cases, run_padded, scaled_sums, sums

SHAPES = [  # the shapes of a and b
    ((1, 1), (1, 1)),
    ((3, 7), (7, 5)),
    ((2, 3, 5), (5, 65)),
    ((2, 1, 4, 130), (1, 3, 130, 3)),
    ((33, 66), (66, 64)),
    ((9,), (2, 9, 4)),
    ((3, 6), (6,)),
    ((4, 0), (0, 3)),
    ((0, 3), (3, 2)),
]
QUICK = dict.fromkeys(NATIVE, SHAPES)
QUICK |= {"xla": SHAPES[::2], PADDED: SHAPES[1::2], "reference": SHAPES[::2]}


def call_of(lowering, function, monkeypatch):
    if lowering == PADDED:
        run_padded(monkeypatch)
        return functools.partial(function, implementation="xla")
    return functools.partial(function, implementation=lowering)


@pytest.mark.parametrize(
    ("lowering", "shapes"),
    [
        pytest.param(lowering, shapes, marks=() if shapes in QUICK[lowering] else pytest.mark.slow)
        for lowering in LOWERINGS
        for shapes in SHAPES
    ],
    ids=str,
)
def test_random_integer_products(shapes, lowering, monkeypatch):
    seed = SHAPES.index(shapes)
    rng = np.random.default_rng(seed)
    a_dtype, b_dtype = rng.choice(["int8", "uint8"], 2)
    a, b = draw(seed, a_dtype, shapes[0]), draw(seed + 1, b_dtype, shapes[1])
    a_zero = draw(2, a_dtype, (*a.shape[:-1], 1) if a.ndim > 1 and seed % 2 else ())
    b_zero = draw(3, b_dtype, b.shape[-1:] if b.ndim > 1 else ())
    call = call_of(lowering, dmlax.matrix_multiply_integer, monkeypatch)
    wanted = sums(a, b, a_zero, b_zero)
    assert_same(call(a, b, a_zero_point=a_zero, b_zero_point=b_zero), wanted)
    for packing in ("rows", "panels"):
        prepared = dmlax.prepare_matrix(b, b_zero_point=b_zero, packing=packing)
        assert_same(call(a, prepared, a_zero_point=a_zero), wanted)
    assert_same(call(a, b), sums(a, b))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("lowering", "most"), [*((each, 128) for each in LOWERINGS), *((each, 64) for each in NATIVE)]
)
@pytest.mark.parametrize("rows", [False, True])
def test_random_quantized_products(lowering, rows, most, monkeypatch):
    """Columns within -64 to 64 have a product of their own on AVX2."""
    a = draw(1, np.uint8, (2, 37, 50))
    b = np.random.default_rng(2).integers(-most, min(most, 127) + 1, (50, 70)).astype(np.int8)
    one = (37, 1) if rows else ()
    scales = (
        np.abs(draw(3, np.int16, one)).astype(np.float32) / 2**20 + np.float32(1e-3),
        np.abs(draw(4, np.int16, (70,))).astype(np.float32) / 2**20 - np.float32(0.01),
        np.abs(draw(5, np.int16, one)).astype(np.float32) / 2**13 + np.float32(0.5),
    )
    zeros = draw(6, np.uint8, one), draw(7, np.int8, ()), draw(8, np.int8, one)
    bias = draw(9, np.int32, (37, 70) if rows else 70) >> 16
    call = call_of(lowering, dmlax.quantized_linear_matrix_multiply, monkeypatch)
    got = call(
        a,
        b,
        bias,
        **dict(zip(("a_scale", "b_scale", "output_scale"), scales, strict=True)),
        a_zero_point=zeros[0],
        b_zero_point=zeros[1],
        output_zero_point=zeros[2],
    )
    total = sums(a, b, *zeros[:2]).astype(np.int64) + bias
    assert_same(got, requantized(total, scales, zeros[2], np.int8))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("arithmetic", requantize.ARITHMETICS)
def test_adding_the_bias_does_not_wrap(lowering, arithmetic, monkeypatch):
    """Sums and biases of the same sign, up to -2^32."""
    depth = 33030  # 255 * 255 times it wraps
    a = np.zeros((2, depth), np.uint8)
    a[0], a[1, :100] = 255, 255
    b = np.zeros((depth, 4), np.uint8)
    b[:, 1:], b[:, 3] = 255, 127
    bias = np.int32([2**31 - 1, -(2**31), 2**31 - 1, 12345])
    call = call_of(lowering, dmlax.quantized_linear_matrix_multiply, monkeypatch)
    options = {"a_scale": 1.0, "b_scale": 1.0, "output_scale": 2.0**26, "output_dtype": np.int8}
    got = call(a, b, bias, arithmetic=arithmetic, **options)
    total = sums(a, b).astype(np.int64) + bias
    assert total.min() < -(2**31)
    assert total.max() > 2**31
    assert_same(got, requantized(total, (1.0, 1.0, 2.0**26), 0, np.int8))


@functools.cache
def near_ties_of(family, count):
    return near_ties.family(family, count, seed=7)


@pytest.mark.parametrize("implementation", [*NATIVE, "xla"])
@pytest.mark.parametrize("count", [64, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", ["float32", "float64", "exact"])
def test_near_ties(family, count, implementation):
    ties = near_ties_of(family, count)
    bias = np.array([tie.accumulator for tie in ties], np.int32)
    scales = [np.array(x, np.uint32).view(np.float32) for x in list(zip(*ties, strict=True))[1:4]]
    a, b = jnp.full((1, 3), 9, jnp.uint8), jnp.ones((3, 1), jnp.int8)

    @jax.vmap
    def call(bias, sa, sb, sy):
        return dmlax.quantized_linear_matrix_multiply(
            a, b, bias[None], a_scale=sa, b_scale=sb, output_scale=sy, a_zero_point=9,
            output_zero_point=np.uint8(128), implementation=implementation,
        )  # fmt: skip

    got = np.asarray(jax.jit(call)(bias, *scales)).reshape(-1)
    assert got.tolist() == [min(max(round(tie.quotient) + 128, 0), 255) for tie in ties]


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


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_products_to_float(lowering, monkeypatch):
    a, b = draw(1, np.int8, (2, 5, 9)), draw(2, np.uint8, (9, 3))
    zeros = np.arange(5, dtype=np.int8)[:, None], np.uint8([3, 200, 0])
    sa, sb = np.float32([[0.1], [2], [-3], [1e-30], [7]]), np.float32([1e-20, 3e4, 0.7])
    bias = np.float32([1e-14, 1, -0.0])
    call = call_of(lowering, dmlax.matrix_multiply_integer_to_float, monkeypatch)
    for dtype in (np.float32, np.float16):
        with np.errstate(all="ignore"):
            c = bias.astype(dtype)
        got = call(
            *(a, b, c),
            a_scale=sa,
            b_scale=sb,
            a_zero_point=zeros[0],
            b_zero_point=zeros[1],
            output_dtype=dtype,
        )
        assert_same(got, scaled_sums(sums(a, b, *zeros), sa, sb, c, dtype))


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
