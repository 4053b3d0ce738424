"""Four host devices, strict promotion, and what every test may ask for."""

import ctypes
import gc
import importlib.util
import itertools
import os
import platform
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = " ".join(
    [os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=4"]
).strip()
sys.path.insert(0, str(Path(__file__).parent))  # the tests import `support`

import hypothesis
import jax
import pytest

from dmlax._cpu import library
from support.fixtures.cpu import memory_gained, on_instruction_set, skip_without_library  # noqa: F401
from support.fixtures.cuda import (  # noqa: F401
    attached,
    choose_kernels,
    lowered,
    run_without_gpu,
    written,
)
from support.memory import MEMORY, resident

jax.config.update("jax_numpy_dtype_promotion", "strict")
# Below pytest an operation's place is some sixty frames, a tenth of tracing and compiling.
jax.config.update("jax_traceback_in_locations_limit", 0)

# The sessions of the oldest and the newest Python do not install the group `integrations`.
collect_ignore = (
    []
    if importlib.util.find_spec("flax")
    else [
        "litert/test_docs.py",
        "quantization/test_flax_networks.py",
        "support/flax_networks.py",
    ]
)

_COMMON = {
    "deadline": None,  # most of an example is compilation
    "database": None,
    "max_examples": 25,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("local", **_COMMON)
hypothesis.settings.register_profile("ci", **_COMMON, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

Transform = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and collected tests are no garbage, which each full collection would look for.

    What their import sets in the environment would change other tests. (Mosaic sets XLA's flags.)
    """
    gc.disable()
    before = dict(os.environ)
    yield
    gc.freeze()
    gc.enable()
    names = {name for name, _ in before.items() ^ os.environ.items()}
    if changed := sorted(name for name in names if name.startswith(("DMLAX_", "JAX_"))):
        raise pytest.UsageError(f"importing the tests changes the environment: {changed}")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kernels that are absent are not tested; `one_in` makes most parameters of a test slow."""
    skip_without_library(items)
    numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    for item in items:
        chosen = item.get_closest_marker("one_in")
        if chosen and not item.get_closest_marker("slow"):
            number = next(numbers[item.nodeid.partition("[")[0]])
            if not is_one_in(chosen.args[0], number):
                item.add_marker(pytest.mark.slow)


def is_one_in(count: int, number: int) -> bool:
    """True for about one number in `count`, in uneven steps: no value of a parameter is left out.

    An even step through stacked parameters would meet the same value of one of them each time.
    """
    step = count - 0.382  # the golden ratio's fraction
    return number // step > (number - 1) // step


MOST_RESIDENT = max(1 << 31, MEMORY // 6)  # bytes, of each of two processes of tests


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line of what ran, and a line of what was skipped, by reason."""
    python = platform.python_version()
    kernels = library.why_not("cpu") or library.instruction_set()
    terminalreporter.write_line(f"ran on: Python {python}, JAX {jax.__version__}, {kernels}")
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    counts = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    if counts:
        terminalreporter.write_line(f"skipped: {counts}")


def pytest_runtest_teardown() -> None:
    """A program takes 2 MiB, which are given back, in seconds, once there are very many."""
    if resident() > MOST_RESIDENT:
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture
def readers_jax() -> Iterator[None]:
    """A reader has JAX's own type promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(params=["eager", "jit"])
def how(request: pytest.FixtureRequest) -> Transform:
    """A function as it is, or jitted."""
    return jax.jit if request.param == "jit" else lambda function: function
