"""Four host devices, strict promotion, and what every test may ask for."""

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = " ".join(
    [os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=4"]
).strip()
sys.path.insert(0, str(Path(__file__).parent))  # for `support`

import hypothesis
import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
# Below pytest an operation's place is some sixty frames, a tenth of tracing and compiling.
jax.config.update("jax_traceback_in_locations_limit", 0)

_COMMON = {
    "deadline": None,  # most of an example is compilation
    "database": None,
    "max_examples": 40,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("local", **_COMMON)
hypothesis.settings.register_profile("ci", **_COMMON, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

Transform = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and collected tests are no garbage, which each full collection would look for."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


PAGE = os.sysconf("SC_PAGESIZE")
MEMORY = os.sysconf("SC_PHYS_PAGES") * PAGE
MOST_RESIDENT = max(1 << 31, MEMORY // 6)  # bytes, of each of two processes of tests


def pytest_runtest_teardown() -> None:
    """A program takes 2 MiB, which are given back, in seconds, once there are very many."""
    if resident() > MOST_RESIDENT:
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)


def resident() -> int:
    """Bytes of memory of this process, on Linux."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * PAGE


@pytest.fixture
def readers_jax() -> Iterator[None]:
    """A reader has JAX's own type promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(params=["eager", "jit"])
def how(request: pytest.FixtureRequest) -> Transform:
    """A function as it is, or jitted."""
    return jax.jit if request.param == "jit" else lambda function: function
