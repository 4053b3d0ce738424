"""The machine's peaks: int8 products of an instruction set and bytes copied, on all threads."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dmlax._cpu import library
from tools.benchmarks.report import Report

OPTIONS = ()
FLAGS = {  # the compiler's flags for the instruction sets in peaks.cc
    "avx2": ("-mavx2",),
    "avx_vnni": ("-mavx2", "-mavxvnni"),
    "avx512_vnni": ("-mavx512f", "-mavx512vnni"),
    "amx_int8": ("-mavx512f", "-mamx-tile", "-mamx-int8"),
}
_SOURCE = Path(__file__).with_suffix(".cc")
_ROUNDS = 20_000_000  # rounds of a few instructions take tenths of a second
_FEW_ROUNDS = 5_000_000  # starting the threads takes a hundredth of the time
_COPIED = 2**27  # bytes, beyond any cache
_READ = 2**31  # bytes, in rounds
_TURNS = 5


@dataclass(frozen=True)
class Peaks:
    """The best of a few turns; `instruction` names the instruction of the products."""

    instruction: str
    products_per_second: float
    bytes_per_second: float  # read and written

    def facts(self) -> dict[str, float | str]:
        """The peaks, for a report."""
        return {
            "instruction": self.instruction,
            "int8 Gop/s": 2e-9 * self.products_per_second,  # a product and a sum
            "copy GB/s": 1e-9 * self.bytes_per_second,
        }


def run() -> Iterator[Report]:
    """A table of one row."""
    yield Report("peaks", [measured().facts()])


def measured() -> Peaks:
    """Measure both peaks of this machine; needs a C++ compiler."""
    loop = _compiled()
    threads = len(os.sched_getaffinity(0))
    sources = [np.ones(_COPIED // threads, np.uint8) for _ in range(threads)]
    targets = [np.zeros_like(source) for source in sources]

    def copy(i: int) -> int:
        np.copyto(targets[i], sources[i])
        return 2 * sources[i].size

    return Peaks(
        loop.instruction().decode(),
        _rate(threads, lambda _: int(loop.multiply(_ROUNDS))),
        _rate(threads, copy),
    )


def product_rate() -> Callable[[], float]:
    """Return a function that measures products a second on all threads, in milliseconds."""
    loop, threads = _compiled(), len(os.sched_getaffinity(0))
    return lambda: _rate(threads, lambda _: int(loop.multiply(_FEW_ROUNDS)))


def read_rate(size: int) -> float:
    """Measure bytes a second of threads that read so many bytes again and again, each a part."""
    loop, threads = _compiled(), len(os.sched_getaffinity(0))
    parts = [np.ones(size // threads, np.uint8) for _ in range(threads)]
    rounds = max(1, _READ // size)
    return _rate(
        threads, lambda i: int(loop.read_memory(parts[i].ctypes.data, parts[i].size, rounds))
    )


def compiler() -> str | None:
    """Return the C++ compiler, or None if there is none."""
    return next(filter(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++")), None)


def build(flags: Sequence[str], folder: Path) -> Path:
    """Compile the loop of the instruction set that the flags allow; returns the library."""
    cxx, built = compiler(), folder / "peaks.so"
    if cxx is None:
        raise SystemExit("a C++ program measures the machine's peaks, and there is no compiler")
    command = [cxx, "-O2", *flags, "-shared", "-fPIC", str(_SOURCE), "-o", str(built)]
    subprocess.run(command, check=True)
    return built


def _compiled() -> ctypes.CDLL:
    """Load the loop of the kernels' instruction set, or of the machine's best without kernels."""
    flags = FLAGS.get(library.instruction_set(), ("-march=native",))
    with tempfile.TemporaryDirectory() as folder:
        loop = ctypes.CDLL(str(build(flags, Path(folder))))
    loop.multiply.restype, loop.multiply.argtypes = ctypes.c_int64, [ctypes.c_int64]
    loop.read_memory.restype = ctypes.c_int64
    loop.read_memory.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    loop.instruction.restype = ctypes.c_char_p
    return loop


def _rate(threads: int, work: Callable[[int], int]) -> float:
    """Run `work` on every thread at once: the most units a second of a few turns."""
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_TURNS):
            start = time.perf_counter()
            done = sum(pool.map(work, range(threads)))
            best = max(best, done / (time.perf_counter() - start))
    return best
