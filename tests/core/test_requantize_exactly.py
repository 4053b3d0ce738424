"""The rounding against fractions: few cases, op by op, so that a mistake shows in a moment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core import requantize
from support import assert_same, requantized
from support.cases.requantize import (
    accumulators,
    dequantized,
    expected_in_float32,
    expected_of,
    quantized,
)

pytestmark = pytest.mark.mutation  # the files without `exactly` say the same, jitted

DTYPES = ["int8", "uint8"]
KINDS = ["float32", "float16", "int32"]
WIDTHS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]


def requantize_all(dtype, zero, arithmetic):
    accumulator, scales = accumulators()
    zero = None if zero is None else jnp.asarray(zero, dtype)
    with jax.disable_jit():
        return requantize.requantizer(*map(jnp.asarray, scales), zero, dtype, arithmetic)(
            jnp.asarray(accumulator)
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero", [None, 7])
def test_accumulators_become_rounded_fractions(dtype, zero):
    assert_same(requantize_all(dtype, zero, "exact"), expected_of(dtype, zero or 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero", [None, 7])
def test_in_float32_every_step_is_rounded(dtype, zero):
    assert_same(requantize_all(dtype, zero, "float32"), expected_in_float32(dtype, zero or 0))


@pytest.mark.parametrize("arithmetic", requantize.ARITHMETICS)
def test_scales_broadcast_to_accumulators(arithmetic):
    scales = jnp.float32([0.5, 0.25])[:, None], jnp.float32(1), jnp.float32([2, 4, 8])
    accumulator = np.arange(-60, 60, dtype=np.int32).reshape(20, 2, 3)
    expected = requantized(accumulator, [np.asarray(scale) for scale in scales], 0, "int8")
    with jax.disable_jit():
        got = requantize.requantizer(*scales, None, "int8", arithmetic)(jnp.asarray(accumulator))
    assert_same(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_values_become_rounded_quotients(kind, dtype):
    *operands, expected = quantized(kind, dtype)
    with jax.disable_jit():
        got = requantize.quantize(*map(jnp.asarray, operands), dtype, "exact")
    assert_same(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arithmetic", requantize.ARITHMETICS)
def test_quarters_are_rounded_over_the_whole_range(arithmetic, kind, dtype):
    x, scale = np.arange(-1040, 1041), jnp.asarray(4, "float32" if kind == "int32" else kind)
    limits = np.iinfo(dtype)
    for zero in (limits.min, limits.max):
        got = requantize.quantize(
            jnp.asarray(x, kind), scale, jnp.asarray(zero, dtype), dtype, arithmetic
        )
        assert_same(got, np.clip(np.rint(x / 4) + zero, limits.min, limits.max).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero", [None, 3])
def test_in_float32_quotients_are_rounded_and_saturate(dtype, zero):
    x, scale, *_ = quantized("float32", dtype)
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        value = np.nan_to_num(x / scale, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    value = np.rint(np.clip(value, -600, 600)) + (zero or 0)
    given = None if zero is None else jnp.asarray(zero, dtype)
    got = requantize.quantize(jnp.asarray(x), jnp.asarray(scale), given, dtype, "float32")
    assert_same(got, np.clip(value, limits.min, limits.max).astype(dtype))


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_integers_become_products_rounded_once(dtype, kind):
    x, zero, scale, expected = dequantized(dtype, kind)
    for given, wanted in zip((jnp.asarray(zero), None), expected, strict=True):
        assert_same(requantize.dequantize(jnp.asarray(x), jnp.asarray(scale), given), wanted)
