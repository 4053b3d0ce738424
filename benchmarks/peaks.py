"""The machine's peaks: int8 products of an instruction set and bytes copied, on all threads."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dmlax._cpu import library

FLAGS = {  # of the compiler, for each instruction set that has a loop in peaks.cc
    "avx2": ("-mavx2",),
    "avx_vnni": ("-mavx2", "-mavxvnni"),
    "avx512_vnni": ("-mavx512f", "-mavx512vnni"),
    "amx_int8": ("-mamx-tile", "-mamx-int8"),
}
_SOURCE = Path(__file__).with_suffix(".cc")
_ROUNDS = 20_000_000  # of a few instructions: tenths of a second
_FEW_ROUNDS = 5_000_000  # starting the threads takes a hundredth of the time
_COPIED = 2**27  # bytes, beyond any cache
_TURNS = 5


@dataclass(frozen=True)
class Peaks:
    """The best of a few turns; `instruction` says what multiplied."""

    instruction: str
    products_per_second: float
    bytes_per_second: float  # read and written

    def least_seconds(self, products: float, moved: float) -> tuple[float, str]:
        """Return the least time that some work takes, and which of the two peaks bounds it."""
        multiply, copy = products / self.products_per_second, moved / self.bytes_per_second
        return max((multiply, "products"), (copy, "bytes"))

    def facts(self) -> dict[str, float | str]:
        """For a table's foot and the JSON."""
        return {
            "instruction": self.instruction,
            "int8 Gop/s": 2e-9 * self.products_per_second,  # a product and a sum
            "copy GB/s": 1e-9 * self.bytes_per_second,
        }


def measured() -> Peaks:
    """Measure both peaks of this machine; needs a C++ compiler."""
    library = _compiled()
    threads = len(os.sched_getaffinity(0))
    source = [np.ones(_COPIED // threads, np.uint8) for _ in range(threads)]
    target = [np.zeros_like(each) for each in source]

    def copy(i: int) -> int:
        np.copyto(target[i], source[i])
        return 2 * source[i].size

    return Peaks(
        library.instruction().decode(),
        _rate(threads, lambda _: int(library.multiply(_ROUNDS))),
        _rate(threads, copy),
    )


def product_rate() -> Callable[[], float]:
    """Return what measures the products a second of all threads, in some milliseconds."""
    library, threads = _compiled(), len(os.sched_getaffinity(0))
    return lambda: _rate(threads, lambda _: int(library.multiply(_FEW_ROUNDS)))


def compiler() -> str | None:
    """Return the C++ compiler, or None where there is none."""
    return next(filter(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++")), None)


def build(flags: Sequence[str], folder: Path) -> Path:
    """Compile the loop of the instruction set that the flags allow; returns the library."""
    cxx, built = compiler(), folder / "peaks.so"
    if cxx is None:
        raise SystemExit("the machine's peaks are measured by a C++ program: no compiler is found")
    command = [cxx, "-O2", *flags, "-shared", "-fPIC", str(_SOURCE), "-o", str(built)]
    subprocess.run(command, check=True)
    return built


def _compiled() -> ctypes.CDLL:
    """Load the loop of the kernels' instruction set, or of the machine's best without kernels."""
    flags = FLAGS.get(library.instruction_set(), ("-march=native",))
    with tempfile.TemporaryDirectory() as folder:
        found = ctypes.CDLL(str(build(flags, Path(folder))))
    found.multiply.restype, found.multiply.argtypes = ctypes.c_int64, [ctypes.c_int64]
    found.instruction.restype = ctypes.c_char_p
    return found


def _rate(threads: int, work: Callable[[int], int]) -> float:
    """Most units a second of `work` on every thread at once."""
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_TURNS):
            start = time.perf_counter()
            done = sum(pool.map(work, range(threads)))
            best = max(best, done / (time.perf_counter() - start))
    return best
