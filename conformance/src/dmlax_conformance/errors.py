"""Every way a case or a file can go wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CODES = frozenset(
    {
        *("alignment", "byte_size", "data_type", "dimension_count", "feature_level", "flags"),
        *("missing_tensor", "option", "sizes", "strides", "value"),
    }
)


class SpecViolation(Exception):  # noqa: N818 - an answer about the call, not a fault of the program
    """The call breaks a rule: `code` says which kind, `field` which DirectML field."""

    def __init__(self, code: str, field: str, message: str = "") -> None:
        """Keep the two facts that a vector compares; `message` is for people."""
        super().__init__(f"{field}: {code}" + (f": {message}" if message else ""))
        self.code = code
        self.field = field
        self.message = message


class Unsupported(Exception):  # noqa: N818 - an answer, not a fault
    """The implementation declines the case, and says why."""


class Malformed(Exception):  # noqa: N818 - names the state of the file
    """A vector file that cannot be trusted: where it is broken, and how."""

    what = "vectors"

    def __init__(self, position: str, message: str, file: str = "") -> None:
        """`position` is a line and column, or a JSON pointer."""
        super().__init__(f"{file}{':' if file else ''}{position}: {message}")
        self.position = position
        self.message = message
        self.file = file


class MalformedReport(Malformed):
    """A report that cannot be trusted."""

    what = "report"


@contextmanager
def in_file(path: Path, kind: type[Malformed] = Malformed) -> Iterator[None]:
    """Name the file in which something is malformed."""
    try:
        yield
    except Malformed as error:
        raise kind(error.position, error.message, str(path)) from None


class AdapterFailure(Exception):  # noqa: N818 - as the others, a state and not a kind of fault
    """An adapter in another process crashed, hung or broke the protocol; `details` say more."""

    def __init__(self, reason: str, *details: str) -> None:
        """`details` are lines for people, such as the end of standard error."""
        super().__init__(reason)
        self.details = details


class WrongUsage(Exception):  # noqa: N818 - what the caller did
    """An option that asks for what cannot be done."""


class NotStartable(Exception):  # noqa: N818 - the state of an adapter
    """The adapter that was asked for could not be built, or the environment is not understood."""
