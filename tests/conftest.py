"""Four host devices, strict promotion, and what every test may ask for."""

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


def pytest_collection_finish() -> None:
    """Modules and collected tests are no garbage, which each full collection would look for."""
    gc.freeze()


@pytest.fixture
def readers_jax() -> Iterator[None]:
    """A reader has JAX's own type promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(params=["eager", "jit"])
def how(request: pytest.FixtureRequest) -> Transform:
    """A function as it is, or jitted."""
    return jax.jit if request.param == "jit" else lambda function: function
