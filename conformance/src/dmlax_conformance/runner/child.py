"""A child process that reads lines and writes lines, and that may misbehave."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO

from ..errors import NotStartable

AHEAD = 2  # questions that a child has at a time: it computes while the suite judges
STDERR_LINES = 5
_CUT = 200
_GRACE = 1.0  # seconds to end, or to pass on what is already written
_MOMENT = 0.1  # seconds for a thread to read what a process that goes on has said

Said = queue.Queue[tuple["Child", bytes]]


class Child:
    """One process, the leader of a process group; threads keep every pipe moving.

    The lines of all children come through one queue; one without a newline, perhaps empty, is a
    child's last.
    """

    def __init__(self, command: Sequence[str], said: Said, longest_line: int) -> None:
        """Start the command, or raise `NotStartable`."""
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise NotStartable(f"{command[0]}: {error}") from error
        self.is_killed = False
        self._said = said
        self._longest = longest_line
        self._patience = _MOMENT  # halved by every error without a complaint
        self._unsent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._complaints: deque[tuple[float, bytes]] = deque(maxlen=STDERR_LINES)
        self._heard = deque([0.0] * AHEAD, maxlen=AHEAD)  # when the last answers were taken
        works = self._write_stdin, self._read_stdout, self._read_stderr
        self._threads = [_started(work) for work in works]

    def send(self, line: bytes) -> None:
        """Write one line, without waiting for it to be read."""
        self._unsent.put(line)

    def forget_complaints(self) -> None:
        """Note that an answer was taken; what was said before its question is no last word.

        The child may have complained about the next question by now, and about no later one.
        """
        self._heard.append(time.monotonic())

    def last_words(self) -> list[str]:
        """Return the last lines of standard error, which come by another way than answers."""
        deadline = time.monotonic() + (0 if self.is_killed else self._patience)
        while not (recent := self._recent()) and time.monotonic() < deadline:
            time.sleep(_MOMENT / 20)
        self._patience = _MOMENT if recent else self._patience / 2
        texts = [raw.decode("utf-8", "replace").rstrip() for raw in recent]
        return [f"stderr: {text[:_CUT]}" for text in texts if text]

    def _recent(self) -> list[bytes]:
        return [raw for when, raw in list(self._complaints) if when >= self._heard[0]]

    def why_unended(self, line: bytes) -> str:
        """Say why a line has no end: it is too long, or nothing follows."""
        if len(line) >= self._longest:
            return f"a line of more than {self._longest} bytes"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        ended = _status(self._process.returncode)
        return f"{ended} in the middle of a line" if line else f"{ended} without an answer"

    def await_end(self) -> None:
        """Give the process a moment to end, then kill what is left."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        self._threads[1].join(_GRACE)
        self.kill()

    def kill(self) -> None:
        """End the process and its group, and close the pipes."""
        self.is_killed = True
        self._unsent.put(None)
        _kill_group(self._process)
        self._process.wait()
        streams = self._process.stdin, self._process.stdout, self._process.stderr
        for thread, stream in zip(self._threads, streams, strict=True):
            thread.join(_GRACE)
            if stream is not None and not thread.is_alive():  # something else may hold it open
                with contextlib.suppress(OSError):
                    stream.close()

    def _write_stdin(self) -> None:
        """Ignore a closed pipe: the end of standard output tells more."""
        assert self._process.stdin is not None
        while (line := self._unsent.get()) is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(line)
                self._process.stdin.flush()

    def _read_stdout(self) -> None:
        line = b"\n"
        while line.endswith(b"\n") and not self.is_killed:
            line = _read(self._process.stdout, self._longest)
            self._pass_on(line)

    def _pass_on(self, line: bytes) -> None:
        """Queue a line, unless the child is killed while the queue is full."""
        while not self.is_killed:
            with contextlib.suppress(queue.Full):
                self._said.put((self, line), timeout=_MOMENT)
                return

    def _read_stderr(self) -> None:
        while line := _read(self._process.stderr, 4096):
            self._complaints.append((time.monotonic(), line))


def _started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _read(stream: IO[bytes] | None, limit: int) -> bytes:
    assert stream is not None
    try:
        return stream.readline(limit)
    except (OSError, ValueError):
        return b""


def _status(code: int | None) -> str:
    if code is None:
        return "closed its standard output"
    if code >= 0:
        return f"exited with status {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
