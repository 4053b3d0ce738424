"""A child process that is asked in lines and answers in lines, and that may misbehave."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

from ..errors import AdapterFailure, NotStartable

LONGEST_LINE = 256 << 20
TIME_LIMIT = 30.0  # seconds for one answer
STDERR_LINES = 5
MARK = "DMLAX_CONFORMANCE_CHILD"
_CUT = 200
_GRACE = 1.0  # seconds to end, or to pass on what is already written
_MOMENT = 0.1  # seconds for a thread to read what a process that goes on has said


class Child:
    """One process, in a process group of its own; threads keep every pipe moving.

    Its environment is marked, and so is that of whatever it starts, in whatever session.
    """

    def __init__(self, command: Sequence[str], longest_line: int = LONGEST_LINE) -> None:
        """Start the command, or raise `NotStartable`."""
        pipe = subprocess.PIPE
        self._name = str(uuid.uuid4())
        try:
            self._process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
                env={**os.environ, MARK: self._name},
            )
        except (OSError, ValueError) as error:
            raise NotStartable(f"{command[0]}: {error}") from error
        self._longest = longest_line
        self._is_killed = False
        self._lines: queue.Queue[bytes] = queue.Queue(maxsize=4)
        self._complaints: deque[bytes] = deque(maxlen=STDERR_LINES)
        self._readers = [self._thread(self._read_stdout), self._thread(self._read_stderr)]
        self._writer: threading.Thread | None = None

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send one line and return the next one, or raise `AdapterFailure`."""
        self._complaints.clear()
        self.send(line)
        try:
            answer = self._lines.get(timeout=seconds)
        except queue.Empty:
            self.fail(f"no answer within {seconds:g} seconds")
        if not answer.endswith(b"\n"):
            self._fail_unended(answer)
        return answer

    def send(self, line: bytes) -> None:
        """Write one line, without waiting for it to be read."""
        self._writer = self._thread(self._write, line)

    def fail(self, reason: str) -> NoReturn:
        """Kill the process and raise the failure, with what it last said on standard error."""
        self.kill()
        raise AdapterFailure(reason, *self.last_words())

    def last_words(self) -> list[str]:
        """Return the last lines of standard error, which come by another way than answers."""
        deadline = time.monotonic() + (0 if self._is_killed else _MOMENT)
        while not self._complaints and time.monotonic() < deadline:
            time.sleep(_MOMENT / 20)
        texts = [raw.decode("utf-8", "replace").rstrip() for raw in list(self._complaints)]
        return [f"stderr: {text[:_CUT]}" for text in texts if text]

    def stop(self, line: bytes) -> None:
        """Send a last line, give the process a moment to end, then kill what is left."""
        with contextlib.suppress(RuntimeError):  # no new thread while the interpreter ends
            self.send(line)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        self.kill()

    def kill(self) -> None:
        """End the process and all that it started, and close the pipes."""
        self._is_killed = True
        _kill_group(self._process)
        _kill_marked(f"{MARK}={self._name}".encode())
        self._process.wait()
        deadline = time.monotonic() + _GRACE
        for reader in self._readers:
            while reader.is_alive() and time.monotonic() < deadline:
                with contextlib.suppress(queue.Empty):
                    self._lines.get_nowait()  # a reader may be waiting for room
                reader.join(0.01)
        self._close()

    def _fail_unended(self, answer: bytes) -> NoReturn:
        """Say why a line has no end: it is too long, or nothing follows."""
        if len(answer) >= self._longest:
            self.fail(f"a line of more than {self._longest} bytes")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        ended = _status(self._process.returncode)
        self.fail(f"{ended} in the middle of a line" if answer else f"{ended} without an answer")

    def _read_stdout(self) -> None:
        """Queue every line; one without a newline, perhaps empty, is the last."""
        line = b"\n"
        while line.endswith(b"\n") and not self._is_killed:
            line = _read(self._process.stdout, self._longest)
            self._lines.put(line)

    def _read_stderr(self) -> None:
        while line := _read(self._process.stderr, 4096):
            self._complaints.append(line)

    def _write(self, line: bytes) -> None:
        """Ignore a closed pipe: the end of standard output tells more."""
        with contextlib.suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _close(self) -> None:
        """Close the pipes that no thread holds; something else may keep one open for ever."""
        threads = [*self._readers, self._writer]
        streams = [self._process.stdout, self._process.stderr, self._process.stdin]
        for thread, stream in zip(threads, streams, strict=True):
            if thread is not None:
                thread.join(_GRACE)
            if stream is not None and (thread is None or not thread.is_alive()):
                with contextlib.suppress(OSError):
                    stream.close()

    def _thread(self, target: object, *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
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


def _kill_marked(mark: bytes) -> None:
    """Kill what has the mark in its environment, where the system shows that."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)
