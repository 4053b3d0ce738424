"""Fixed-point requantization, against Python's integers and its float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core import fixed_point
from dmlax._core.fixed_point import Float64, Multiplier
from support.fixed_point import float64, half_away, half_up, high, multiplier, once

RNG = np.random.default_rng(0)
EDGES = [0, 1, -1, 2**30, -(2**30), 2**31 - 1, -(2**31)]
NUMBERS = np.array([*EDGES, *RNG.integers(-(2**31), 2**31, 3000), *range(-200, 200)], np.int64)
FACTORS = 2.0 ** RNG.uniform(-34, 8, NUMBERS.size)
FACTORS[::5] = 2.0 ** RNG.integers(-31, 8, FACTORS[::5].size)  # ties


@pytest.mark.parametrize(
    ("function", "meaning"),
    [
        (fixed_point.scale_half_away, lambda x, q, e: half_away(high(x, q, e), max(-e, 0))),
        (fixed_point.scale_half_up, lambda x, q, e: half_up(high(x, q, e), max(-e, 0))),
        (fixed_point.scale_once, once),
    ],
    ids=["half_away", "half_up", "once"],
)
def test_multipliers_of_31_bits(function, meaning):
    by = Multiplier.of(FACTORS)
    triples = zip(NUMBERS.tolist(), by.value.tolist(), by.exponent.tolist(), strict=True)
    x = jnp.asarray(NUMBERS, jnp.int32)
    assert jax.jit(lambda x: function(x, by))(x).tolist() == [meaning(*each) for each in triples]


def test_a_multiplier_is_the_nearest_and_tiny_or_huge_ones_saturate():
    by = Multiplier.of([0.5, 1 - 2.0**-40, 0.75, 2.0**-33, 2.0**40])
    assert by.value.tolist() == [1 << 30, 1 << 30, 3 << 29, 0, 2**31 - 1]
    assert by.exponent.tolist() == [0, 1, 0, 0, 30]


def test_sums_of_64_bits_are_scaled_by_15_bits():
    wide = RNG.integers(-(2**46), 2**46, 2000)
    by = Multiplier.of(2.0 ** RNG.uniform(-31, -16, wide.size))
    pair = jnp.asarray(wide >> 32, jnp.int32), jnp.asarray(wide & 0xFFFFFFFF, jnp.uint32)
    wanted = []
    for x, value, exponent in zip(
        wide.tolist(), by.value.tolist(), by.exponent.tolist(), strict=True
    ):
        reduced = (value + (1 << 15)) >> 16 if value < 0x7FFF0000 else 0x7FFF
        wanted.append(half_up(x * reduced, 15 - exponent))
    assert fixed_point.scale_pair(pair, by).tolist() == wanted


@pytest.mark.parametrize("real", [1 / 6, 1 / 3, 0.5, 1 / 12, 0.0123, 1 / 384, 3.7, 2.0**-20 / 3])
def test_float64_products_round_halves_away(real):
    most = min(int(30000 / real), 2**31 - 1)
    numbers = np.unique([*RNG.integers(-most, most, 2000), *range(-300, 300)]).astype(np.int32)
    wanted = [float64(x, real) for x in numbers.tolist()]
    pair = fixed_point.widen(jnp.asarray(numbers))
    assert fixed_point.scale_float64(pair, Float64.of(real)).tolist() == wanted


def test_factors_of_traced_scales_are_those_of_known_ones():
    a, b, divisor = (2.0 ** RNG.uniform(-20, 20, (3, 5000))).astype(np.float32)
    b[::3], divisor[::3] = 1, 2.0 ** RNG.integers(-9, 9, b[::3].size)
    a[1::50], divisor[2::70] = -a[1::50], -divisor[2::70]
    a[:8] = [1 - 2.0**-24, 2.0**-126, 2.0**127, 2.0**-149, 1e-38, 3e38, 1, 2]
    real = a.astype(np.float64) * b / divisor
    for kind in (Multiplier, Float64):
        known, traced = kind.of(real), jax.jit(kind.of_quotient)(a, b, divisor)
        # A float64 of 2**20 or more stands for any such one.
        near = np.abs(real) < 2.0**20 if kind is Float64 else np.full(real.shape, True)
        for x, y in zip(known, traced, strict=True):
            assert np.asarray(x)[near].tolist() == np.asarray(y)[near].tolist()
    by = Multiplier.of(real)
    assert [*zip(by.value.tolist(), by.exponent.tolist(), strict=True)] == [*map(multiplier, real)]
