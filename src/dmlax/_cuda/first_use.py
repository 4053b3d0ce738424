"""Kernels on a GPU of a capability that nobody has run: `xla` checks each one before its first use.

A kernel that gives other bits on a small call, or fails, is not chosen in that process.
"""

import functools
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from dmlax._core.dispatch import Lowering, OperandsT, OutputT, PlanT
from dmlax._cuda import capability

Calls = Sequence[tuple[Any, Any]]
"""Plans and their operands."""


def checked(
    kernel: Lowering[PlanT, OperandsT, OutputT],
    general: Lowering[PlanT, OperandsT, OutputT],
    calls: Callable[[], Calls],
) -> Lowering[PlanT, OperandsT, OutputT]:
    """Makes a kernel refuse on such a GPU if a small call has other bits than `general`."""

    @functools.cache
    def why_wrong() -> str | None:
        # A trace may be under way in this thread.
        with ThreadPoolExecutor(1) as other_thread:
            wrong = other_thread.submit(_why_wrong, kernel, general, calls).result()
        if wrong is None:
            return None
        gpu = capability.attached()
        warnings.warn(
            f"dmlax: {wrong}, on a GPU of compute capability {gpu}, on which nobody has run it: it "
            "is off, and xla runs. Please report this",
            RuntimeWarning,
            stacklevel=2,
        )
        return f"{wrong}, and nobody has run it on compute capability {gpu}"

    def why_not(plan: Any, platform: str) -> str | None:
        why = kernel.why_not(plan, platform)
        if why or platform != "cuda" or capability.attached().was_run:
            return why
        return why_wrong()

    return replace(kernel, why_not=why_not)


def unless_not_run(
    kernel: Lowering[PlanT, OperandsT, OutputT],
) -> Lowering[PlanT, OperandsT, OutputT]:
    """Makes a kernel refuse on such a GPU, as it has no check: its parts then run, checked."""

    def why_not(plan: Any, platform: str) -> str | None:
        why = kernel.why_not(plan, platform)
        if why or platform != "cuda" or capability.attached().was_run:
            return why
        return f"nobody has run it on compute capability {capability.attached()}"

    return replace(kernel, why_not=why_not)


def draw(seed: int, dtype: Any, *shape: int) -> np.ndarray:
    """Bytes of a small call."""
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8).view(dtype)


def _why_wrong(
    kernel: Lowering[Any, Any, Any], general: Lowering[Any, Any, Any], calls: Callable[[], Calls]
) -> str | None:
    """The beginning of a sentence that says what is wrong, or None."""
    for plan, operands in calls():
        runs = (jax.jit(functools.partial(low.run, plan)) for low in (kernel, general))
        try:
            given, wanted = (list(map(np.asarray, jax.tree.leaves(run(operands)))) for run in runs)
        except Exception as error:
            return f"a kernel's first call raised {type(error).__name__}"
        pairs = zip(given, wanted, strict=True)
        if not all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in pairs):
            return "a kernel's first call gave other bits than xla"
    return None
