"""Running a command in a process of its own, so that no adapter can end it unnoticed."""

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

from .exit_codes import FAILED
from .terminal import complain


def supervised(run: Callable[[], int]) -> int:
    """Return the code of a command; one that ends before it has a code has failed.

    An adapter may end the process (`os._exit(0)`, a crash of its library) or replace it. Where
    there is no `fork` that is safe, the command runs here.
    """
    if sys.platform != "linux":
        return run()
    reading, writing = os.pipe()
    _flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's threads wait for work
        child = os.fork()
    if child == 0:
        os.close(reading)
        code = run()
        _flush()
        os.write(writing, bytes([code]))
        return code
    os.close(writing)
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
    said = _until_it_ends(lambda: os.read(reading, 1))
    _, status = _until_it_ends(lambda: os.waitpid(child, 0))
    if said:
        return int(said[0])
    ended = f"status {os.WEXITSTATUS(status)}"
    if os.WIFSIGNALED(status):
        ended = signal.Signals(os.WTERMSIG(status)).name
    return complain(f"the adapter ended the process ({ended}): no verdict", FAILED)


def _until_it_ends(wait: Callable[[], Any]) -> Any:
    """Wait on; an interrupt by the user is for the child."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return wait()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
