"""Fixtures of the native kernels' tests."""

import os
import resource
from pathlib import Path

import jax
import pytest

from cpu.instruction_sets import run_on
from dmlax._cpu import library

REQUIRED = "DMLAX_REQUIRE_NATIVE"  # set where a compiler is known to be: absence then fails


def pytest_collection_modifyitems(items):
    """Without the library there is nothing to run, unless it has to be there."""
    why = library.why_not("cpu")
    if why is None or os.environ.get(REQUIRED):
        return
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.name != "test_library.py":
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture
def memory_gained():
    """KiB of resident memory that a million calls gain after the first: of two operands in turn."""

    def gained(call, small, large):
        def peak(calls):
            for i in range(calls):
                jax.block_until_ready(call(small if i % 1000 else large))
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        before = peak(50_000)
        return peak(1_000_000) - before

    return gained


@pytest.fixture
def on_instruction_set():
    """A function that runs Python code where the kernels use one instruction set."""
    return run_on
