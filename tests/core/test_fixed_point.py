"""Fixed-point requantization, against Python's integers and its float64."""

import fractions
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core import fixed_point
from dmlax._core.fixed_point import Multiplier

RNG = np.random.default_rng(0)
EDGES = [0, 1, -1, 2**30, -(2**30), 2**31 - 1, -(2**31)]
NUMBERS = np.array([*EDGES, *RNG.integers(-(2**31), 2**31, 3000), *range(-200, 200)], np.int64)
FACTORS = 2.0 ** RNG.uniform(-34, 0, NUMBERS.size)
FACTORS[::5] = 2.0 ** RNG.integers(-31, 0, FACTORS[::5].size)  # ties


def high(x, value, exponent):
    """The product's high word, before the shift to the right."""
    return ((x << max(exponent, 0)) * value + (1 << 30)) >> 31


def half_away(x, count):
    rounded = (abs(x) + (1 << count >> 1)) >> count
    return rounded if x >= 0 else -rounded


def half_up(x, count):
    return (x + (1 << count >> 1)) >> count


def once(x, value, exponent):
    return (x * value + (1 << (30 - exponent))) >> (31 - exponent)


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
    wanted = []
    for x in numbers.tolist():
        exact = fractions.Fraction(abs(x * real))  # the float64 product
        wanted.append(int(math.copysign(math.floor(exact + fractions.Fraction(1, 2)), x)))
    pair = fixed_point.widen(jnp.asarray(numbers))
    assert fixed_point.scale_float64(pair, np.float64(real)).tolist() == wanted
