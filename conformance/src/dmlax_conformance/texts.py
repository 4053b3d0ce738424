"""Texts that come from elsewhere, made fit to print: short, and without control characters."""

from traceback import walk_tb

LONGEST = 600


def printable(value: object, longest: int = LONGEST) -> str:
    """Return a text that is cut, with escapes for what a terminal would not show."""
    text = value if isinstance(value, str) else text_of(value)
    kept = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[:longest]
    )
    more = len(text) - longest
    return f"{kept}... ({more} more characters)" if more > 0 else kept


def counted(number: int, noun: str) -> str:
    """Return a number and its noun."""
    return f"{number} {noun}{'s' * (number != 1)}"


def of_error(error: BaseException) -> str:
    """Return the kind of an error and its message."""
    return f"{type(error).__name__}: {printable(error, LONGEST // 2)}"


def place_of(error: BaseException) -> str:
    """Return the file, the line and the function that raised an error."""
    *_, (frame, line) = walk_tb(error.__traceback__)
    return printable(f"raised in {frame.f_code.co_name}, {frame.f_code.co_filename}:{line}")


def text_of(value: object) -> str:
    """Return the text of an object that may refuse to have one."""
    try:
        return str(value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type(value).__name__} without a text>"
