"""Asking an implementation of models in a child process; the parent judges its JSON."""

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from threading import Thread
from types import SimpleNamespace
from typing import Any

from ...errors import NotStartable
from ...models.adapter import ARITHMETICS
from ...models.golden import Golden
from ...models.judge import Verdict, answer, verdict
from ...runner.run import variants_of
from ...texts import of_error, printable
from . import start

TIME_LIMIT = 120.0  # seconds for one model, its compilation included
LARGEST = 1 << 28  # bytes of an answer
Question = tuple[Golden, str, str]


class Worker:
    """A child process with an adapter, which is started again after a model that ends it."""

    def __init__(self, implementation: str, time_limit: float | None = None) -> None:
        """Start the adapter, and learn its variants."""
        self._implementation = implementation
        self._limit = TIME_LIMIT if time_limit is None else time_limit
        self._start()

    def questions(
        self, models: Sequence[Golden], arithmetics: Sequence[str] | None, variant: str | None
    ) -> list[Question]:
        """Return the models with each arithmetic, by default the adapter's, and each variant."""
        chosen = arithmetics or self._adapter.arithmetics, variants_of(self._adapter, variant)
        return list(product(models, *chosen))

    def ask(self, question: Question) -> Verdict:
        """Return the verdict on a model."""
        golden, arithmetic, variant = question
        if not self._process.is_alive():
            self._start()
        began = time.perf_counter()
        try:
            self._connection.send((golden.case(arithmetic), variant))
            return verdict(*question, self._receive(self._limit), time.perf_counter() - began)
        except Exception as error:
            self.close()
            return verdict(*question, {"error": f"the answer cannot be read: {of_error(error)}"})

    def close(self) -> None:
        """End the child and what it started."""
        if self._process.is_alive():
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform != "win32":
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, far = context.Pipe()
        self._process: Any = context.Process(
            target=_serve, args=(far, self._implementation), daemon=True
        )
        self._process.start()
        far.close()
        hello = self._receive(max(self._limit, TIME_LIMIT))
        if "error" in hello:
            self.close()
            raise NotStartable(hello["error"])
        self._adapter: Any = SimpleNamespace(**hello)

    def _receive(self, seconds: float) -> Any:
        """Return what the child writes, or as an error why it writes nothing."""
        lines: SimpleQueue[bytes | None] = SimpleQueue()

        def read() -> None:
            with suppress(EOFError, OSError):
                lines.put(self._connection.recv_bytes(LARGEST))
            lines.put(None)

        Thread(target=read, daemon=True).start()  # a child may stop in the middle of a message
        reason = f"no answer within {seconds:g} seconds"
        with suppress(Empty):
            line = lines.get(timeout=seconds)
            if line is not None:
                return json.loads(line)
            self._process.join(1)
            reason = f"the adapter ended the process (status {self._process.exitcode})"
        self.close()
        return {"error": reason}


def _serve(connection: Connection, implementation: str) -> None:
    """Answer one model after the other, until the other side is gone."""

    def write(value: object) -> None:
        connection.send_bytes(json.dumps(value).encode())

    if sys.platform != "win32":
        os.setpgid(0, 0)
    sys.path.append(os.getcwd())  # `python -m` puts it before the libraries
    try:
        adapter = start(implementation)
    except NotStartable as error:
        return write({"error": printable(error)})
    variants = list(adapter.variants)
    defaults = {"arithmetics": ARITHMETICS, "usual_variants": variants}
    more = {name: list(getattr(adapter, name, each)) for name, each in defaults.items()}
    write({"name": adapter.name, "variants": variants, **more})
    with suppress(EOFError):
        while True:
            case, variant = connection.recv()
            write(answer(adapter, case, variant))
