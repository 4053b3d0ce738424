"""ONNX Runtime in a process of its own: some valid graphs end it."""

import concurrent.futures
import functools
import multiprocessing
from collections.abc import Callable
from typing import Any


class PeerError(Exception):
    """ONNX Runtime raised an error, or ended its process."""


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function, and returns what it does, in a process that lasts until it crashes.

    Raises:
      PeerError: the function raised, or its process ended.
    """
    try:
        found, error = _process().submit(_caught, function, *arguments).result()
    except concurrent.futures.BrokenExecutor as broken:
        _process.cache_clear()
        raise PeerError("ONNX Runtime ended its process") from broken
    if error:
        raise PeerError(error)
    return found


@functools.cache
def _process() -> concurrent.futures.Executor:
    spawn = multiprocessing.get_context("spawn")  # JAX's threads outlive no fork
    return concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn)


def _caught(function: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """Calls a function; returns its result, or its error as text: not every one can be pickled."""
    try:
        return function(*arguments), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
