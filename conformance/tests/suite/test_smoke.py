"""The smoke command blames the right layer."""

import shlex
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlax_conformance import cli
from dmlax_conformance.adapters.base import Case
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import SpecViolation, Unsupported
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.runner import run as runner
from dmlax_conformance.runner import smoke
from dmlax_conformance.runner.controls import Zeros

TESTS = Path(__file__).parents[1]
NONZERO = "nonzero_coordinates"


@pytest.fixture(scope="module")
def plain(suite: list[Vector]) -> list[Vector]:
    """Return the vectors that smoke takes its calls from, which is quicker than all."""
    return [each for smoke in smoke.smokes(suite) for each in smoke]


def test_each_operator_has_a_plain_call_and_one_that_breaks_a_rule(suite: list[Vector]) -> None:
    found = smoke.smokes(suite)
    assert sorted(each.plain.operator for each in found) == sorted(OPERATORS)
    for plain, broken in found:
        assert (plain.is_valid, broken.is_valid, broken.base) == (True, False, plain.id)
        assert runner.judge_alone(Zeros(), plain, "eager").verdict == "fail"
        assert sum(len(tensor.words) for tensor in plain.inputs.values()) < 300


def test_the_oracle_is_fine_in_every_check(plain: list[Vector]) -> None:
    found = list(smoke.findings(Oracle(), plain))
    assert {finding.layer for finding in found} == {None}
    assert len(found) == 1 + 4 * len(OPERATORS)
    assert len(list(smoke.findings(Oracle(), plain, valid_only=True))) == 1 + 2 * len(OPERATORS)
    assert cli.main(["smoke", "--implementation", "oracle"]) == 0


def test_an_operator_that_is_not_declared_is_not_asked_for(plain: list[Vector]) -> None:
    one = Wrong(at({*OPERATORS} - {NONZERO}, ValueError("no")), operators=(NONZERO,))
    found = list(smoke.findings(one, plain))
    assert {finding.layer for finding in found} == {None}
    assert found[0].why == f"{one.name} with eager; 1 of {len(OPERATORS)} operators"
    assert len(found) == 1 + 4


Mistake = Callable[[Case, int, Any], Any]  # case, how often it was asked, answer or exception


class Wrong(Oracle):
    """The oracle with one mistake, which declares no operator."""

    operators = None  # type: ignore[assignment]

    def __init__(self, mistake: Mistake, **own: Any) -> None:
        """Keep the mistake, and own attributes."""
        self._mistake, self._asked = mistake, Counter[str]()
        vars(self).update(own)

    def run(self, case: Case, variant: str) -> Any:
        """Make the mistake."""
        self._asked[case.id] += 1
        try:
            right: Any = super().run(case, variant)
        except (SpecViolation, Unsupported) as error:
            right = error
        reply = self._mistake(case, self._asked[case.id], right)
        if isinstance(reply, Exception):
            raise reply
        return reply


def answers(change: Callable[[dict[str, Any]], Any], first: int = 1) -> Mistake:
    """Return the mistake to change an answer, the first time or a later one."""
    return lambda _, times, x: change(x) if isinstance(x, dict) and times >= first else x


def arrays(change: Callable[[Any], Any], first: int = 1) -> Mistake:
    return answers(lambda answer: {name: change(x) for name, x in answer.items()}, first)


def refusals(change: Callable[[SpecViolation], Any]) -> Mistake:
    return lambda case, times, x: change(x) if isinstance(x, SpecViolation) else x


def at(operators: Any, instead: Any) -> Mistake:
    return lambda case, times, x: instead if case.operator in operators else x


def right(case: Case, times: int, x: Any) -> Any:
    return x


NOT_YET, FLAGS = Unsupported("not yet"), SpecViolation("flags", "InputTensor")
UNKNOWN = ("no_such_operator",)
MISTAKES: dict[str, tuple[Wrong, str, str]] = {  # the layer at fault, and a part of the reason
    "values": (Wrong(arrays(lambda x: x + 1)), "operator", "more elements differ"),
    "dtype": (Wrong(arrays(lambda x: x.astype("int64"))), "adapter", "dtype int64, not uint32"),
    "sizes": (Wrong(arrays(np.ravel)), "adapter", "sizes (6,), not (2, 3)"),
    "list": (Wrong(answers(list)), "adapter", "is a list, not a mapping"),
    "names": (Wrong(answers(lambda x: x | {"X": 1})), "adapter", "X: not asked for"),
    "crash": (Wrong(at(OPERATORS, RuntimeError("no"))), "adapter", "RuntimeError: no"),
    "refuses": (Wrong(answers(lambda _: FLAGS)), "operator", "refused a call that keeps every"),
    "accepts": (Wrong(refusals(lambda _: {})), "operator", "accepted; must be refused with"),
    "code": (
        Wrong(refusals(lambda violation: SpecViolation("flags", violation.field))),
        "adapter",
        "flags; must be refused with",
    ),
    "error": (Wrong(refusals(lambda _: ValueError("no"))), "adapter", "ValueError: no; raised"),
    "later": (Wrong(arrays(lambda x: x + 1, 2)), "adapter", "right at first, but now: Output"),
    "tired": (Wrong(answers(lambda _: NOT_YET, 3)), "adapter", "but now: declined: not yet"),
    "unknown": (Wrong(at(UNKNOWN, {})), "adapter", "but was answered"),
    "key": (Wrong(at(UNKNOWN, KeyError("x"))), "adapter", "declares its operators; KeyError"),
    "nothing": (Wrong(lambda *_: NOT_YET), "adapter", "declines every plain call"),
    "claim": (Wrong(at((NONZERO,), NOT_YET), operators=OPERATORS), "adapter", "declares it but"),
    "strange": (Wrong(right, operators=("relu",)), "adapter", "declares relu"),
    "some declined": (Wrong(at((NONZERO,), NOT_YET)), "", "declined: not yet"),
    "variants": (Wrong(right, variants=()), "adapter", "has no variants"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_layer_at_fault(name: str, plain: list[Vector]) -> None:
    adapter, layer, why = MISTAKES[name]
    found = list(smoke.findings(adapter, plain))
    blamed = {finding.layer for finding in found if finding.layer}
    assert layer in blamed if layer == "adapter" else blamed == {layer} - {""}
    assert any(why in finding.why for finding in found if finding.layer or not layer)
    assert f"{layer} is at fault" in smoke.summary(found) or not layer


PROGRAMS = {
    "right": (0, "ok    nonzero_coordinates [default] after a broken rule: right"),
    "write(b'1,2\\n') every": (1, "breaks protocol 1"),
    "leave(3) uint8": (1, "exited with status 3 without an answer; stderr: the last"),
    "say(answer,answer) uint8": (1, "right at first, but now: answered seq"),
    "leave(7) start": (2, "exited with status 7"),
}
SUMMARIES = ("All fine: run the suite.\n", "The adapter is at fault", "")


@pytest.mark.parametrize("way", PROGRAMS)
def test_a_program(way: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, why = PROGRAMS[way]
    words = [TESTS / "adapters" / "misbehave.py", *way.split(), tmp_path / "starts"]
    words = words if code else [TESTS.parent / "examples" / "nonzero_lines.py"]
    line = shlex.join([sys.executable, *map(str, words)])
    assert cli.main(["smoke", "--command", line]) == code
    shown = "".join(capfd.readouterr())
    assert why in shown
    assert SUMMARIES[code] in shown
