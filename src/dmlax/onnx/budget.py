"""Bounds the host memory that loading a file, or tracing a call, takes."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dmlax.onnx.errors import ModelError
from dmlax.onnx.identity import IdentityMap

FREE = 1 << 28  # bytes that every file may need
MAXIMUM_RANK = 16  # the highest rank of a tensor


class OverBudget(Exception):
    """A value does not fit; the reader of the file or the operator names the place."""


class Budget:
    """The bytes that values may still take: 256 MiB, and the sizes of the file's parts."""

    def __init__(self, file_bytes: int, free: int | None = None) -> None:
        self.left = file_bytes + (FREE if free is None else free)
        self.computed = IdentityMap[Any]()

    def spend(self, count: int) -> None:
        """Counts a value before it is made.

        Raises:
          OverBudget: it does not fit.
        """
        if count > self.left:
            rule = "a file's values share 256 MiB and the file's size"
            raise OverBudget(f"needs {count} bytes of memory, expected at most {self.left}: {rule}")
        self.left -= count

    def spend_on(self, what: str, count: int, advice: str = "") -> None:
        """Counts a value of a file before it is read.

        Raises:
          ModelError: it does not fit.
        """
        try:
            self.spend(count)
        except OverBudget as error:
            raise ModelError(f"{what} {error}{advice}") from None


_current: contextvars.ContextVar[Budget | None] = contextvars.ContextVar("budget", default=None)


@contextlib.contextmanager
def limit(file_bytes: int, free: int | None = None) -> Iterator[None]:
    """Gives a budget to the values that operators make inside, which is `FREE` by default."""
    token = _current.set(Budget(file_bytes, free))
    try:
        yield
    finally:
        _current.reset(token)


def spend(count: int) -> None:
    """Counts bytes against the budget of `limit`; outside of one nothing is counted.

    Raises:
      OverBudget: they do not fit.
    """
    if (budget := _current.get()) is not None:
        budget.spend(count)


def compute_once(function: Callable[[np.ndarray], Any], array: np.ndarray) -> Any:
    """Returns function(array), which is kept as long as the budget of `limit`."""
    if (budget := _current.get()) is None:
        return function(array)
    if array not in budget.computed:
        budget.computed[array] = function(array)
    return budget.computed[array]
