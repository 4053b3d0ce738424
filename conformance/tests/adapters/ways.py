"""Adapters that at their second call do what their name says, in Python: `ways:os._exit(0)`."""

# ruff: noqa: D101, D102, D105, D107, F401

import contextlib
import ctypes
import os
import sys
import threading
import time
from functools import partial
from typing import Any

import numpy as np

from dmlax_conformance.adapters.base import Case, SpecViolation, Unsupported
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.runner import compare, run
from dmlax_conformance.runner.controls import Zeros


class OwnError(BaseException):
    """An error of no known kind, whose text ends the program."""

    def __str__(self) -> str:
        sys.exit(0)


def fail(error: BaseException) -> None:
    raise error


def patch_numpy() -> None:
    np.array_equal = np.allclose = lambda *_, **__: True


def patch_the_suite() -> None:
    compare.compare_outputs = run.compare_outputs = lambda *_: compare.EXACT
    run._verdict = lambda *_: compare.EXACT


def write() -> None:
    print("x" * 100_000, "\x1b[2J")
    print("x" * 100_000, file=sys.stderr)
    os.write(1, b'{"seq":1,"unsupported":"chatter"}\n')


def scribble(case: Case) -> None:
    for array in case.inputs.values():
        array[...] = 0
    for part in (case.inputs, case.outputs, case.attributes):
        part.clear()


class Way(Oracle):
    def __init__(self, way: str) -> None:
        self._calls, self._way = 0, way

    def run(self, case: Case, variant: str) -> Any:
        self._calls += 1
        answer = super().run(case, variant)
        values = {"case": case, "answer": answer, "zeros": Zeros().run(case, variant)}
        return eval(self._way, globals(), values) if self._calls == 2 else answer


def __getattr__(name: str) -> Any:
    if name.isidentifier():
        raise AttributeError(name)
    return partial(Way, name)


class OnlyRefuses(Oracle):
    def run(self, case: Case, variant: str) -> Any:
        super().run(case, variant)
        raise Unsupported("values")


class OnlyValues(Oracle):
    def run(self, case: Case, variant: str) -> Any:
        with contextlib.suppress(SpecViolation):
            return super().run(case, variant)
        raise Unsupported("refusals")


class Counting(Oracle):
    """Declines every call, and lists the shapes that the process has seen."""

    seen: tuple[str, ...] = ()

    def run(self, case: Case, variant: str) -> Any:
        self.seen += (str(case.inputs["InputTensor"].shape),)
        raise Unsupported(" ".join(self.seen))


def made(**attributes: Any) -> type:
    return type("Made", (Oracle,), attributes)


EXITING = property(lambda self: sys.exit(0))
NoDescs = made(desc_variants=())
ExitsWhenMade = partial(sys.exit, 0)
ExitsAtItsName = made(name=EXITING)
ExitsAtItsLimits = made(dtypes=EXITING)
HasVariantsOfNoKind = made(variants=(7,))
HasNoRun = made(run=None)
MakesNothing = dict
