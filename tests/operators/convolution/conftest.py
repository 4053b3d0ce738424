"""Programs of other platforms, as a CPU computes them."""

import pytest

from dmlax._core import dispatch, eager
from dmlax._operators.convolution import xla


@pytest.fixture
def take(monkeypatch):
    """Has a CPU run a branch of XLA's, and lists the plans; what was traced before is forgotten."""
    plans = []

    def name(branch):
        def run(plan, images, operands):
            plans.append(plan)
            return getattr(xla, branch)(plan, operands)

        monkeypatch.setattr(xla, "_in_parts", run)
        return plans

    dispatch._program.cache_clear()
    eager.clear()
    yield name
    dispatch._program.cache_clear()
    eager.clear()
