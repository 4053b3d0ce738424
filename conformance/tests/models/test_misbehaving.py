"""Implementations of whole models that hang, end, or answer in a wrong form get a verdict."""

import gc
import os
import struct
import sys
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlax_conformance.adapters.models.oracle import Oracle
from dmlax_conformance.adapters.models.worker import Worker
from dmlax_conformance.models import golden
from dmlax_conformance.models.adapter import ModelCase
from dmlax_conformance.paths import models_dir

Way = Callable[[dict[str, Any]], Any]


def write(text: bytes, is_whole: bool = True) -> Way:
    """Return what writes something else to the parent."""

    def act(answer: object) -> None:
        (connection,) = (x for x in gc.get_objects() if isinstance(x, Connection) and x.writable)
        if is_whole:
            connection.send_bytes(text)
        else:
            os.write(connection.fileno(), struct.pack("!i", len(text) + 1) + text)
        time.sleep(3600)

    return act


def average(change: Callable[[Any], Any]) -> Way:
    return lambda answer: {**answer, "average": change(answer["average"])}


LATE, UNREAD = "no answer within 2.5 seconds", "the answer cannot be read: "
NO_TENSOR = b'{"outputs": {"average": {"dtype": "int8", "sizes": [2], "data": [1]}}}'
WAYS: dict[str, tuple[Way, str, str]] = {  # the verdict, and how its details begin
    "hangs": (lambda _: time.sleep(3600), "error", LATE),
    "ends": (lambda _: os._exit(0), "error", "the adapter ended the process (status 0)"),
    "exits": (lambda _: sys.exit(0), "error", "SystemExit: 0"),
    "stops": (write(b"{}", is_whole=False), "error", LATE),
    "no JSON": (write(b"{"), "error", UNREAD + "JSONDecodeError"),
    "no answer": (write(b"{}"), "error", UNREAD + "ValueError"),
    "no tensor": (write(NO_TENSOR), "error", UNREAD + "Malformed"),
    "ragged": (average(lambda _: [[1], [1, 2]]), "error", "ValueError"),
    "no dtype": (average(lambda _: "text"), "error", "KeyError: 'str128'"),
    "no mapping": (lambda x: [*x.values()], "error", "the answer is a list, not a mapping"),
    "sizes": (average(lambda x: x[0]), "fail", "average: sizes (4, 3, 5), not (1, 4, 3, 5)"),
    "dtype": (average(lambda x: x.astype("int32")), "fail", "average: dtype int32, not int8"),
    "missing": (lambda x: {n: x[n] for n in x if n != "average"}, "fail", "average: missing"),
    "no output": (lambda x: {"average": x["average"]}, "fail", "depthwise_out: missing"),
    "unasked": (lambda x: {**x, "other": np.zeros(1)}, "fail", "other: not asked for"),
    "outputs alone": (lambda x: {"grouped_out": x["grouped_out"]}, "exact", ""),
}


class Misbehaving(Oracle):
    """The oracle, whose answer to `depthwise` is spoiled in a way for every variant."""

    variants = tuple(WAYS)

    def run(self, case: ModelCase, variant: str) -> Any:
        """Answer, but not every model."""
        answer = super().run(case, variant)
        return WAYS[variant][0](answer) if case.model == "depthwise" else answer


@pytest.fixture(scope="module")
def worker() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(__file__).parent)
        with closing(Worker("test_misbehaving:Misbehaving", 2.5)) as worker:
            yield worker


@pytest.mark.parametrize("variant", WAYS)
def test_a_child_gets_a_verdict_and_the_next_model_too(variant: str, worker: Worker) -> None:
    first, second = (golden.load(models_dir() / f"{n}.json") for n in ("depthwise", "products"))
    _, verdict, text = WAYS[variant]
    found = worker.ask((first, "exact", variant))
    assert found.verdict == verdict
    assert any(detail.startswith(text) for detail in (*found.details, ""))
    assert worker.ask((second, "exact", variant)).verdict == "exact"
