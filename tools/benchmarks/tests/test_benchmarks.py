"""The tables of the benchmarks, and that they compare before they time."""

import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tools.benchmarks import __main__, cases, chains, layers, report, stored, timing, works


@pytest.mark.parametrize(("name", "count"), [("resnet50", 53), ("mobilenet_v2", 52)])
def test_every_convolution_of_a_chain_takes_the_result_of_its_source(name, count):
    links = list(chains.CHAINS[name]())
    assert len(links) == count
    for i, link in enumerate(links):
        if link.source is not None:
            assert link.source < i
            given = links[link.source].layer
            size = (given.size + 2 * given.padding - given.kernel) // given.stride + 1
            assert (given.out_channels, size) == (link.layer.in_channels, link.layer.size)
    assert sum(link.source is None for link in links) == (3 if name == "resnet50" else 1)


def test_each_figure_has_that_without_kept_memory_beside_it(monkeypatch, tmp_path):
    """The process measures again in another one, whose environment says so."""
    kept = []

    def run(repeats):
        row = {"operator": "add", "call us": 1 + repeats, "ratio": 0.5, "spread": "0.4-0.6"}
        yield report.Report("directml", [row])

    def run_off(command, env, **options):
        assert (env["DMLAX_KEEP_FREED_MEMORY"], kept) == ("0", [])
        reports = [report.Report("directml", [{"operator": "add", "call us": 9.0, "ratio": 0.8}])]
        report.write(Path(command[-1]), reports)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setenv("DMLAX_KEEP_FREED_MEMORY", "0")  # to be absent again after the test
    monkeypatch.delenv("DMLAX_KEEP_FREED_MEMORY")
    monkeypatch.setattr("tools.benchmarks.directml.run", run)
    monkeypatch.setattr(__main__.dmlax, "keep_freed_memory", lambda: kept.append(True))
    monkeypatch.setattr(__main__.subprocess, "run", run_off)
    __main__.main(["directml", "--json", str(tmp_path / "table.json")])
    (row,) = stored.read(tmp_path / "table.json")["directml"]["rows"]
    assert [*row.items()] == [
        *(("operator", "add"), ("call us", 21.0), ("call us off", 9.0)),
        *(("ratio", 0.5), ("ratio off", 0.8), ("spread", "0.4-0.6")),
    ]
    assert kept == [True]


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
