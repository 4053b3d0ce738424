"""The rounding against fractions: few cases, op by op, so that a mistake shows in a moment."""

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core import rescale
from dmlax_conformance.oracle import floats, near_ties
from dmlax_conformance.oracle.rounding import requantize_float32
from rescale_cases import exact_ties, extremes, in_range, quotients, wild
from support import assert_same, draw, oracle, requantized, wild_floats

DTYPES = ["int8", "uint8"]
KINDS = ["float32", "float16", "int32"]
WIDTHS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]


def near(count):
    """Accumulators whose results lie on a tie, or hardly beside it."""
    ties = [t for name in ("float32", "float64", "exact") for t in near_ties.family(name, count, 9)]
    accumulator, *scales = np.array(ties, np.int64).T
    return accumulator.astype(np.int32), [s.astype(np.uint32).view(np.float32) for s in scales]


@functools.cache
def accumulators():
    """A thousand accumulators of every family, and their three scales."""
    some = [in_range(1, 200), exact_ties(2, 300), wild(3, 100), near(50), extremes(0)]
    columns = zip(*((a, *scales) for a, scales in some), strict=True)
    accumulator, *scales = (np.concatenate(column) for column in columns)
    return accumulator, scales


@functools.cache
def expected_of(dtype, zero):
    accumulator, scales = accumulators()
    return requantized(accumulator, scales, zero, dtype)


@functools.cache
def expected_in_float32(dtype, zero):
    accumulator, scales = accumulators()
    words = zip(*(scale.view(np.uint32).tolist() for scale in scales), strict=True)
    pairs = zip(accumulator.tolist(), words, strict=True)
    return np.array([requantize_float32(a, s, zero, dtype) for a, s in pairs], dtype)


def requantize(dtype, zero, arithmetic):
    accumulator, scales = accumulators()
    zero = None if zero is None else jnp.asarray(zero, dtype)
    with jax.disable_jit():
        return rescale.requantizer(*map(jnp.asarray, scales), zero, dtype, arithmetic)(
            jnp.asarray(accumulator)
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero", [None, 7])
def test_accumulators_become_rounded_fractions(dtype, zero):
    assert_same(requantize(dtype, zero, "exact"), expected_of(dtype, zero or 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero", [None, 7])
def test_in_float32_every_step_is_rounded(dtype, zero):
    assert_same(requantize(dtype, zero, "float32"), expected_in_float32(dtype, zero or 0))


@pytest.mark.parametrize("arithmetic", rescale.ARITHMETICS)
def test_scales_broadcast_to_accumulators(arithmetic):
    scales = jnp.float32([0.5, 0.25])[:, None], jnp.float32(1), jnp.float32([2, 4, 8])
    accumulator = np.arange(-60, 60, dtype=np.int32).reshape(20, 2, 3)
    expected = requantized(accumulator, [np.asarray(scale) for scale in scales], 0, "int8")
    with jax.disable_jit():
        got = rescale.requantizer(*scales, None, "int8", arithmetic)(jnp.asarray(accumulator))
    assert_same(got, expected)


@functools.cache
def values(kind):
    """Some of the quotients, and the last ones, which are special."""
    x, scale = quotients(np.dtype(kind).type)
    return [np.concatenate([a[:-7:13], a[-7:]]) for a in (x, scale)]


@functools.cache
def quantized(kind, dtype):
    x, scale = values(kind)
    zero = draw(47, dtype, x.size)
    inputs = {"InputTensor": x, "ScaleTensor": scale, "ZeroPointTensor": zero}
    asked = {"OutputTensor": (dtype, x.shape)}
    wanted = oracle("element_wise_quantize_linear", inputs, asked)["OutputTensor"]
    return x, scale, zero, wanted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_values_become_rounded_quotients(kind, dtype):
    *operands, expected = quantized(kind, dtype)
    with jax.disable_jit():
        got = rescale.quantize(*map(jnp.asarray, operands), dtype, "exact")
    assert_same(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero", [None, 3])
def test_in_float32_quotients_are_rounded_and_saturate(dtype, zero):
    x, scale, *_ = quantized("float32", dtype)
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        value = np.nan_to_num(x / scale, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    value = np.rint(np.clip(value, -600, 600)) + (zero or 0)
    given = None if zero is None else jnp.asarray(zero, dtype)
    got = rescale.quantize(jnp.asarray(x), jnp.asarray(scale), given, dtype, "float32")
    assert_same(got, np.clip(value, limits.min, limits.max).astype(dtype))


@functools.cache
def dequantized(dtype, kind):
    limits = np.iinfo(dtype)
    x, zero = draw(50, dtype, 200), draw(51, dtype, 200)
    x[:4], zero[:4] = (limits.min, limits.max, 0, 1), (limits.max, limits.min, 0, 1)
    scale = wild_floats(52, 200, np.dtype(kind))
    triples = list(zip(x.tolist(), zero.tolist(), scale.tolist(), strict=True))
    words = [
        [floats.encode(floats.exactly((a - z) * Fraction(s)), kind) for a, z, s in each]
        for each in (triples, [(a, 0, s) for a, _, s in triples])
    ]
    return x, zero, scale, [np.array(w, f"uint{scale.itemsize * 8}").view(kind) for w in words]


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_integers_become_products_rounded_once(dtype, kind):
    x, zero, scale, expected = dequantized(dtype, kind)
    for given, wanted in zip((jnp.asarray(zero), None), expected, strict=True):
        assert_same(rescale.dequantize(jnp.asarray(x), jnp.asarray(scale), given), wanted)
