"""Progress of what takes long, on stderr: a counter on a terminal, a line a minute elsewhere."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")
_ON_TERMINAL, _ELSEWHERE = 1.0, 60.0  # seconds between two texts


@contextlib.contextmanager
def stage(label: str, total: int = 0) -> Iterator[Callable[[], None]]:
    """Shows the seconds that a block has taken, and how many of its items are done.

    Args:
      label: what the block does.
      total: the number of its items, 0 if they are not counted.

    Yields:
      A function that counts one more item.
    """
    done, start, ended = 0, time.monotonic(), threading.Event()
    stream, is_shown = sys.stderr, False
    is_terminal = stream.isatty()

    def count() -> None:
        nonlocal done
        done += 1

    def show() -> None:
        nonlocal is_shown
        while not ended.wait(_ON_TERMINAL if is_terminal else _ELSEWHERE):
            items = f"{done} of {total}, " if total else ""
            text = f"{label}: {items}{time.monotonic() - start:.0f} s"
            print(
                f"\r\x1b[K{text}" if is_terminal else f"{text}\n", end="", file=stream, flush=True
            )
            is_shown = is_terminal

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield count
    finally:
        ended.set()
        thread.join()
        if is_shown:
            print("\r\x1b[K", end="", file=stream, flush=True)


def counted(items: Iterable[_Item], label: str, total: int) -> Iterator[_Item]:
    """Yields the items, and shows how many of them are done."""
    with stage(label, total) as count:
        for item in items:
            yield item
            count()
