"""Coordinates of non-zero elements against `jnp.nonzero`."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

import dmlax
from tools.benchmarks import cases, timing
from tools.benchmarks.options import ONLY, REPEATS
from tools.benchmarks.report import Report, Row, Target, tracked

OPTIONS = (ONLY, REPEATS)
_LARGE = 2**20  # elements of the smallest flat array with a limit to x + 1
_MOST = 2**24  # elements
_PEER_REPEATS = 5
_THREADS = 2
T = TypeVar("T")


def run(only: str, repeats: int) -> Iterator[Report]:
    """Check, then time, every array whose name matches."""
    if arrays := cases.arrays(only, _MOST):
        report = Report("nonzero", [_row(case, repeats) for case in tracked(arrays, "nonzero")])
        report.targets.extend(_targets(report.rows, _small(repeats)))
        yield report


def _row(case: cases.Sparse, repeats: int) -> Row:
    array = case.array()
    x, coordinates = jax.device_put(array), np.argwhere(array)

    def call(function: Callable[..., T], **options: object) -> Callable[[], T]:
        return partial(timing.finish, jax.jit(partial(function, **options)), x)

    def check(size: int, result: dmlax.NonzeroCoordinates) -> None:
        padded = np.zeros((size, array.ndim), np.uint32)
        padded[: len(coordinates)] = coordinates
        count = np.uint32(len(coordinates))
        np.testing.assert_array_equal(result.count, count, case.name, strict=True)
        np.testing.assert_array_equal(result.coordinates, padded, case.name, strict=True)

    ours = call(dmlax.nonzero_coordinates)
    exact = call(dmlax.nonzero_coordinates, size=len(coordinates))
    check(case.size, ours())
    check(len(coordinates), exact())
    pair = timing.pair(ours, call(jnp.nonzero, size=case.size), repeats)
    over_peers = {
        f"{title}over {name}": 1 / timing.pair(function, peer(array), _PEER_REPEATS).ratio
        for title, function in (("", ours), ("size=count ", exact))
        for name, peer in _peers().items()
    }
    fill = jax.jit(partial(jnp.zeros, (case.size, array.ndim), jnp.uint32))
    fills = timing.pair(ours, partial(timing.finish, fill), repeats)
    copy = timing.pair(ours, call(lambda x: x + 1), repeats)
    return {
        "array": case.name,
        "elements": case.size,
        "jnp ms": pair.peer,
        "dmlax ms": pair.ours,
        "speed-up": 1 / pair.ratio,
        "spread": f"{1 / pair.high:.2f}-{1 / pair.low:.2f}",
        **over_peers,
        "fill ms": fills.peer,
        "x + 1 ms": copy.peer,
        "to x + 1": copy.ratio,
        "to fill and read": fills.ours / (fills.peer + copy.peer / 2),  # x + 1 reads and writes
    }


def _peers() -> dict[str, Callable[[np.ndarray], timing.Call]]:
    """Functions that write only the rows of the count: NumPy's, and PyTorch's if installed."""
    peers: dict[str, Callable[[np.ndarray], timing.Call]] = {
        "np": lambda array: partial(np.nonzero, array)
    }
    if importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        torch.set_num_threads(_THREADS)
        peers["torch"] = lambda array: partial(torch.nonzero, torch.from_numpy(array))
    return peers


def _small(repeats: int) -> timing.Pair:
    """Time 64 elements by the kernel that "auto" takes, and by XLA."""
    x = jax.device_put(np.arange(64, dtype=np.float32) % 3)
    auto, xla = (
        jax.jit(partial(dmlax.nonzero_coordinates, implementation=name)) for name in ("auto", "xla")
    )
    return timing.pair(partial(timing.finish, auto, x), partial(timing.finish, xla, x), repeats)


def _targets(rows: Sequence[Row], small: timing.Pair) -> Iterator[Target]:
    """Compare with the peers where filling the output and reading the input allow their multiple.

    The other rows are compared with the time of filling and reading.
    """
    yield Target("64 elements: ratio to xla", small.ratio, 1.0)
    peers = list(_peers())
    for column, least in [("speed-up", 20.0), *((f"over {name}", 3.0) for name in peers)]:
        free = [row[column] for row in rows if _ceiling(row, column) >= least]
        bound = [row["to fill and read"] for row in rows if _ceiling(row, column) < least]
        if free:
            yield Target(f"{column}, where there is room: least", min(free), least, at_least=True)
        if bound:
            yield Target(f"{column}, elsewhere: most to fill and read", max(bound), 1.5)
    for column in (f"size=count over {name}" for name in peers):
        yield Target(f"{column}: least", min(row[column] for row in rows), 3.0, at_least=True)
    flat = [row["to x + 1"] for row in rows if _is_large(row) and row["array"].endswith(".d50")]
    if flat:
        yield Target("flat from 2^20, half full: most to x + 1", max(flat), 1.5)


def _ceiling(row: Row, column: str) -> float:
    """The speed-up of a call that takes 1.5 times as long as filling and reading."""
    return float(row[column] * row["to fill and read"] / 1.5)


def _is_large(row: Row) -> bool:
    return bool(row["array"].startswith("flat") and row["elements"] >= _LARGE)
