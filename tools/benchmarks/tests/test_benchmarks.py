"""The tables of the benchmarks, and that they compare before they time."""

import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dmlax._cpu import library
from tools.benchmarks import (
    __main__,
    cases,
    decoding,
    layers,
    operators,
    report,
    stored,
    timing,
    works,
)


def test_a_table_is_printed_and_written(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DMLAX_KEEP_FREED_MEMORY", "1")

    def run(only, repeats):
        yield report.Report("overhead", [{"call": "add", "us": 1.23456, "ratio": 0.5 * repeats}])

    monkeypatch.setattr("tools.benchmarks.overhead.run", run)
    __main__.main(["overhead", "--repeats", "3", "--json", str(tmp_path / "table.json")])
    (row,) = stored.read(tmp_path / "table.json")["overhead"]["rows"]
    assert row == {"call": "add", "us": 1.235, "ratio": 1.5}
    assert "add" in capsys.readouterr().out


def test_each_figure_has_that_without_kept_memory_beside_it(monkeypatch, tmp_path):
    """The process measures again in another one, whose environment says so."""
    kept = []

    def run(only, repeats):
        row = {"call": "add", "us": 1 + repeats, "ratio": 0.5, "spread": "0.4-0.6"}
        yield report.Report("overhead", [row])

    def run_off(command, env, **options):
        assert (env["DMLAX_KEEP_FREED_MEMORY"], kept) == ("0", [])
        reports = [report.Report("overhead", [{"call": "add", "us": 9.0, "ratio": 0.8}])]
        report.write(Path(command[-1]), reports)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setenv("DMLAX_KEEP_FREED_MEMORY", "0")  # to be absent again after the test
    monkeypatch.delenv("DMLAX_KEEP_FREED_MEMORY")
    monkeypatch.setattr("tools.benchmarks.overhead.run", run)
    monkeypatch.setattr(__main__.dmlax, "keep_freed_memory", lambda: kept.append(True))
    monkeypatch.setattr(__main__.subprocess, "run", run_off)
    __main__.main(["overhead", "--json", str(tmp_path / "table.json")])
    (row,) = stored.read(tmp_path / "table.json")["overhead"]["rows"]
    assert [*row.items()] == [
        *(("call", "add"), ("us", 21.0), ("us off", 9.0)),
        *(("ratio", 0.5), ("ratio off", 0.8), ("spread", "0.4-0.6")),
    ]
    assert kept == [True]


@pytest.mark.parametrize("name", operators.WORKS)
def test_a_small_work_of_each_operator_has_the_peers_bits(name):
    if name == "few_rows" and library.why_not("cpu"):
        pytest.skip("the kernels are not built")
    works = {work.operator: work for work in operators.WORKS[name]() if work.input.size < 2**16}
    for work in works.values():
        assert operators.measure(work, 1, timing.NONE)["ratio"] > 0


def test_means_are_taken_over_the_rows_of_a_group():
    rows = [{"operator": "add", "size": size, "ratio": 2.0**size} for size in (1, 3)]
    assert stored.summary(rows) == [{"operator": "add", "ratio": "4.00 (2.00 to 8.00)"}]
    assert stored.summary(rows[:1]) == []


def test_a_work_whose_outputs_differ_is_not_timed():
    layer = cases.Layer("small", 8, 1, 16, 1, 1, 0, 1)
    work = layers.fully_connected(cases.Problem.of(layer, 4, "NHWC", bits=7), "MatMulInteger")
    row = works.measure(work, 1, timing.NONE)
    assert row["operator"] == "MatMulInteger"
    assert row["dmlax us"] > 0

    def off_by_one(x, filter):
        return work.call(x, filter) + np.eye(16, dtype=np.int32)[15]

    with pytest.raises(AssertionError):
        works.measure(replace(work, call=off_by_one), 1, timing.NONE)


_ASKS_FOR_AMX = """
import ctypes, errno
from tools.benchmarks import amx
amx.refuse()
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(158, 0x1023, 18) == -1  # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
assert ctypes.get_errno() == errno.EPERM
assert not amx.is_granted()
"""


@pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="AMX is of x86-64"
)
def test_a_process_that_is_refused_amx_has_none():
    subprocess.run([sys.executable, "-c", _ASKS_FOR_AMX], check=True)  # it is refused for good


def test_a_small_decoder_has_the_peers_tokens():
    """Floats at level 0; a rounding may flip at level 4."""
    (table,) = decoding.run("level 0, (step with 17|prompt of 16)", 1, 1, 128, True)
    assert [row["call"] for row in table.rows] == ["step with 17 tokens", "prompt of 16"]
    assert [row["token equal"] for row in table.rows] == [1, 1]
