"""Adapters that compute nothing, or next to nothing, and try to pass: each class is one."""

# ruff: noqa: D101, D102, D105, D107, RUF012

import asyncio
import atexit
import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dmlax_conformance.adapters.base import Case, SpecViolation, Unsupported
from dmlax_conformance.adapters.oracle import Oracle


class Declines:
    """Declines everything, in two variants that each adapter here has."""

    name = "way"
    variants: Any = ("eager", "jit")
    capabilities: Any = frozenset({"descriptors", "strides"})

    def run(self, case: Case, variant: str) -> Any:
        raise Unsupported("never")


class Raises(Declines):
    error: BaseException = SystemExit(0)

    def run(self, case: Case, variant: str) -> Any:
        raise self.error


class RaisesSystemExitWithoutACode(Raises):
    error = SystemExit()


class RaisesKeyboardInterrupt(Raises):
    error = KeyboardInterrupt()


class RaisesGeneratorExit(Raises):
    error = GeneratorExit()


class RaisesCancelled(Raises):
    error = asyncio.CancelledError()


class RaisesStopIteration(Raises):
    error = StopIteration()


class OwnError(BaseException):
    """An error of no known kind, whose text ends the program."""

    def __str__(self) -> str:
        sys.exit(0)


class RaisesItsOwn(Raises):
    error = OwnError()


class DeclinesWithAnExit(Raises):
    error = Unsupported(OwnError())


class RefusesWithArrays(Raises):
    error = SpecViolation(np.arange(3), np.arange(3))  # type: ignore[arg-type]


class RefusesEverything(Raises):
    error = SpecViolation("data_type", "InputTensor")


class ExitsWhenMade(Declines):
    def __init__(self) -> None:
        sys.exit(0)


class ExitsWhenClosed(Declines):
    def close(self) -> None:
        sys.exit(0)


class Exiting:
    """An attribute that ends the program when it is read."""

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is not None:
            sys.exit(0)
        return self


class ExitsAtItsName(Declines):
    name = Exiting()  # type: ignore[assignment]


class ExitsAtItsVariants(Declines):
    variants = Exiting()


class ExitsAtItsUsualVariants(Declines):
    usual_variants = Exiting()


class ExitsAtItsDescVariants(Declines):
    desc_variants = Exiting()


class ExitsAtItsCapabilities(Declines):
    capabilities = Exiting()


class ExitsAtItsConcurrency(Declines):
    concurrent = Exiting()


class ExitsAtItsDevice(Declines):
    runs_on = Exiting()


class HasNoVariants(Declines):
    variants = ()


class HasVariantsOfNoKind(Declines):
    variants = 7


class HasNoRun:
    name, variants = "way", ("eager",)


def makes_nothing() -> None:
    """Return no adapter."""


class OnlyRefuses(Oracle):
    """Right about what is wrong, and declines what is not."""

    def run(self, case: Case, variant: str) -> Any:
        super().run(case, variant)
        raise Unsupported("values")


class AnswersOne(Oracle):
    """Right about one vector, and declines all others that want values."""

    least = 1

    def run(self, case: Case, variant: str) -> Any:
        answer = super().run(case, variant)
        self.least -= 1
        if self.least < 0:
            raise Unsupported("enough")
        return answer


class ExitsAfterOne(AnswersOne):
    def run(self, case: Case, variant: str) -> Any:
        try:
            return super().run(case, variant)
        except Unsupported:
            sys.exit(0)


class Answers(Declines):
    answer: Any = None

    def run(self, case: Case, variant: str) -> Any:
        return self.answer


class AnswersNothing(Answers):
    answer: Any = {}


class AnswersTrue(Answers):
    answer = True


class AnswersAList(Answers):
    answer: Any = []


class AnswersAGenerator(Answers):
    answer = iter(())


class ExitingMapping(Mapping[str, Any]):
    def __iter__(self) -> Iterator[str]:
        sys.exit(0)

    def __len__(self) -> int:
        sys.exit(0)

    def __getitem__(self, name: str) -> Any:
        sys.exit(0)


class AnswersAnExit(Answers):
    answer = ExitingMapping()


class ExitingArray:
    def __array__(self, *arguments: Any, **options: Any) -> Any:
        sys.exit(0)


class AnswersExitingArrays(Declines):
    def run(self, case: Case, variant: str) -> Any:
        return dict.fromkeys(case.outputs, ExitingArray())


class AnswersRequests(Declines):
    def run(self, case: Case, variant: str) -> Any:
        return case.outputs


class AnswersTheInputs(Declines):
    def run(self, case: Case, variant: str) -> Any:
        return case.inputs


class AnswersOnes(Declines):
    def run(self, case: Case, variant: str) -> Any:
        return {k: np.ones(asked.sizes, asked.dtype) for k, asked in case.outputs.items()}


class AsksForNothing(Declines):
    """Takes what is asked for out of the case."""

    def run(self, case: Case, variant: str) -> Any:
        case.outputs.clear()  # type: ignore[attr-defined]
        case.inputs.clear()  # type: ignore[attr-defined]
        return {}


# -- rude ways to be right, and long ways to be wrong ----------------------------------------


class Scribbles(Oracle):
    """Right, and changes all that it was given."""

    def run(self, case: Case, variant: str) -> Any:
        answer = super().run(case, variant)
        for array in case.inputs.values():
            array[...] = 0
        for part in (case.inputs, case.outputs, case.attributes, case.desc or {}):
            part.clear()  # type: ignore[attr-defined]
        return answer


class ReusesItsArrays(Oracle):
    """Right, and changes its last answer before it gives the next."""

    last: Any = {}

    def run(self, case: Case, variant: str) -> Any:
        for array in self.last.values():
            array[...] = 7
        self.last = super().run(case, variant)
        return self.last


class WritesALot(Oracle):
    """Right, and writes to standard output and error."""

    def run(self, case: Case, variant: str) -> Any:
        print("x" * 10_000, "\x1b[2J")
        print("x" * 10_000, file=sys.stderr)
        return super().run(case, variant)


class RaisesLongTexts(Declines):
    def run(self, case: Case, variant: str) -> Any:
        raise ValueError("out of memory " * 1_000_000)


class RaisesControls(Raises):
    error = ValueError("\x1b[2J \ud800")


class AnswersHugeArrays(Declines):
    def run(self, case: Case, variant: str) -> Any:
        return {name: np.zeros(20_000_000, np.uint32) for name in case.outputs}


class AnswersManyNames(Declines):
    def run(self, case: Case, variant: str) -> Any:
        return {f"Output{number}": np.zeros(1) for number in range(5000)}


# -- ways that end the process -----------------------------------------------------------------


class Ends(Declines):
    def run(self, case: Case, variant: str) -> Any:
        os._exit(0)


class EndsWhenClosed(Declines):
    def close(self) -> None:
        os._exit(0)


class EndsAtExit(Declines):
    def run(self, case: Case, variant: str) -> Any:
        atexit.register(os._exit, 0)
        return {}


class EndsInC(Declines):
    def run(self, case: Case, variant: str) -> Any:
        ctypes.CDLL(None).exit(0)


class BecomesAnother(Declines):
    def run(self, case: Case, variant: str) -> Any:
        os.execv("/bin/true", ["true"])


class KillsItself(Declines):
    def run(self, case: Case, variant: str) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
