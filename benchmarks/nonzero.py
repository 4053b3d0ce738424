"""Coordinates of non-zero elements against `jnp.nonzero`."""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
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
_PEER_REPEATS = 5
_THREADS = 2
_CPU_MOST, _GPU_MOST = 2**24, 2**26


def most() -> int:
    """The largest array for this device."""
    return _CPU_MOST if jax.default_backend() == "cpu" else _GPU_MOST


def run(arrays: Sequence[Sparse], repeats: int) -> Report:
    """Check, then time, every array."""
    report = Report("nonzero", [_row(case, repeats) for case in tracked(arrays, "nonzero")])
    report.targets.extend(_targets(report.rows, _small(repeats)))
    return report


def _row(case: Sparse, repeats: int) -> Row:
    array = case.array()
    x, found = jax.device_put(array), np.argwhere(array)
    ours = partial(_finish, jax.jit(dmlax.nonzero_coordinates), x)
    exact = partial(_finish, jax.jit(partial(dmlax.nonzero_coordinates, size=len(found))), x)
    peer = partial(_finish, jax.jit(partial(jnp.nonzero, size=case.size)), x)
    _check(case, case.size, ours(), found)
    _check(case, len(found), exact(), found)
    pair = timing.pair(ours, peer, repeats)
    peers = {name: peer(array) for name, peer in _peers().items()}
    padded = {
        f"over {name}": timing.pair(ours, peer, _PEER_REPEATS) for name, peer in peers.items()
    }
    counted = {
        f"size=count over {name}": timing.pair(exact, peer, _PEER_REPEATS)
        for name, peer in peers.items()
    }
    fill = partial(_finish, jax.jit(partial(jnp.zeros, (case.size, array.ndim), jnp.uint32)))
    fills = timing.pair(ours, fill, repeats)
    copy = timing.pair(ours, partial(_finish, jax.jit(lambda x: x + 1), x), repeats)
    return {
        "array": case.name,
        "elements": case.size,
        "jnp ms": pair.peer,
        "dmlax ms": pair.ours,
        "speed-up": 1 / pair.ratio,
        "spread": f"{1 / pair.high:.2f}-{1 / pair.low:.2f}",
        **{name: 1 / pair.ratio for name, pair in (padded | counted).items()},
        "fill ms": fills.peer,
        "x + 1 ms": copy.peer,
        "to x + 1": copy.ratio,
        "to fill and read": fills.ours / (fills.peer + copy.peer / 2),  # x + 1 reads and writes
    }


def _peers() -> dict[str, Callable[[np.ndarray], timing.Call]]:
    """Functions that write as many rows as there are: NumPy's, and PyTorch's if it is there."""
    peers: dict[str, Any] = {"np": lambda array: partial(np.nonzero, array)}
    if importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        torch.set_num_threads(_THREADS)
        peers["torch"] = lambda array: partial(torch.nonzero, torch.from_numpy(array))
    return peers


def _small(repeats: int) -> timing.Pair:
    """64 elements, by the kernel that "auto" takes and by XLA."""
    x = jax.device_put(np.arange(64, dtype=np.float32) % 3)
    ours = jax.jit(dmlax.nonzero_coordinates)
    peer = jax.jit(partial(dmlax.nonzero_coordinates, implementation="xla"))
    return timing.pair(partial(_finish, ours, x), partial(_finish, peer, x), repeats)


def _finish(function: Any, *operands: jax.Array) -> Any:
    return jax.block_until_ready(function(*operands))


def _check(case: Sparse, size: int, ours: Any, rows: np.ndarray) -> None:
    padded = np.zeros((size, len(case.shape)), np.uint32)
    padded[: len(rows)] = rows
    np.testing.assert_array_equal(ours.count, np.uint32(len(rows)), case.name, strict=True)
    np.testing.assert_array_equal(ours.coordinates, padded, case.name, strict=True)


def _targets(rows: list[Row], small: timing.Pair) -> list[Target]:
    """A peer's multiple is asked for where filling the output and reading the input leave room."""
    if jax.default_backend() != "cpu":
        gains = [row["speed-up"] for row in rows]
        return [Target("all: geometric mean of speed-up", mean(gains), 1, True)]
    targets = [Target("64 elements: ratio to xla", small.ratio, 1.0)]
    peers = list(_peers())
    for column, least in [("speed-up", 20.0), *((f"over {name}", 3.0) for name in peers)]:
        free = [row[column] for row in rows if _ceiling(row, column) >= least]
        bound = [row["to fill and read"] for row in rows if _ceiling(row, column) < least]
        if free:
            targets.append(Target(f"{column}, where there is room: least", min(free), least, True))
        if bound:
            targets.append(Target(f"{column}, elsewhere: most to fill and read", max(bound), 1.5))
    for column in (f"size=count over {name}" for name in peers):
        targets.append(Target(f"{column}: least", min(row[column] for row in rows), 3.0, True))
    flat = [row["to x + 1"] for row in rows if _is_large(row) and row["array"].endswith(".d50")]
    if flat:
        targets.append(Target("flat from 2^20, half full: most to x + 1", max(flat), 1.5))
    return targets


def _ceiling(row: Row, column: str) -> float:
    """The speed-up of a call that takes 1.5 times what the bytes take."""
    return float(row[column] * row["to fill and read"] / 1.5)


def _is_large(row: Row) -> bool:
    return bool(row["array"].startswith("flat") and row["elements"] >= _LARGE)
