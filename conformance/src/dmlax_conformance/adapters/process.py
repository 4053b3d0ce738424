"""An implementation in any language: a program that reads questions and writes answers."""

import shlex
import threading
import weakref
from itertools import count
from math import prod
from typing import Any

from ..errors import AdapterFailure, Malformed, NotStartable
from ..suite.protocol import START, STOP, VERSION, from_line, outcome, run_command, to_line
from .base import Array, Case, Unsupported
from .child import LONGEST_LINE, TIME_LIMIT, Child

MOST_RESTARTS = 10
SLACK = 100_000  # commas of an answer that are not between elements


class Process:
    """Asks a program; one that crashes, hangs or breaks the protocol is started again.

    Called from several threads at once, it starts a program for each of them.
    """

    def __init__(
        self, command: str, time_limit: float = TIME_LIMIT, longest_line: int = LONGEST_LINE
    ) -> None:
        """Start the program once, and let it introduce itself."""
        self._command = _split(command)
        self._limits = (time_limit, longest_line)
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._seq = count(1)
        self._failures = 0
        self._close = weakref.finalize(self, _stop_all, self._idle)
        try:
            child, hello = self._start()
        except AdapterFailure as error:
            raise NotStartable("; ".join((f"{command}: {error}", *error.details))) from error
        self._idle.append(child)
        self.name = str(hello["name"])
        self.language = str(hello["language"])
        self.version = str(hello["version"])
        self.operators = frozenset(hello["operators"])
        self.variants: tuple[str, ...] = tuple(hello.get("variants", ("default",)))
        self.capabilities = frozenset(hello.get("capabilities", ())) - {"large"}  # for a line

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Ask about a case; one of an operator that the program does not claim is not sent."""
        if case.operator not in self.operators:
            raise Unsupported(f"{self.name} does not claim {case.operator}")
        return self.ask(case, variant)

    def ask(self, case: Case, variant: str) -> dict[str, Array]:
        """Ask about a case of whatever operator."""
        seq = next(self._seq)
        line = to_line(run_command(seq, case, variant))
        longest = self._limits[1]
        if len(line) > longest:
            raise Unsupported(f"the question has {len(line)} bytes, more than {longest}")
        child = self._take()
        try:
            answer = _exchange(child, line, self._limits[0], seq, _most_values(case))
        except AdapterFailure:
            self._count_failure()
            raise
        self._put_back(child)
        return _outputs(child, answer)

    def close(self) -> None:
        """Stop every program; none is running when this returns."""
        self._close()

    def _start(self) -> tuple[Child, dict[str, Any]]:
        child = Child(self._command, self._limits[1])
        line = child.ask(to_line(START), self._limits[0])
        return child, _checked(child, line, "started", "its answer to start")

    def _take(self) -> Child:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._failures >= MOST_RESTARTS:
                times = f"{self._failures} times in a row"
                raise AdapterFailure(f"not started again: it failed {times}")
        try:
            return self._start()[0]
        except (AdapterFailure, NotStartable) as error:
            self._count_failure()
            details = getattr(error, "details", ())
            raise AdapterFailure(f"does not start again: {error}", *details) from error

    def _put_back(self, child: Child) -> None:
        with self._lock:
            self._failures = 0
            self._idle.append(child)

    def _count_failure(self) -> None:
        with self._lock:
            self._failures += 1


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise NotStartable(f"{command!r}: {error}") from error
    if not words:
        raise NotStartable("the command is empty")
    return words


def _most_values(case: Case) -> int:
    """Return more than the commas in any right answer, from the sizes that are asked for."""
    desc = case.desc or {}
    buffers = [int(desc[name]["TotalTensorSizeInBytes"]) for name in case.outputs if desc]
    return SLACK + sum(buffers) + sum(prod(asked.sizes) for asked in case.outputs.values())


def _exchange(child: Child, line: bytes, seconds: float, seq: int, most: int) -> dict[str, Any]:
    said = child.ask(line, seconds)
    if said.count(b",") > most:
        child.fail(f"an answer of {len(said)} bytes has more values than were asked for")
    answer = _checked(child, said, "answer", "the answer")
    if answer["seq"] != seq:
        child.fail(f"answered seq {answer['seq']} when asked seq {seq}")
    return answer


def _checked(child: Child, line: bytes, kind: str, what: str) -> dict[str, Any]:
    """Return a message; after one that breaks the protocol nothing can be trusted to follow."""
    try:
        return from_line(line, kind)
    except Malformed as error:
        shown = line[:80].decode("utf-8", "backslashreplace").rstrip()
        child.fail(f"{what} breaks protocol {VERSION} at {error}; it begins {shown}")


def _outputs(child: Child, answer: dict[str, Any]) -> dict[str, Array]:
    """Return what was answered; a tensor that contradicts itself is a failure of this case."""
    if "error" in answer:
        raise AdapterFailure(f"the adapter reports: {answer['error']}", *child.last_words())
    try:
        return outcome(answer)
    except Malformed as error:
        raise AdapterFailure(f"the answer breaks protocol {VERSION} at {error}") from None


def _stop_all(children: list[Child]) -> None:
    while children:
        children.pop().stop(to_line(STOP))
