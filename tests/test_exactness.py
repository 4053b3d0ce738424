"""Near ties of every family through the convolution; `slow` runs the full numbers."""

import functools
import itertools

import numpy as np
import pytest
from grading import near_ties

import dmlax
from support import (
    draw,
)

pytestmark = pytest.mark.oldest

CHANNELS = 16  # what one draw of an input and an output scale has


def counts(fast, full):
    return [fast, pytest.param(full, marks=pytest.mark.slow)]


@functools.cache
def family(name, count):
    return near_ties.family(name, count, seed=2024)


def floats(words):
    return np.array(words, np.uint32).view(np.float32)


@pytest.mark.parametrize("implementation", ["auto", "xla"])
@pytest.mark.parametrize("count", counts(64, 1000))
@pytest.mark.parametrize("name", ["float32", "float64", "exact"])
def test_adversarial_near_ties_through_the_convolution(name, count, implementation, how):
    """A bias reaches every accumulator, where the input is its zero point."""
    x, w = np.full((1, 1, 1, 1), 9, np.uint8), draw(1, np.int8, (CHANNELS, 1, 1, 1))

    @how
    def call(bias, sx, sw, sy):
        return dmlax.quantized_linear_convolution(
            *(x, w, bias),
            input_scale=sx,
            filter_scale=sw,
            output_scale=sy,
            input_zero_point=9,
            output_zero_point=128,
            implementation=implementation,
        )

    seen = mismatches = 0
    for shared, group in itertools.groupby(family(name, count), lambda tie: (tie[1], tie[3])):
        ties = list(group)
        channels = (ties * CHANNELS)[:CHANNELS]
        bias = np.array([tie.accumulator for tie in channels], np.int32)
        sx, sy = floats(shared)
        got = call(bias, sx, floats([tie.filter_scale for tie in channels]), sy)
        expected = [min(max(round(tie.quotient) + 128, 0), 255) for tie in ties]
        mismatches += sum(np.asarray(got).reshape(-1)[: len(ties)] != expected)
        seen += len(ties)
    print(f"{seen} near-ties of family {name}: {mismatches} mismatches")
    assert (seen, mismatches) == (count, 0)
