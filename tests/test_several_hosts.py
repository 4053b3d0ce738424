"""The example of several hosts: two processes of two CPU devices each, against one device."""

import os
import pickle
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dmlax
from support import assert_same, coordinates, padded_rows
from tools import examples

EXAMPLE = Path(__file__).parent.parent / "docs/examples/several_hosts.py"
HOST = """
import pickle, runpy, sys
*arguments, output = sys.argv[1:]
record = runpy.run_path({example!r})["main"](arguments)
open(output, "wb").write(pickle.dumps(vars(record)))
"""


def start(address, index, output):
    code = HOST.format(example=str(EXAMPLE))
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-c", code, address, "2", str(index), str(output)],
        env=os.environ | flags,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The results of each of two hosts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    outputs = [tmp_path_factory.mktemp("hosts") / f"{index}.pickle" for index in range(2)]
    hosts = [start(address, index, output) for index, output in enumerate(outputs)]
    errors = [host.communicate(timeout=300)[1] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], errors
    return [pickle.loads(output.read_bytes()) for output in outputs]


@pytest.fixture(scope="module")
def example():
    return examples.load("several_hosts")


def test_a_batch_over_two_hosts_has_the_bits_of_one_device(records, example):
    assert [record["first_image"] for record in records] == [0, 4]
    expected = np.asarray(example.layer(example.images(0, 8), example.filter()))
    assert len(np.unique(expected)) > 50
    assert_same(np.concatenate([record["outputs"] for record in records]), expected)


def test_coordinates_over_two_hosts_are_the_whole_batchs_on_each(records, example):
    x = example.images(0, 8)
    expected = coordinates(x)
    assert 0 < len(expected) < example.MOST
    for record in records:
        assert record["count"] == len(expected)
        rows = padded_rows(expected, example.MOST, 2**32 - 1)
        assert_same(record["coordinates"], rows)
    assert_same(
        dmlax.nonzero_coordinates(x, size=example.MOST, fill_value=2**32 - 1).coordinates, rows
    )


def test_nothing_gathers_an_input(records, example):
    """The layer exchanges nothing; the coordinates exchange a bit for each element."""
    bits = example.images(0, 8).size
    for record in records:
        assert record["collectives"]["layer"] == []
        ((kind, shape),) = record["collectives"]["coordinates"]
        assert kind == "all-reduce"
        words = np.prod([int(size) for size in re.search(r"u32\[(.*?)\]", shape)[1].split(",")])
        assert 32 * words == bits
