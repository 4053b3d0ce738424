"""The native CPU kernels' library: loaded once, if it was built and this machine can run it."""

import ctypes
import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path

import jax
import jaxlib.version

import dmlax
from dmlax._core import compat

# A handler that reads its operands, its attributes or prepared weights in another way gets the next
# version, so that an export of the former one does not run.
TARGETS = (
    "dmlax_nonzero_coordinates_v1",
    "dmlax_convolution_v1",
    "dmlax_matrix_multiply_v1",
    "dmlax_requantize_sums_v1",
    "dmlax_scale_sums_v1",
    "dmlax_quantize_linear_v1",
    "dmlax_dequantize_linear_v1",
    "dmlax_quantized_add_v1",
    "dmlax_quantized_multiply_v1",
    "dmlax_lookup_v1",
    "dmlax_max_pooling_v1",
    "dmlax_average_pooling_v1",
    "dmlax_dynamic_quantize_v1",
    "dmlax_normalize_rows_v1",
    "dmlax_softmax_rows_v1",
    "dmlax_average_bytes_v1",
    "dmlax_quantized_softmax_v1",
    "dmlax_block_product_v1",
)
_KEPT = (1 << 25) - (1 << 13)  # bytes: nearly the largest block by which glibc adapts
_TOP_PAD, _THREADS_HEAP = -2, 1 << 26  # malloc.h; the bytes of a heap of glibc's threads
_LIMITS = "top_pad", "trim_threshold", "mmap_threshold"  # of glibc, as its tunables name them
_LIBRARY = "_native.so"
_ABSENT = "_native_absent.txt"  # the build's reason
_OVERRIDE = "DMLAX_NATIVE_ISA"


class _AbsentError(Exception):
    """The reason why there is no library, in a sentence."""


def why_not(platform: str) -> str | None:
    """Return why the native kernels cannot run on a platform, or None."""
    if platform != "cpu":
        return "it runs on cpu only"
    return _loaded()[1]


def why_not_for(plan: object, platform: str) -> str | None:
    """Return the same of an operator whose kernels take every plan."""
    return why_not(platform)


def instruction_set() -> str:
    """The name of the instruction set in use, "" where the library is absent."""
    return _loaded()[0]


@functools.cache
def reads_panels() -> bool:
    """True where programs run on the CPU and its kernels multiply prepared panels as they are."""
    if jax.default_backend() != "cpu" or why_not("cpu"):
        return False
    return bool(ctypes.CDLL(str(_find())).dmlax_reads_panels())


def instruction_sets() -> tuple[str, ...]:
    """The names of all that this machine has, of which the library uses one."""
    if why_not("cpu"):
        return ()
    return tuple(_text(ctypes.CDLL(str(_find())).dmlax_isas).split(", "))


@functools.cache
def _loaded() -> tuple[str, str | None]:
    """The instruction set, and why there is none."""
    try:
        chosen = _load()
    except _AbsentError as absent:
        return "", str(absent)
    _keep_freed_pages()
    return chosen, None


def _load() -> str:
    """Registers every kernel with XLA."""
    try:
        library = ctypes.CDLL(str(_find()))
        targets = {name: getattr(library, name.rpartition("_v")[0]) for name in TARGETS}
    except (OSError, AttributeError) as error:
        raise _AbsentError(f"the native library does not load: {error}") from error
    built_with = _text(library.dmlax_jaxlib_version)
    if _version(jaxlib.version.__version__) < _version(built_with):  # XLA would refuse to start
        raise _AbsentError(
            f"the native library was built with jaxlib {built_with}, newer than the installed "
            f"{jaxlib.version.__version__}"
        )
    chosen = _text(library.dmlax_isa)
    if not chosen:
        known = _text(library.dmlax_isas)
        raise _AbsentError(f"{_OVERRIDE} names none of what this machine has: {known}")
    for name, function in targets.items():
        compat.register_kernel(name, function)
    return chosen


def _keep_freed_pages() -> None:
    """Has glibc keep the pages of freed results for the next ones.

    glibc raises its limits when a process frees a large block. Freeing one block of almost 32 MiB,
    which nobody touches, raises them as far as they go: smaller blocks come from the heap, and
    glibc returns the end of the heap to the system once it has 64 MiB of free memory.

    XLA's threads allocate from heaps of 64 MiB, and glibc unmaps a free one. If every heap is
    padded to 64 MiB, glibc keeps it. The padding has addresses, but no memory until it is used.

    Limits that the environment sets stay as they are, and other allocators ignore both calls.
    """
    if _sets_limits(os.environ):
        return
    allocator = ctypes.CDLL(None)
    allocator.malloc.argtypes, allocator.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    allocator.free.argtypes, allocator.free.restype = [ctypes.c_void_p], None
    allocator.free(allocator.malloc(_KEPT))
    if hasattr(allocator, "mallopt"):  # glibc has it
        allocator.mallopt(_TOP_PAD, _THREADS_HEAP)


def _sets_limits(environment: Mapping[str, str]) -> bool:
    """True if environment variables set one of glibc's limits."""
    tunables = environment.get("GLIBC_TUNABLES", "")
    return any(
        f"MALLOC_{limit.upper()}_" in environment or f"glibc.malloc.{limit}=" in tunables
        for limit in _LIMITS
    )


def _text(function: "ctypes._NamedFuncPointer") -> str:
    function.restype = ctypes.c_char_p
    return str(function().decode())


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", text)[:3])


def _find() -> Path:
    """The library, beside this package or where an editable install puts it."""
    for folder in map(Path, dmlax.__path__):
        if (folder / _LIBRARY).exists():
            return folder / _LIBRARY
        if (folder / _ABSENT).exists():
            raise _AbsentError((folder / _ABSENT).read_text(encoding="utf-8").strip())
    raise _AbsentError("the native library was not built: dmlax runs from its source")
