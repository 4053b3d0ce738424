"""Tables, progress bars and complaints: by rich, or plainly where it is not installed."""

import sys
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, TypeVar

from .texts import printable

LONGEST = 4000  # characters of a complaint
T = TypeVar("T")


class PlainTable:
    """Columns of text, side by side."""

    def __init__(self, *heads: str, **style: Any) -> None:
        """Begin with left-hand columns of these heads."""
        self._heads: list[str] = []
        self._to_right: list[bool] = []
        self._rows: list[tuple[str, ...]] = []
        for head in heads:
            self.add_column(head)

    def add_column(self, head: str, justify: str = "left", **style: Any) -> None:
        """Add a column on the right."""
        self._heads.append(head)
        self._to_right.append(justify == "right")

    def add_row(self, *cells: str, **style: Any) -> None:
        """Add a row below."""
        self._rows.append(cells)

    def __str__(self) -> str:
        """Lines in which every column is as wide as its widest text."""
        lines = [tuple(self._heads), *self._rows]
        columns = list(zip_longest(*lines, fillvalue=""))
        widths = [max(map(len, column)) for column in columns]
        shown = []
        for cells in zip(*columns, strict=True):
            padded = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(cells, widths, self._to_right, strict=True)
            ]
            shown.append("  ".join(padded).rstrip())
        return "\n".join(shown)


class PlainConsole:
    """Standard output."""

    def __init__(self, **options: Any) -> None:
        """Take rich's options, none of which matters here."""

    def print(self, *values: object, **style: Any) -> None:
        """Print them."""
        print(*values)


def plain_track(items: Iterable[T], *labels: Any, **options: Any) -> Iterable[T]:
    """Return the items themselves."""
    return items


try:
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table
except ImportError:
    Console, Table, track = PlainConsole, PlainTable, plain_track  # type: ignore[misc,assignment]

__all__ = ["Console", "Table", "complain", "console", "progress"]


def console() -> Console:
    """Return standard output; what is piped has a fixed width."""
    return Console(width=None if sys.stdout.isatty() else 120)


def progress(items: Iterable[T], label: str, total: int) -> Iterable[T]:
    """Show how many of the items have come, where somebody looks."""
    return track(items, label, total, transient=True, disable=not sys.stderr.isatty())


def complain(message: str, code: int) -> int:
    """Print why a command ends with this code, and return the code."""
    print(f"dmlax-conformance: {printable(message, LONGEST)}", file=sys.stderr)
    return code
