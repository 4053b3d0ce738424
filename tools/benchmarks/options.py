"""The options that several benchmarks share."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Option(NamedTuple):
    """An argument of `argparse`: its flag, and the settings of `add_argument`."""

    flag: str
    settings: Mapping[str, Any]

    def with_default(self, value: object) -> "Option":
        """The same option with another default."""
        return Option(self.flag, {**self.settings, "default": value})


def option(flag: str, **settings: Any) -> Option:
    """Describe an argument in `argparse`'s words."""
    return Option(flag, settings)


ONLY = option("--only", default="", metavar="REGEX", help="only names that match")
BATCH = option("--batch", type=int, nargs="+", default=[1, 8], help="batch sizes")
REPEATS = option("--repeats", type=int, default=20, help="turns (default 20)")
