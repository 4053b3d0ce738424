"""A slice of `nox -s differential`, which draws thousands of graphs."""

import pytest

from differential.__main__ import BAD
from differential.graphs import describe, draw
from differential.judge import check


@pytest.mark.parametrize("start", range(0, 20, 10))
def test_random_graphs_mean_what_they_say(start):
    """Most of them run, and are compared bit by bit."""
    verdicts = []
    for seed in range(start, start + 10):
        verdict, why = check(seed)
        assert verdict not in BAD, f"seed {seed}: {why}\n{describe(draw(seed)[0])}"
        verdicts.append(verdict)
    assert verdicts.count("right") >= 6
