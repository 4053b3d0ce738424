"""Every way known to get a wrong result, by name; each test fails if the naive code comes back.

Where a hazard shows on a CPU, the naive code is run beside ours, on data where the two differ. A
JAX that no longer has the hazard fails the test: the code around it may go then.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grading import near_ties
from jax import lax

import dmlax
from dmlax._core import float_bits, requantize
from support import assert_same, coordinates, draw, in_turn, requantized, sums_of_products
from support.calls.convolution import call as random_convolution
from support.cases.requantize import near
from support.lowered import fenced, products, text

N = 1 << 16


def expect_shown(hazard, shows):
    """The reason to keep the code around a hazard."""
    assert shows, f"{jax.__version__} no longer shows this hazard: {hazard}"


# --- CUDA: read in the lowered text ---------------------------------------------------


SEEDS = [seed for seed in range(30) if random_convolution(seed).x.size]


@pytest.mark.lowering
@pytest.mark.parametrize("seed", in_turn(SEEDS))
def test_cuda_is_given_no_convolution_and_no_product_that_it_gets_wrong(seed):
    """`conv_general_dilated` on int32, int8 to int32, int8 to float32, bf16 depthwise; odd dots.

    XLA for CUDA does not compile the first two; cuDNN rounds the third to 24 bits; the fourth is
    not exact; an int8 product whose contraction 4 does not divide is silently wrong, and a short
    one loses a constant that is added to it, unless a barrier is between: tests/cuda/hazards.py.
    """
    call = random_convolution(seed)
    convolve = lambda x, w: dataclasses.replace(call, x=x, w=w)("xla")  # noqa: E731
    lowered = text(convolve, call.x, call.w, platform="cuda")
    assert "stablehlo.convolution" not in lowered
    found, taps = products(lowered), call.w.shape[1:]
    assert bool(found) == (taps[0] > 1)
    assert fenced(lowered)
    for product in found:
        assert (product.left, product.right, product.result) == ("i8", "i8", "i32")
        assert product.contraction % 4 == 0
        assert product.contraction >= np.prod(taps)


@pytest.mark.lowering
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 7, 8, 9, 13, 16, 17])
@pytest.mark.parametrize("kernel", [1, 3])
def test_cuda_contractions_are_padded_whatever_their_length(channels, kernel):
    x, w = np.ones((1, channels, 4, 4), np.uint8), np.ones((2, channels, kernel, kernel), np.int8)
    (product,) = products(text(dmlax.convolution_integer, x, w, platform="cuda"))
    whole_words = -(-channels // 4) * 4
    assert product.contraction == -(-whole_words * kernel**2 // 16) * 16


@pytest.mark.lowering
def test_cuda_multiplies_groups_of_few_channels_together():
    x, w = np.ones((1, 128, 5, 5), np.int8), np.ones((128, 4, 3, 3), np.int8)
    call = functools.partial(dmlax.convolution_integer, group_count=32)
    (product,) = products(text(call, x, w, platform="cuda"))
    assert product.contraction == 16 * 4 * 9


@pytest.mark.lowering
def test_the_reader_of_lowered_text_sees_the_naive_convolution_and_product():
    naive = lambda x, w: lax.conv_general_dilated(  # noqa: E731
        *(x, w, (1, 1), "VALID"), preferred_element_type=jnp.int32
    )
    x, w = np.ones((1, 3, 4, 4), np.int8), np.ones((2, 3, 2, 2), np.int8)
    assert "stablehlo.convolution" in text(naive, x, w, platform="cuda")
    dot = lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32)  # noqa: E731
    (product,) = products(
        text(dot, np.ones((5, 7), np.int8), np.ones((7, 3), np.int8), platform="cuda")
    )
    assert product == ("i8", "i8", "i32", 7)
    added = text(lambda a, b: dot(a, b) + 5, *[np.ones((16, 16), np.int8)] * 2, platform="cuda")
    assert not fenced(added)


def test_a_large_accumulator_keeps_every_bit():
    """cuDNN gave 594579300 for 594579329; float32 has only 24 bits."""
    x, w = np.full((1, 9217, 1, 1), 255, np.uint8), np.full((2, 9217, 1, 1), 253, np.uint8)
    x[0, 0], w[1] = 254, 252
    expected = sums_of_products(x, w)
    assert (expected.astype(np.float32).astype(np.int64) != expected).all()
    assert_same(dmlax.convolution_integer(x, w), expected)


# --- constants ------------------------------------------------------------------------

BITCASTS = [("float32", "uint32"), ("int32", "float32"), ("float16", "uint16"), ("int8", "uint8")]
BITCASTS += [("int8", "int32"), ("uint32", "uint8")]  # four values to one, and one to four


@pytest.mark.parametrize(("source", "target"), BITCASTS, ids=str)
def test_a_bitcast_of_a_constant_is_that_of_an_argument(source, target):
    """XLA folds a bitcast in the order of the bytes, which a transposed constant has changed."""
    x = draw(1, np.int8, (5, 3, 2, 4)).astype(source)
    transpose = jax.jit(jnp.transpose)
    naive = jax.jit(lambda x: lax.bitcast_convert_type(x, target))  # noqa: TID251
    cast = jax.jit(lambda x: float_bits.bitcast(x, target))
    expected = np.asarray(naive(x))
    shows = (
        np.asarray(jax.jit(lambda: naive(transpose(x.T) + x.dtype.type(0)))()) != expected
    ).any()
    expect_shown("a bitcast of a constant", shows)
    assert_same(cast(x), expected)
    assert_same(jax.jit(lambda: cast(transpose(x.T)))(), expected)
    assert_same(jax.jit(lambda: cast(transpose(x.T) + x.dtype.type(0)))(), expected)
    assert_same(jax.jit(lambda: jax.vmap(cast, 1, 1)(transpose(x.T)))(), expected)


# --- nonzero --------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", ["xla", "reference"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16])
def test_subnormals_are_not_zero(dtype, implementation, how):
    """`x != 0`, and so `jnp.nonzero`, calls float32 subnormals zero on a CPU."""
    words = np.array([0, 1, 1 << 15, (1 << 15) | 1], np.uint16)
    x = words.view(dtype) if jnp.dtype(dtype).itemsize == 2 else words.astype(np.uint32)
    if dtype == np.float32:
        x = (words.astype(np.uint32) << 16 | words).view(np.float32)
        x[2] = -0.0
    expected = coordinates(x)
    call = how(lambda x: dmlax.nonzero_coordinates(x, implementation=implementation))
    found = call(jnp.asarray(x))
    assert found.count == len(expected) == 2
    assert_same(found.coordinates[:2], expected)
    naive = how(lambda x: (x != 0).sum())(jnp.asarray(x))
    expect_shown("x != 0 on subnormals", naive != 2 or dtype != np.float32)


def test_float64_subnormals_are_not_zero():
    x = np.array([5e-324, 0.0, -5e-324, -0.0])
    assert dmlax.nonzero_coordinates(x).coordinates[:2].tolist() == [[0], [2]]
    with jax.enable_x64(True):
        assert jax.jit(dmlax.nonzero_coordinates)(jnp.asarray(x)).count == 2


# --- float arithmetic -----------------------------------------------------------------


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize("shape", [(), (N,)], ids=["scalar", "vector"])
def test_quotients_are_those_of_ieee_division(shape, arithmetic, how):
    """`x / scale` is not IEEE on a CPU with a scalar divisor, nor on CUDA."""
    scale = np.float32(0.7853982)
    k = np.arange(N) % 511 - 255 + np.float32(0.5)
    x = np.nextafter(
        (k * scale).astype(np.float32), np.random.default_rng(1).choice([-9e9, 9e9], N)
    )
    x = np.concatenate([(k * scale).astype(np.float32)[: N // 2], x[N // 2 :].astype(np.float32)])
    call = how(
        lambda x, s: dmlax.element_wise_quantize_linear(
            x, s, 0, output_dtype="int8", arithmetic=arithmetic
        )
    )
    quotient = x / scale if arithmetic == "float32" else x.astype(np.float64) / float(scale)
    expected = np.clip(np.rint(quotient), -128, 127).astype(np.int8)
    scales = np.full(shape, scale)
    assert_same(call(jnp.asarray(x), jnp.asarray(scales)), expected)
    by_reciprocal = x * (np.float32(1) / scale)
    assert (np.clip(np.rint(by_reciprocal), -128, 127) != expected).any()
    naive = np.asarray(jax.jit(lambda x, s: x / s)(x, scale))
    expect_shown("x / scale is not IEEE", (naive != x / scale).any())


def test_the_multiplier_of_float32_arithmetic_is_an_ieee_quotient(how):
    """`(sx * sw) / sy` by XLA may be one unit off, which moves a product over a tie."""
    rng = np.random.default_rng(2)
    sx, sy = np.float32(0.0123), np.float32(0.377)
    sw = rng.uniform(1e-5, 1e-4, N).astype(np.float32)
    multiplier = (sx * sw / sy).astype(np.float32)
    accumulator = np.rint((rng.integers(0, 255, N) + 0.5) / multiplier).astype(np.int32)
    call = how(lambda a, *s: requantize.requantizer(*s, None, np.uint8, "float32")(a))
    product = accumulator.astype(np.float32) * multiplier
    expected = np.clip(np.rint(product), 0, 255).astype(np.uint8)
    one_off = accumulator.astype(np.float32) * np.nextafter(multiplier, np.float32(0))
    assert (np.clip(np.rint(one_off), 0, 255) != expected).sum() > 1000
    scales = map(jnp.asarray, (sx, sw, sy))
    assert_same(call(jnp.asarray(accumulator), *scales), expected)


def test_products_are_rounded_before_anything_is_added(how):
    """`a * b + c` under jit on a CPU is one rounding (FMA), where ONNX Runtime has two.

    The product is rounded to float32, then to an integer, and only then is the zero point added.
    """
    rng = np.random.default_rng(3)
    scale = rng.uniform(1e-7, 1e-6, N).astype(np.float32)
    accumulator = np.rint((rng.integers(-100, 100, N) + 0.5) / scale).astype(np.int32)
    zero = np.int8(17)
    call = how(
        lambda a, s, z: requantize.requantizer(
            s, jnp.float32(1), jnp.float32(1), z, np.int8, "float32"
        )(a)
    )
    rounded = np.rint(accumulator.astype(np.float32) * scale)
    expected = np.clip(rounded + 17, -128, 127).astype(np.int8)
    assert_same(call(jnp.asarray(accumulator), jnp.asarray(scale), jnp.asarray(zero)), expected)
    a, b, c = (rng.uniform(0.5, 2, N).astype(np.float32) for _ in range(3))
    fused = np.asarray(jax.jit(lambda a, b, c: a * b - c)(a, b, c))
    expect_shown("a * b + c contracted to FMA", (fused != a * b - c).any())


def test_dequantizing_rounds_the_product_once_and_keeps_subnormals(how):
    """A float32 product of a wide difference has two roundings, and a CPU flushes subnormals."""
    x = draw(4, np.uint32, N)
    scale = np.float32([1e-45, 1e-40, 3e-39, 0.1])[np.arange(N) % 4]
    call = how(dmlax.element_wise_dequantize_linear)
    once = (x.astype(np.float64) * scale.astype(np.float64)).astype(np.float32)
    exact = np.abs(x.astype(np.float64)) < 2**29  # a float64 product is exact below
    got = np.asarray(call(jnp.asarray(x), jnp.asarray(scale)))
    assert exact.sum() > 1000
    assert_same(got[exact], once[exact])
    naive = np.asarray(how(lambda x, s: x.astype(jnp.float32) * s)(x, scale))
    expect_shown("float32 products of integers", (naive[exact] != once[exact]).any())


def rounded(accumulator, scales, arithmetic):
    """Results in int8, by one program."""

    @jax.jit
    def call(accumulator, *scales):
        return requantize.requantizer(*scales, None, np.int8, arithmetic)(accumulator)

    return np.asarray(call(accumulator, *scales))


def test_no_float_arithmetic_rounds_the_near_ties():
    """float32 and float64 products get some of each family wrong; ours gets none wrong."""
    wrong = {}
    for name in ("float32", "float64", "exact"):
        ties = near_ties.family(name, 100, seed=12)
        columns = np.array(ties, np.int64).T
        accumulator = columns[0].astype(np.int32)
        scales = [c.astype(np.uint32).view(np.float32) for c in columns[1:]]
        expected = requantized(accumulator, scales, 0, np.int8)
        assert_same(rounded(accumulator, scales, "exact"), expected)
        sx, sw, sy = scales
        naive = jax.jit(lambda a, sx, sw, sy: jnp.round(a.astype(jnp.float32) * (sx * sw / sy)))
        naive = np.clip(naive(accumulator, sx, sw, sy), -128, 127).astype(np.int8)
        wrong[name] = int((naive != expected).sum())
    assert wrong["float64"] > 20


def test_the_onnx_arithmetic_differs_from_the_exact_one_where_it_should():
    """Swapping the two would go unseen on easy numbers."""
    accumulator, scales = near(64)
    exact, float32 = (rounded(accumulator, scales, how) for how in ("exact", "float32"))
    assert (exact != float32).sum() > 10
