"""A slice of `nox -s differential`, which draws thousands of graphs."""

import pytest

from differential.__main__ import BAD
from differential.graphs import describe, draw
from differential.judge import check


@pytest.mark.parametrize("start", range(0, 80, 10))
def test_random_graphs_mean_what_they_say(start):
    for seed in range(start, start + 10):
        verdict, why = check(seed)
        assert verdict not in BAD, f"seed {seed}: {why}\n{describe(draw(seed)[0])}"


def test_most_graphs_run_and_are_compared_bit_by_bit():
    verdicts = [check(seed)[0] for seed in range(80, 100)]
    assert verdicts.count("right") >= 15
