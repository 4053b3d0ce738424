"""Replies that come late, early or out of place."""

import time
from pathlib import Path

import pytest

from dmlax_conformance import adapters
from dmlax_conformance.errors import AdapterFailure, Unsupported
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.runner import protocol
from dmlax_conformance.runner.run import case_of

ENDS_WHILE_IDLE = """
import os, threading, time
class Ends:
    name, variants, concurrent, calls = "ends", ("eager",), True, 0
    runs_on = lambda self: {"device": "none"}
    def run(self, case, variant):
        self.calls += 1
        time.sleep(2 * (len(case.inputs) > 1))
        if self.calls == 8:
            threading.Timer(0.1, os._exit, (0,)).start()
        return {}
"""


def test_a_question_that_is_too_long_does_not_overtake(suite: list[Vector]) -> None:
    pair = [(case_of(v), "eager") for v in suite if v.is_valid and not v.requires][:200:199]
    pair.sort(key=lambda one: len(protocol.to_line(protocol.run_command(1, *one))))
    with adapters.started("oracle") as adapter:
        adapter._longest = len(protocol.to_line(protocol.run_command(99, *pair[0], ["base64"])))
        (plan,) = adapter.answers([pair])
    assert [type(reply) for reply in plan.replies] == [dict, Unsupported]


def test_an_end_while_idle_spoils_neither_the_facts_nor_the_next_case(
    suite: list[Vector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ending.py").write_text(ENDS_WHILE_IDLE)
    monkeypatch.syspath_prepend(tmp_path)
    quick, slow = (next(v for v in suite if (len(v.inputs) > 1) == is_slow) for is_slow in (0, 1))
    with adapters.started("ending:Ends") as adapter:
        list(adapter.answers([[(case_of(v), "eager")] for v in [*[quick] * 8, slow]], jobs=2))
        start = time.monotonic()
        assert adapter.runs_on() == {"device": "none"}
        assert adapter.run(case_of(quick), "eager") == {}
    assert time.monotonic() - start < 20


def test_errors_without_complaints_are_not_waited_for(suite: list[Vector]) -> None:
    with adapters.started("raising") as adapter:
        start = time.monotonic()
        plans = list(adapter.answers([[(case_of(suite[0]), "eager")]] * 200))
    assert {type(reply) for plan in plans for reply in plan.replies} == {AdapterFailure}
    assert time.monotonic() - start < 15
