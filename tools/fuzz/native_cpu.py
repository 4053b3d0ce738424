"""A fuzz target for the native kernels, by Atheris; `nox -s fuzz` runs it under sanitizers.

    python tools/fuzz/native_cpu.py -max_total_time=600

Each input becomes a call of a kernel: a valid one, whose output must be what `tests/support/calls`
expects, or one of a handler itself with anything in its shapes and attributes, which must be
refused or answered, and never read or write what is not its own.
"""

import sys
from importlib import import_module
from pathlib import Path

import atheris

TESTS = Path(__file__).parents[2] / "tests"
sys.path.append(str(TESTS))
with atheris.instrument_imports(include=["dmlax"]):
    import dmlax  # noqa: F401

import jax
import numpy as np

from support.hostile.handlers import CALLS, changed, far_windows

FRESH = 0.7  # the share of new inputs; the rest are changes of telling inputs
KEPT = 500  # calls, after which what was compiled for them is forgotten
VALID = [
    *("binary", "convolution", "dynamic_quantize", "elementwise", "lookup", "matmul", "nonzero"),
    "pooling",
]
calls = 0


@atheris.instrument_func
def one_input(data: bytes) -> None:
    """Run one call."""
    global calls
    calls += 1
    if calls % KEPT == 0:
        jax.clear_caches()
    given = atheris.FuzzedDataProvider(data)
    if given.ConsumeBool():
        hostile_handler(given)
    else:
        valid_call(given)


def fresh_or_changed(data: bytes, most: int, seed: int) -> bytes:
    """Mostly new bytes: where a sanitizer keeps its counters to itself, no input looks telling."""
    rng = np.random.default_rng(seed)
    if rng.random() < FRESH:
        return rng.bytes(int(rng.integers(1, most)))
    return bytes(atheris.Mutate(data, len(data)))


@atheris.instrument_func
def valid_call(given: atheris.FuzzedDataProvider) -> None:
    """One of 2^32 random calls of an operator."""
    module = import_module(f"support.calls.{given.PickValueInList(list(VALID))}")
    seed = given.ConsumeIntInRange(0, 2**32 - 1)
    assert list(module.mismatches("native_cpu", seed, seed + 1)) == []


@atheris.instrument_func
def hostile_handler(given: atheris.FuzzedDataProvider) -> None:
    """Any handler, its attributes up to 2^63, its windows far outside of the image or not."""
    target = given.PickValueInList(list(CALLS))
    rng = np.random.default_rng(given.ConsumeIntInRange(0, 2**32 - 1))
    if "windows" in CALLS[target].attributes and given.ConsumeBool():
        far_windows(rng, target, CALLS[target]).run(target)
    else:
        changed(rng, CALLS[target]).run(target)


if __name__ == "__main__":
    options = ["-len_control=0", "-max_len=600"]
    atheris.Setup([*sys.argv, *options], one_input, custom_mutator=fresh_or_changed)
    atheris.Fuzz()
