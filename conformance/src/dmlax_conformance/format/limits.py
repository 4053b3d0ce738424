"""Limits of a vector file; more is refused before anything is made of it."""

import json
import os
import re
from collections.abc import Iterable
from itertools import accumulate
from math import prod
from pathlib import Path

from ..errors import Malformed, NotStartable

LARGEST_FILE = 4 << 20
DEEPEST = 32
MOST_DIGITS = 4000  # Python refuses to read longer numbers
MOST_DIMENSIONS = 32  # the most axes in the oldest NumPy that is supported
HELD = 40  # bytes for an element that the suite holds as a Python integer
MEMORY = "DMLAX_CONFORMANCE_MEMORY"

_STRING = r'"(?:[^"\\]++|\\[\s\S])*+"?'  # perhaps without an end
_DIGITS = re.compile(rf"[0-9]{{{MOST_DIGITS},}}")
_TOKEN = re.compile(rf"{_STRING}|[\[\]{{}}]|{_DIGITS.pattern}")
_BETWEEN_BRACKETS = re.compile(rf'(?:[^"\[\]{{}}]++|{_STRING})++')
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}

_LEXEME = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}:,]|[^\s\[\]{}:,"]+')
NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


def memory() -> int:
    """Return how many bytes one tensor may take: 1 GiB, unless the environment says otherwise."""
    text = os.environ.get(MEMORY, str(1 << 30))
    if not text.isdecimal():
        raise NotStartable(f"{MEMORY}: {text!r} is not a number of bytes")
    return int(text)


def find_inside(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder that a pattern names, sorted; none leads out of it."""
    found = sorted(folder.glob(pattern))
    check_inside(found, folder)
    return found


def check_inside(paths: Iterable[Path], root: Path) -> None:
    """Raise `Malformed` at a path that leads out of a folder, through a link perhaps."""
    folder = _resolved(root)
    for path in paths:
        if not _resolved(path).is_relative_to(folder):
            raise Malformed("/", f"leads out of {root}", str(path))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        raise Malformed("/", "is a loop of links", str(path)) from None


def read(path: Path) -> str:
    """Return the text of a regular file of limited size."""
    if not path.is_file():
        raise Malformed("/", "is not a regular file")
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise Malformed("/", str(error.strerror)) from None
    if len(raw) > LARGEST_FILE:
        raise Malformed("/", f"has more than {LARGEST_FILE} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"byte {error.start}", "is not UTF-8") from None


def check_text(text: str) -> None:
    """Raise `Malformed` where JSON is nested too deeply or a number has too many digits."""
    steps = map(_STEP.__getitem__, _BETWEEN_BRACKETS.sub("", text))
    if max(accumulate(steps), default=0) <= DEEPEST and not _DIGITS.search(text):
        return
    depth = 0  # digits may also be in a string
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        depth += (first in "[{") - (first in "]}")
        if depth > DEEPEST:
            raise Malformed(position(text, token.start()), f"is nested deeper than {DEEPEST}")
        if first.isdigit():
            message = f"a number of {MOST_DIGITS} digits or more"
            raise Malformed(position(text, token.start()), message)


def check_tokens(text: str) -> None:
    """Raise `Malformed` at the first key that is there twice, or number that JSON has not."""
    keys: list[set[str]] = []
    last, at = "", 0
    for token in _LEXEME.finditer(text):
        word = token[0]
        if word in "{[":
            keys.append(set())
        elif word in "}]":
            keys.pop()
        elif word == ":" and last in keys[-1]:
            raise Malformed(
                position(text, at), f"key {json.loads(last)!r} appears twice in one object"
            )
        elif word == ":":
            keys[-1].add(last)
        elif word in NO_NUMBERS:
            message = f"token {word} is not JSON; write floats as bits"
            raise Malformed(position(text, token.start()), message)
        last, at = word, token.start()


def check_sizes(sizes: Iterable[int], pointer: str) -> None:
    """Raise `Malformed` if a tensor has too many dimensions, or needs too much memory."""
    given = tuple(sizes)
    check_shape(given, pointer)
    needed = prod(given) * HELD
    if needed > memory():
        raise Malformed(pointer, f"needs {needed} bytes, more than {memory()}; {MEMORY} sets this")


def check_shape(given: tuple[int, ...], pointer: str) -> None:
    """Raise `Malformed` if no array has these sizes."""
    if len(given) > MOST_DIMENSIONS:
        raise Malformed(pointer, f"{len(given)} dimensions, more than {MOST_DIMENSIONS}")
    if prod(filter(None, given)) * HELD >= 1 << 63:  # even of a tensor without elements
        raise Malformed(pointer, "the sizes are larger than any array's")


def position(text: str, index: int) -> str:
    """Return the line and column, from 1."""
    return f"{text.count(chr(10), 0, index) + 1}:{index - text.rfind(chr(10), 0, index)}"
