"""Fixtures for the Hopper kernels: they are lowered on a CPU, as if a GPU were attached."""

import jax
import pytest

from dmlax._core import dispatch
from dmlax._cuda import capability


@pytest.fixture
def attached(monkeypatch):
    """A Hopper GPU seems to be there, and what Pallas needs."""
    monkeypatch.setattr(
        capability, "why_not", lambda platform: None if platform == "cuda" else "no"
    )


@pytest.fixture
def written():
    """The modules of the kernels, which can be imported."""
    if jax.__version_info__[:2] < (0, 11):
        pytest.skip("the kernels are written for JAX 0.11")


@pytest.fixture
def lowered(attached, written):
    """The text of a function's program for CUDA, kernels written in it."""

    def text(function, *shapes):
        trace = jax.jit(function).trace(*shapes)
        return trace.lower(lowering_platforms=("cuda",)).as_text()

    return text


@pytest.fixture
def choose_kernels(monkeypatch):
    """A function that has an operator run its kernels and returns their plans, as they come."""

    def choose(chosen, kernels):
        call, plans = dispatch.call, []

        def call_kernels(operator, plan, given, implementation):
            if operator is not chosen:
                return call(operator, plan, given, implementation)
            plans.append(plan)
            return kernels(plan, given)

        monkeypatch.setattr(dispatch, "call", call_kernels)
        monkeypatch.setattr(capability, "refuse_elsewhere", lambda operator, x, why: x)
        return plans

    return choose
