"""Tables and progress bars: by rich, or plainly where it is not installed."""

try:
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table
except ImportError:
    from .plain import Console, Table, track  # type: ignore[assignment]

__all__ = ["Console", "Table", "track"]
