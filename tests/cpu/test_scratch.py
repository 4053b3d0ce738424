"""Scratch memory of the kernels: threads share what is large, and keep what is small."""

import resource
import threading
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

import dmlax
from support import NATIVE

THREADS = 6
CALLS = 20
MEBIBYTE = 1 << 20


def resident():
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


@pytest.mark.skipif(not NATIVE, reason="the kernels are not built")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no resident memory to read")
@pytest.mark.parametrize("packing", ["rows", "panels"])  # one set or another unpacks panels first
def test_threads_share_large_scratch_memory(packing):
    """A call packs 9 MiB of filter; six threads, of which one calls at a time, keep them once."""
    layouts = "NHWC", "OIHW", "NHWC"
    filter = np.ones((2048, 512, 3, 3), np.int8)
    prepared = dmlax.prepare_filter(filter, dimension_numbers=layouts, packing=packing)
    image = jax.block_until_ready(jax.device_put(np.ones((1, 4, 4, 512), np.uint8)))
    convolve = jax.jit(lambda x, w: dmlax.convolution_integer(x, w, implementation="native_cpu"))
    jax.block_until_ready(convolve(image, prepared))
    turn, end = threading.Barrier(2), threading.Event()

    def call():
        jax.block_until_ready(convolve(image, prepared))
        turn.wait()
        end.wait()  # a thread that ends frees what it keeps

    before = resident()
    threads = [threading.Thread(target=call) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
        turn.wait()
    grown = resident() - before
    end.set()
    for thread in threads:
        thread.join()
    assert grown < 24 * MEBIBYTE


@pytest.mark.skipif(not NATIVE, reason="the kernels are not built")
def test_a_large_block_leaves_a_thread_its_own():
    """Calls that pack 9 MiB and 288 KiB of filter in turn map no memory anew, 72 pages a pair."""
    layouts = "NHWC", "OIHW", "NHWC"
    convolve = jax.jit(partial(dmlax.convolution_integer, implementation="native_cpu"))
    operands = []
    for outputs, inputs in ((2048, 512), (128, 256)):
        filter = np.ones((outputs, inputs, 3, 3), np.int8)
        prepared = dmlax.prepare_filter(filter, dimension_numbers=layouts, packing="rows")
        operands.append(jax.device_put((np.ones((1, 4, 4, inputs), np.uint8), prepared)))

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(CALLS):
            for each in operands:
                jax.block_until_ready(convolve(*each))
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults()  # every thread has its blocks
    assert faults() < 20 * CALLS
