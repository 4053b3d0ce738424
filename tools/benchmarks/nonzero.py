"""Coordinates of non-zero elements against `jnp.nonzero`."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

import dmlax
from tools.benchmarks import cases, timing
from tools.benchmarks.report import ONLY, REPEATS, Report, Row, tracked

OPTIONS = (ONLY, REPEATS)
_MOST = 2**24  # elements
_PEER_REPEATS = 5
_THREADS = 2
T = TypeVar("T")


def run(only: str, repeats: int) -> Iterator[Report]:
    """Check, then time, every array whose name matches."""
    if arrays := cases.arrays(only, _MOST):
        yield Report("nonzero", [_row(case, repeats) for case in tracked(arrays, "nonzero")])


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
