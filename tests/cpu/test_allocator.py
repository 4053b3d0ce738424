"""The process's allocator is as it was without dmlax, unless freed memory is to be kept."""

import os
import platform
import subprocess
import sys

import pytest

import dmlax
from dmlax._cpu import allocator

pytestmark = [
    pytest.mark.oldest,
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator"),
]
KEEP = {"DMLAX_KEEP_FREED_MEMORY": "1"}
ALLOCATOR = """
import ctypes, resource, threading
from pathlib import Path

allocator = ctypes.CDLL(None)
allocator.malloc.argtypes, allocator.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
allocator.free.argtypes = [ctypes.c_void_p]
"""
FAULTS_OF_A_BLOCK = """
from dmlax._cpu import library

library.instruction_set()

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = allocator.malloc(16 << 20)
    ctypes.memset(block, 1, 16 << 20)
    allocator.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def run():
    for _ in range(3):
        allocator.malloc(20 << 20)  # the thread's first heap of 64 MiB is full
    faults()
    print(max(faults() for _ in range(5)))

thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
LIMITS_OF_THE_HOST = """
allocator.mallopt(-1, 1 << 17)  # M_TRIM_THRESHOLD: else it follows what JAX frees
allocator.mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD: blocks come from heaps
import jax
import jax.numpy as jnp
jax.block_until_ready(jnp.zeros(3) + 1)
"""
CALLS = """
import dmlax
dmlax.explain(dmlax.nonzero_coordinates, jnp.zeros(3))
jax.block_until_ready(dmlax.nonzero_coordinates(jnp.zeros(1 << 20)))
"""
MEMORY_OF_THREADS = """
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20

def run():
    blocks = [allocator.malloc(1 << 20) for _ in range(48)]
    for block in blocks:
        ctypes.memset(block, 1, 1 << 20)
    for block in blocks:
        allocator.free(block)
    freed.wait()
    end.wait()

freed, end, before = threading.Barrier(17), threading.Event(), resident()
for _ in range(16):
    threading.Thread(target=run).start()
freed.wait()
print(resident() - before)
end.set()
"""


def output(*scripts, environment=None):
    command = [sys.executable, "-c", "".join((ALLOCATOR, *scripts))]
    variables = {name: value for name, value in os.environ.items() if name not in KEEP}
    done = subprocess.run(
        command, env=variables | (environment or {}), capture_output=True, check=True, text=True
    )
    return int(done.stdout)


@pytest.mark.parametrize(
    ("environment", "keeps"),
    [
        ({}, False),
        ({"DMLAX_KEEP_FREED_MEMORY": "0"}, False),
        (KEEP, True),
        (KEEP | {"MALLOC_TOP_PAD_": "131072"}, False),
    ],
    ids=str,
)
def test_a_threads_blocks_keep_their_pages_if_the_environment_says_so(environment, keeps):
    """A block of 16 MiB has 4,096 pages."""
    faults = output(FAULTS_OF_A_BLOCK, environment=environment)
    assert faults < 100 if keeps else faults > 4000


@pytest.mark.parametrize(
    ("scripts", "keeps"),
    [
        ((), False),  # JAX alone
        ((CALLS,), False),
        ((CALLS, "assert dmlax.keep_freed_memory()\n"), True),
    ],
    ids=["JAX", "calls", "keep_freed_memory"],
)
def test_what_threads_free_stays_with_the_process_only_if_asked_for(scripts, keeps):
    """16 threads free 48 MiB each."""
    gained = output(LIMITS_OF_THE_HOST, *scripts, MEMORY_OF_THREADS)
    assert gained > 600 if keeps else gained < 400


def test_limits_of_the_environment_stay(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0:glibc.malloc.trim_threshold=131072")
    assert not dmlax.keep_freed_memory()


def test_another_allocator_is_left_alone(monkeypatch):
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda path: object())
    assert not dmlax.keep_freed_memory()
