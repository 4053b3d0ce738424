"""Random inputs of a file, and how outputs compare."""

from collections.abc import Mapping
from typing import Any

import numpy as np

_BOUND = 2e-5  # bounds floats' differences, relative to the greatest


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
    if wanted.dtype.kind in "iub":
        if differing := int((found != wanted).sum()):
            most = np.abs(found.astype(np.int64) - wanted.astype(np.int64)).max()
            return f"{differing} of {wanted.size} integers, by up to {most}"
        return ""
    with np.errstate(all="ignore"):
        is_same = (np.isnan(found) & np.isnan(wanted)) | (found == wanted)
        distance = np.where(is_same, 0, np.abs(found - wanted))
        finite = np.abs(np.where(np.isfinite(wanted), wanted, 0))
        scale = max(float(finite.max(initial=0)), 1e-6)
        bad = ~(distance <= _BOUND * scale)
    return f"{int(bad.sum())} of {wanted.size} floats" if bad.any() else ""
