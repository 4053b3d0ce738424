"""The smoke command blames the right layer."""

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlax_conformance import cli
from dmlax_conformance.adapters.base import Case
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import SpecViolation, Unsupported
from dmlax_conformance.operators import OPERATORS
from dmlax_conformance.suite import smoke
from dmlax_conformance.suite.smoke_cases import smokes

TESTS = Path(__file__).parents[1]
ORACLE = Oracle()
NONZERO = "nonzero_coordinates"


def test_there_is_a_case_for_every_operator() -> None:
    assert sorted(each.call.operator for each in smokes()) == sorted(OPERATORS)


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)


def test_a_broken_call_differs_in_one_place() -> None:
    for each in smokes():
        parts = ("attributes", "inputs", "outputs")
        pairs = [(getattr(each.call, part), getattr(each.broken, part)) for part in parts]
        changed = [k for one, other in pairs for k in one if not is_same(one[k], other[k])]
        assert changed == [each.refusal[1]]


def test_the_oracle_is_fine_in_every_check() -> None:
    found = list(smoke.findings(ORACLE))
    assert {finding.layer for finding in found} == {None}
    assert len(found) == 2 + 4 * len(smokes())
    assert cli.main(["smoke", "--implementation", "oracle"]) == 0


class Wrong(Oracle):
    """The oracle with one mistake."""

    def __init__(self, mistake: Callable[[Case, int], Any], **own: Any) -> None:
        """Keep the mistake, which gets the case and how often that case has been asked."""
        self._mistake = mistake
        self._asked: dict[str, int] = {}
        for name, value in own.items():
            setattr(self, name, value)

    def run(self, case: Case, variant: str) -> Any:
        """Make the mistake."""
        self._asked[case.id] = self._asked.get(case.id, 0) + 1
        return self._mistake(case, self._asked[case.id])


def correct(case: Case) -> dict[str, Any]:
    return ORACLE.run(case, "eager")


def every(change: Callable[[Any], Any]) -> Callable[[Case, int], Any]:
    return lambda case, times: {name: change(array) for name, array in correct(case).items()}


def crash(case: Case, times: int) -> Mapping[str, Any]:
    raise RuntimeError("broken pipe")


def refuse_everything(case: Case, times: int) -> Mapping[str, Any]:
    correct(case)
    raise SpecViolation("flags", "InputTensor")


def other_code(case: Case, times: int) -> Mapping[str, Any]:
    try:
        return correct(case)
    except SpecViolation as violation:
        raise SpecViolation("flags", violation.field) from None


def crash_instead_of_refusing(case: Case, times: int) -> Mapping[str, Any]:
    try:
        return correct(case)
    except SpecViolation as violation:
        raise ValueError("no") from violation


def accept_everything(case: Case, times: int) -> Mapping[str, Any]:
    try:
        return correct(case)
    except SpecViolation:
        return {}


def wrong_later(case: Case, times: int) -> Mapping[str, Any]:
    answer = correct(case)
    return answer if times == 1 else {name: array + 1 for name, array in answer.items()}


def wrong_after_a_refusal(case: Case, times: int) -> Mapping[str, Any]:
    if times > 2:
        raise Unsupported("tired")
    return correct(case)


def answer_the_unknown(case: Case, times: int) -> Mapping[str, Any]:
    return correct(case) if case.operator in KNOWN else {}


def fail_at_the_unknown(case: Case, times: int) -> Mapping[str, Any]:
    return correct(case) if case.operator in KNOWN else {"OutputTensor": {}[case.operator]}


def decline(case: Case, times: int) -> Mapping[str, Any]:
    raise Unsupported("not yet")


def decline_nonzero(case: Case, times: int) -> Mapping[str, Any]:
    if case.operator == NONZERO:
        raise Unsupported("not yet")
    return correct(case)


KNOWN = {each.call.operator for each in smokes()}
ALL = tuple(KNOWN)
MISTAKES: dict[str, tuple[Wrong, set[str], str]] = {
    "values": (
        Wrong(every(lambda x: x + 1)),
        {"operator"},
        "OutputCountTensor is [[3]], not [[2]]",
    ),
    "dtype": (Wrong(every(lambda x: x.astype("int64"))), {"adapter"}, "is int64[1, 1], not uint32"),
    "sizes": (Wrong(every(np.ravel)), {"adapter"}, "is uint32[1], not uint32[1, 1]"),
    "list": (
        Wrong(lambda case, times: list(correct(case))),
        {"adapter"},
        "is a list, not a mapping",
    ),
    "names": (Wrong(lambda case, times: correct(case) | {"X": 1}), {"adapter"}, "asked for"),
    "crash": (Wrong(crash), {"adapter"}, "RuntimeError: broken pipe"),
    "refuses": (Wrong(refuse_everything), {"operator"}, "refuses a call that keeps every rule"),
    "accepts": (Wrong(accept_everything), {"operator"}, "accepted, but must be refused with sizes"),
    "code": (Wrong(other_code), {"adapter"}, "not with flags on OutputCoordinatesTensor"),
    "error": (Wrong(crash_instead_of_refusing), {"adapter"}, "on Strides; ValueError: no"),
    "later": (Wrong(wrong_later), {"adapter"}, "right at first, but now: OutputCountTensor is"),
    "tired": (Wrong(wrong_after_a_refusal), {"adapter"}, "but now: declined: tired"),
    "unknown": (Wrong(answer_the_unknown), {"adapter"}, "but was answered"),
    "key": (Wrong(fail_at_the_unknown), {"adapter"}, "declined as unsupported; KeyError"),
    "nothing": (Wrong(decline), {"adapter"}, "declines every plain call"),
    "claim": (Wrong(decline_nonzero, operators=ALL), {"adapter"}, "claims it but declines"),
    "strange": (Wrong(lambda c, n: correct(c), operators=("relu",)), {"adapter"}, "claims relu"),
    "variants": (Wrong(lambda c, n: correct(c), variants=()), {"adapter"}, "has no variants"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_layer_at_fault(name: str) -> None:
    adapter, layers, why = MISTAKES[name]
    found = list(smoke.findings(adapter))
    blamed = {finding.layer for finding in found if finding.layer}
    assert layers <= blamed
    if layers == {"operator"}:
        assert blamed == layers
    assert any(why in finding.why for finding in found if finding.layer)
    assert f"{'adapter' if 'adapter' in blamed else 'operator'} is at fault" in summary(found)


def summary(found: list[smoke.Finding]) -> str:
    return smoke.summary(found)[-1]


def test_one_that_declines_some_operators_is_fine() -> None:
    found = list(smoke.findings(Wrong(decline_nonzero)))
    assert {finding.layer for finding in found} == {None}


def test_undefined_rows_are_free() -> None:
    def scribble(case: Case, times: int) -> dict[str, Any]:
        answer = correct(case)
        if case.operator == NONZERO:
            answer["OutputCoordinatesTensor"][2:] = times
        return answer

    assert {finding.layer for finding in smoke.findings(Wrong(scribble))} == {None}


def command(*words: str | Path) -> str:
    return shlex.join([sys.executable, *map(str, words)])


def test_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    line = command(TESTS.parent / "examples" / "nonzero_lines.py")
    assert cli.main(["smoke", "--command", line]) == 0
    shown = capsys.readouterr().out
    assert "ok    nonzero_coordinates [default] after a broken rule: right" in shown
    assert shown.endswith("All fine: run the suite.\n")


PROGRAMS = {
    "garbage": ("every", 1, "breaks protocol 1"),
    "exit": (f"smoke-{NONZERO}", 1, "exited with status 3 without an answer; stderr: the last"),
    "twice": (f"smoke-{NONZERO}", 1, "right at first, but now: AdapterFailure: answered seq"),
    "dies-at-once": ("nobody", 2, "exited with status 7"),
}


@pytest.mark.parametrize("way", PROGRAMS)
def test_a_program_at_fault(way: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    victim, code, why = PROGRAMS[way]
    line = command(TESTS / "adapters" / "misbehave.py", way, victim, tmp_path / "starts")
    assert cli.main(["smoke", "--command", line]) == code
    shown = "".join(capfd.readouterr())
    assert why in shown
    assert code == 2 or "The adapter is at fault" in shown
