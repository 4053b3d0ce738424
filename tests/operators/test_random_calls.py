"""Random calls of every operator by every implementation that a CPU runs, beside NumPy's results.

`tests/cpu/test_random_calls.py` has the native kernels on each instruction set.
"""

from importlib import import_module

import pytest

from support import NATIVE
from support.calls.matmul import run_padded

pytestmark = pytest.mark.oldest

MODULES = {  # the calls that run by default, by a kernel and by others, and how many there are
    "binary": (200, 10, 3000),
    "convolution": (40, 30, 1000),
    "convolution_add": (40, 4, 3000),
    "dynamic_quantize": (10, 6, 2000),
    "elementwise": (80, 20, 2000),
    "lookup": (40, 10, 400),
    "matmul": (40, 20, 1000),
    "nonzero": (10, 6, 60),
    "pooling": (40, 4, 2000),
}
every_implementation = pytest.mark.parametrize("implementation", [*NATIVE, "xla", "reference"])


def check(module, implementation, first, last):
    """XLA would fold the constants of a jitted call, slowly and by other code."""
    calls = import_module(f"support.calls.{module}")
    eager = {"eager": True} if implementation not in NATIVE and module != "nonzero" else {}
    assert list(calls.mismatches(implementation, first, last, **eager)) == []


@every_implementation
@pytest.mark.parametrize("module", MODULES)
def test_random_calls(module, implementation):
    check(module, implementation, 0, MODULES[module][implementation not in NATIVE])


@pytest.mark.slow
@every_implementation
@pytest.mark.parametrize("module", MODULES)
def test_many_random_calls(module, implementation):
    check(module, implementation, MODULES[module][0], MODULES[module][2])


def test_random_products_as_xla_computes_them_on_cuda(monkeypatch):
    run_padded(monkeypatch)
    check("matmul", "xla", 0, 20)
