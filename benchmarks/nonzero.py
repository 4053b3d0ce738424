"""Coordinates of non-zero elements against `jnp.nonzero`."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dmlax
from benchmarks import timing
from benchmarks.cases import Sparse
from benchmarks.report import Report, Row, Target, mean, tracked

_LARGE = 2**20  # elements of a flat array that has to gain
_NUMPY_REPEATS = 3
_CPU_MOST, _GPU_MOST = 2**24, 2**26


def most() -> int:
    """The largest array for this device."""
    return _CPU_MOST if jax.default_backend() == "cpu" else _GPU_MOST


def run(arrays: Sequence[Sparse], repeats: int) -> Report:
    """Check, then time, every array."""
    report = Report("nonzero", [_row(case, repeats) for case in tracked(arrays, "nonzero")])
    report.targets.extend(_targets(report.rows))
    return report


def _row(case: Sparse, repeats: int) -> Row:
    array = case.array()
    x = jax.device_put(array)
    ours = partial(_finish, jax.jit(dmlax.nonzero_coordinates), x)
    peer = partial(_finish, jax.jit(partial(jnp.nonzero, size=case.size)), x)
    _check(case, ours(), np.argwhere(array))
    pair = timing.pair(ours, peer, repeats)
    return {
        "array": case.name,
        "elements": case.size,
        "jnp ms": pair.peer,
        "dmlax ms": pair.ours,
        "speed-up": 1 / pair.ratio,
        "spread": f"{1 / pair.high:.2f}-{1 / pair.low:.2f}",
        "np ms": timing.alone(partial(np.nonzero, array), _NUMPY_REPEATS),
    }


def _finish(function: Any, x: jax.Array) -> Any:
    return jax.block_until_ready(function(x))


def _check(case: Sparse, ours: Any, rows: np.ndarray) -> None:
    padded = np.zeros((case.size, len(case.shape)), np.uint32)
    padded[: len(rows)] = rows
    np.testing.assert_array_equal(ours.count, np.uint32(len(rows)), case.name, strict=True)
    np.testing.assert_array_equal(ours.coordinates, padded, case.name, strict=True)


def _targets(rows: list[Row]) -> list[Target]:
    large = [row["speed-up"] for row in rows if _is_large(row)]
    others = [row["speed-up"] for row in rows if not _is_large(row)]
    targets = [Target("all: geometric mean of speed-up", mean([*large, *others]), 1, True)]
    if large:
        targets.append(Target("flat from 2^20: least speed-up", min(large), 2, True))
    if others:
        targets.append(Target("others: least speed-up", min(others), 1, True))
    return targets


def _is_large(row: Row) -> bool:
    return bool(row["array"].startswith("flat") and row["elements"] >= _LARGE)
