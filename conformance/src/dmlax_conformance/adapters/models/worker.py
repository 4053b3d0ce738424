"""Judging models in a process of its own, which may hang or end without a verdict."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from multiprocessing.connection import Connection
from typing import Any

from ...errors import NotStartable
from ...models.adapter import ARITHMETICS, ModelAdapter
from ...models.golden import Golden
from ...models.judge import Verdict, judge
from ...suite.runner import variants_of
from ...texts import printable
from . import start

TIME_LIMIT = 120.0  # seconds for one model, its compilation included
Question = tuple[Golden, str, str]


class Worker:
    """Asks an adapter in a child process, which is started again after a model that ends it."""

    def __init__(self, implementation: str, time_limit: float | None = None) -> None:
        """Start the adapter, and learn its variants."""
        self._implementation = implementation
        self._limit = TIME_LIMIT if time_limit is None else time_limit
        self._process: Any = None
        self._start()

    def questions(
        self, models: Sequence[Golden], arithmetics: Sequence[str] | None, variant: str | None
    ) -> list[Question]:
        """Return each model with each arithmetic, by default the adapter's, and each variant."""
        chosen = arithmetics or self._hello.arithmetics, variants_of(self._hello, variant)
        return list(product(models, *chosen))

    def ask(self, question: Question) -> Verdict:
        """Return the verdict on a model."""
        if not self._process.is_alive():
            self._start()
        with suppress(OSError):
            self._connection.send(question)
        answer = self._receive(self._limit)
        if isinstance(answer, Verdict):
            return answer
        self.close()
        golden, arithmetic, variant = question
        return Verdict(golden.name, arithmetic, variant, "error", (str(answer),))

    def close(self) -> None:
        """End the child and what it started."""
        if self._process is not None and self._process.is_alive():
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    self._process.kill()
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, far = context.Pipe()
        arguments = (far, self._implementation)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        far.close()
        hello = self._receive(max(self._limit, TIME_LIMIT))
        if isinstance(hello, str):
            self.close()
            raise NotStartable(hello)
        self._hello: Any = hello

    def _receive(self, seconds: float) -> Any:
        """Return what the child says, or why it says nothing."""
        try:
            if self._connection.poll(seconds):
                return self._connection.recv()
            return f"no answer within {seconds:g} seconds"
        except (EOFError, OSError):
            self._process.join(1)
            return f"the adapter ended the process (status {self._process.exitcode})"


class _Hello:
    """The name, the variants and the arithmetics of an adapter."""

    def __init__(self, adapter: ModelAdapter) -> None:
        self.name = adapter.name
        self.variants = tuple(adapter.variants)
        self.arithmetics = tuple(getattr(adapter, "arithmetics", ARITHMETICS))
        self.usual_variants = tuple(getattr(adapter, "usual_variants", adapter.variants))


def _serve(connection: Connection, implementation: str) -> None:
    """Judge one model after the other, until the other side is gone."""
    if sys.platform != "win32":
        os.setpgid(0, 0)
    try:
        adapter = start(implementation)
    except NotStartable as error:
        connection.send(printable(error))
        return
    connection.send(_Hello(adapter))
    with suppress(EOFError):
        while True:
            golden, arithmetic, variant = connection.recv()
            connection.send(judge(adapter, golden, arithmetic, variant))
