"""Random inputs of a file, and how outputs compare."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlax.onnx.differences import Difference, difference_of

BOUND = 2e-5  # bounds floats' differences, relative to the greatest, or to 1e-6


def draw_inputs(details: Mapping[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs by name; integers of their whole range."""
    return {name: _input(np.dtype(x["dtype"]), x["shape"], rng) for name, x in details.items()}


def _input(dtype: np.dtype, shape: Any, rng: np.random.Generator) -> np.ndarray:
    if dtype.kind == "f":
        return np.asarray(rng.uniform(-1.5, 1.5, shape), dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(limits.min, limits.max, shape, endpoint=True), dtype)


def difference(found: np.ndarray, wanted: np.ndarray) -> str:
    """A sentence about tensors that differ, "" if they agree; integers must be equal."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{list(found.shape)}, expected {wanted.dtype}{list(wanted.shape)}"
    gap = difference_of("", "", found, wanted)
    if not gap.different or (gap.relative is not None and relative(gap) <= BOUND):
        return ""
    return f"{gap.different} of {gap.size} elements, by up to {gap.worst:g}"


def relative(gap: Difference) -> float:
    """The difference of floats relative to the greatest, or to 1e-6; 0 of other tensors."""
    return 0.0 if gap.relative is None else min(gap.relative, gap.worst * 1e6)
