"""The one rounding: the requantizer, quantize and dequantize against rational arithmetic."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grading import near_ties

from dmlax._core import requantize
from dmlax_conformance.oracle.exact import quantize
from support import assert_same, draw, requantized
from support.cases.requantize import (
    FAMILIES,
    INT_MIN,
    exact_ties,
    extremes,
    float32_product,
    near,
    nearest,
    tiny,
)

DTYPES = [np.int8, np.uint8]


def run(accumulator, scales, zero_point, dtype, arithmetic="exact"):
    zero = None if zero_point is None else jnp.asarray(zero_point, dtype)
    scales = [jnp.asarray(scale, jnp.float32) for scale in scales]
    return requantize.requantizer(*scales, zero, dtype, arithmetic)(jnp.asarray(accumulator))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_requantizing_is_the_rounded_rational_number(family, dtype):
    accumulator, scales = FAMILIES[family](7)
    expected = requantized(accumulator, scales, 0, dtype)
    assert_same(jax.jit(lambda a, *s: run(a, s, None, dtype))(accumulator, *scales), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_requantizing_adds_any_zero_point_after_rounding(dtype):
    accumulator, scales = exact_ties(8, 128)
    zero_points = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)[:, None]
    expected = requantized(accumulator, scales, zero_points, dtype)
    assert_same(
        jax.jit(lambda a, z, *s: run(a, s, z, dtype))(accumulator, zero_points, *scales), expected
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_requantizing_near_ties_is_exact(dtype):
    accumulator, scales = near(64)
    expected = requantized(accumulator, scales, 0, dtype)
    assert_same(jax.jit(lambda a, *s: run(a, s, None, dtype))(accumulator, *scales), expected)


def every_family():
    """All families, the sums next to a tie, and near ties: accumulators and scales."""
    ties = np.array(near_ties.family("exact", 64, 9), np.int64).T
    cases = [family(7) for family in FAMILIES.values()] + [nearest(), tiny()]
    cases.append((ties[0], [words.astype(np.uint32).view(np.float32) for words in ties[1:]]))
    accumulators, scales = zip(*cases, strict=True)
    scales = [np.concatenate(parts) for parts in zip(*scales, strict=True)]
    return np.concatenate(accumulators).astype(np.int32), scales


@pytest.mark.parametrize("has_bias", [False, True])
def test_scales_that_a_program_holds_round_alike(has_bias):
    totals, scales = every_family()
    bias = draw(3, np.int32, totals.size) if has_bias else np.zeros_like(totals)
    accumulator = totals.astype(np.int64) - bias
    bias = np.where(accumulator == accumulator.astype(np.int32), bias, 0)

    @jax.jit
    def call(accumulator):
        threshold = requantize.factors_of_constants(scales, accumulator, "exact", has_bias)
        assert threshold is not None
        return requantize.requantizer(
            *map(jnp.asarray, scales),
            None,
            "int8",
            "exact",
            jnp.asarray(bias) if has_bias else None,
            threshold,
        )(accumulator)

    assert_same(call(totals - bias), requantized(totals, scales, 0, "int8"))


def test_a_threshold_is_that_of_finite_scales_which_a_program_holds():
    rows, columns, one = np.float32([[1], [2]]), np.float32([3, 4]), np.ones((), np.float32)

    def shape(input, *scales, arithmetic="exact"):
        found = requantize.factors_of_constants(scales, input, arithmetic)
        return None if found is None else found.integer.shape

    @jax.jit
    def call(x):
        assert shape(x, one, columns, one) == (2,)
        assert shape(x, rows, one, one) == (2, 1)
        assert shape(x, rows, columns, one) is None
        assert shape(x, one, x, one) is None
        assert shape(x, one, columns, one, arithmetic="float32") is None
        assert shape(x, one, np.float32([1, np.nan]), one) is None
        assert shape(x, one, one, 0 * one[None]) is None
        return x

    call(columns)
    assert shape(columns, one, columns, one) is None


def test_the_most_negative_accumulator_has_the_magnitude_that_int32_cannot_hold():
    scale = np.float32(2.0**-31)
    rounded = jax.jit(lambda scale: run(np.int32(INT_MIN), (scale, 1, 1), None, np.int8))
    assert rounded(scale * 100).tolist() == -100
    assert rounded(-scale * 100).tolist() == 100


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_float32_arithmetic_is_numpys_float32(family, dtype):
    accumulator, scales = FAMILIES[family](17)
    with np.errstate(all="ignore"):
        multiplier = scales[0] * scales[1] / scales[2]
        product = accumulator.astype(np.float32) * multiplier
    finite = np.isfinite(product)
    limits = np.iinfo(dtype)
    zero = np.asarray(limits.max - 3, dtype)
    rounded = np.rint(np.clip(product[finite], -1000, 1000)).astype(np.int64) + int(zero)
    expected = np.clip(rounded, limits.min, limits.max).astype(dtype)
    got = jax.jit(lambda a, *s: run(a, s, zero, dtype, "float32"))(accumulator, *scales)
    assert finite.mean() > 0.2
    assert_same(np.asarray(got)[finite], expected)


def test_float32_arithmetic_saturates_infinities_and_sends_nan_to_the_lowest_value():
    accumulator, scales = extremes(0)
    words = [scale.view(np.uint32).tolist() for scale in scales]
    expected = [
        quantize(float32_product(a, s), Fraction(1), 5, "int8")
        for a, s in zip(accumulator.tolist(), zip(*words, strict=True), strict=True)
    ]
    got = jax.jit(lambda a, *s: run(a, s, np.int8(5), np.int8, "float32"))(accumulator, *scales)
    assert_same(got, np.array(expected, np.int8))


@pytest.mark.parametrize(
    ("scales", "expected"),
    [
        ((0.5, 0.25, 8.0), True),
        ((-0.5, [0.25, 1e-3], 8.0), True),
        ((0.5, [0.25, 1e-9], 8.0), False),
        ((1e-20, 1e-20, 1e-38), False),  # a float32 product underflows
        ((1e-20, 1e20, 1e-35), False),
        ((np.nan, 1.0, 1.0), False),
        ((0.0, 1.0, 1.0), False),
        (([[0.5], [0.25]], [0.5, 0.25], 1.0), False),  # one per row and one per column
        ((0.5, 0.25, None), False),  # traced
    ],
)
def test_steep_scales_are_known_and_saturate_beyond_int32(scales, expected):
    found = []

    def trace(x):
        given = [x if scale is None else np.asarray(scale, np.float32) for scale in scales]
        found.append(requantize.saturates_beyond_int32(given, x))
        return x

    jax.make_jaxpr(trace)(np.float32(1))
    assert found == [expected]
