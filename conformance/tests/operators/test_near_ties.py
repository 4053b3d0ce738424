"""The adversarial triples are what they claim to be, and floats stumble over them."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dmlax_conformance.format.vectors import ExpectedError, Vector
from dmlax_conformance.operators._shared import floats, near_ties
from dmlax_conformance.operators._shared.near_ties import NearTie
from dmlax_conformance.operators._shared.rounding import requantize

COUNT = 1000
QUANTIZED = "quantized_linear_convolution"
FAMILIES = ("float32", "float64", "exact")


@cache
def family(name: str) -> list[NearTie]:
    """Return a thousand of its members."""
    return near_ties.family(name, COUNT)


def distance(tie: NearTie) -> Fraction:
    """Return how far the quotient is from the nearest half."""
    quotient = abs(tie.quotient)
    return abs(quotient - (int(quotient) + Fraction(1, 2)))


@pytest.mark.parametrize("name", FAMILIES)
def test_members_are_distinct_and_in_range(name: str) -> None:
    members = family(name)
    assert len(set(members)) == len(members) == COUNT
    assert all(0 < abs(tie.accumulator) < 2**31 for tie in members)
    assert all(abs(tie.quotient) < 128 for tie in members)
    assert any(tie.accumulator < 0 for tie in members)
    assert any(abs(tie.accumulator) > 2**24 for tie in members)
    words = {word for tie in members for word in tie[1:]}
    assert all(0x00800000 <= word < 0x7F800000 for word in words)


def test_float32_family_is_within_float32_error_but_float64_sees_it() -> None:
    for tie in family("float32"):
        assert 0 < distance(tie) <= abs(tie.quotient) * Fraction(1, 2**23)
        assert np.float32(float(tie.quotient)) % 1 == 0.5
        assert float(tie.quotient) % 1 != 0.5


def test_float64_family_is_within_float64_error() -> None:
    for tie in family("float64"):
        assert 0 < distance(tie) <= abs(tie.quotient) * Fraction(1, 2**52)
        assert float(tie.quotient) % 1 == 0.5


def test_exact_family_consists_of_ties() -> None:
    assert all(distance(tie) == 0 for tie in family("exact"))


def numpy_rounds(members: list[NearTie], dtype: type[np.floating]) -> list[int]:
    columns = np.array(members, np.int64).T
    sums = columns[0].astype(dtype)
    sx, sw, sy = columns[1:].astype(np.uint32).view(np.float32).astype(dtype)
    return [int(value) for value in np.rint(sums * ((sx * sw) / sy))]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float32", np.float32),
        ("float64", np.float32),
        ("float64", np.float64),
        ("exact", np.float32),
        ("exact", np.float64),
    ],
)
def test_numpy_gets_some_wrong(name: str, dtype: type[np.floating]) -> None:
    members = family(name)
    exact = [floats.round_half_even(tie.quotient) for tie in members]
    wrong = sum(a != b for a, b in zip(numpy_rounds(members, dtype), exact, strict=True))
    assert 0 < wrong < len(members)


def test_our_float_formulas_agree_with_numpy() -> None:
    for members in map(family, FAMILIES):
        assert numpy_rounds(members, np.float32) == [*map(near_ties.float32_rounds, members)]
        assert numpy_rounds(members, np.float64) == [*map(near_ties.float64_rounds, members)]


def test_generation_is_deterministic_and_seeded() -> None:
    assert near_ties.family("float64", 50) == family("float64")[:50]
    assert near_ties.family("float64", 50, seed=2) != family("float64")[:50]


def members_of(vector: Vector) -> list[NearTie]:
    bias, sx = vector.inputs["BiasTensor"].words, vector.inputs["InputScaleTensor"].words[0]
    sy = vector.inputs["OutputScaleTensor"].words[0]
    each = zip(bias, vector.inputs["FilterScaleTensor"].words, strict=True)
    return [NearTie(accumulator, sx, sw, sy) for accumulator, sw in each]


def test_frozen_vectors_defeat_floats(suite: list[Vector]) -> None:
    topic = [v for v in suite if (v.topic, v.operator) == ("near-ties", QUANTIZED)]
    assert len(topic) == 9
    for vector in topic:
        members = members_of(vector)
        dtype = np.float64 if "NearTieFloat64" in vector.flags else np.float32
        exact = [floats.round_half_even(tie.quotient) for tie in members]
        wrong = sum(a != b for a, b in zip(numpy_rounds(members, dtype), exact, strict=True))
        assert wrong >= 5, vector.id
        zero = vector.inputs["OutputZeroPointTensor"].words[0]
        want = tuple(requantize(tie.accumulator, tie.scales, zero, "int8") for tie in members)
        assert not isinstance(vector.expect, ExpectedError)
        assert vector.expect["OutputTensor"].words == want
