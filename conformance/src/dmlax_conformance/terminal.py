"""Tables, progress and complaints."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import TypeVar

from .texts import printable

OFTEN, EVERY = 0.2, 10.0  # seconds between two words about the progress: on a terminal, elsewhere
LONGEST = 4000  # characters of a complaint
T = TypeVar("T")


class Table:
    """Columns of text, side by side."""

    def __init__(self, *heads: str, is_numeric: bool = False) -> None:
        """Begin with these heads; all columns but the first of a numeric table are right-hand."""
        self._rows: list[tuple[str, ...]] = [heads]
        self._to_right = is_numeric

    def add_row(self, *cells: str) -> None:
        """Add a row below."""
        self._rows.append(cells)

    def __str__(self) -> str:
        """Lines in which every column is as wide as its widest text."""
        widths = [max(map(len, column)) for column in zip_longest(*self._rows, fillvalue="")]
        lines = []
        for first, *rest in self._rows:
            cells = [first.ljust(widths[0])]
            for cell, width in zip(rest, widths[1:], strict=True):
                cells.append(cell.rjust(width) if self._to_right else cell.ljust(width))
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


def progress(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """Show how many of the items have come, also while one of them takes long."""
    number = 0
    with telling(lambda: f"{number} of {total} {label}"):
        for number, item in enumerate(items, 1):  # noqa: B007 - the lambda reads it
            yield item


@contextmanager
def telling(text: Callable[[], str]) -> Iterator[None]:
    """Say what goes on: on a terminal in one line that vanishes, elsewhere every 10 seconds."""
    is_seen, is_over = sys.stderr.isatty(), threading.Event()
    form = "\r{}\x1b[K" if is_seen else "{}\n"

    def tell() -> None:
        while not is_over.wait(OFTEN if is_seen else EVERY):
            print(form.format(text()), end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        if is_seen:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def complain(message: str, code: int) -> int:
    """Print why a command ends with this code, and return the code."""
    print(f"dmlax-conformance: {printable(message, LONGEST)}", file=sys.stderr)
    return code
