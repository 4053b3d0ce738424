"""What the C library's allocator does with the memory of freed results."""

import ctypes
import os
from collections.abc import Mapping

# The environment's variable: freed memory is kept unless it is 0.
VARIABLE = "DMLAX_KEEP_FREED_MEMORY"
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_KEPT = {  # bytes
    _MMAP_THRESHOLD: 1 << 25,  # the largest that glibc takes
    _TRIM_THRESHOLD: 1 << 26,
    _TOP_PAD: 1 << 26,  # a whole heap of a thread
}
_LIMITS = "mmap_threshold", "trim_threshold", "top_pad"  # glibc's names of the tunables


def keep_freed_memory() -> bool:
    """Has glibc keep the memory of freed results for the next results, in the whole process.

    By default glibc returns large freed blocks to the system, so a result of some MiB often costs
    a page fault for every 4 KiB. The setting saves these faults, and the process keeps more
    memory: up to 64 MiB in the heap of each thread, of all blocks below 32 MiB, also of NumPy's
    and other libraries'. Nothing turns it off again. `DMLAX_KEEP_FREED_MEMORY=1` in the environment
    turns it on when the kernels load.

    Returns:
      True if glibc took the setting. False with another allocator, or if environment variables set
      glibc's limits, which stay as they are.

    Example:
      >>> import dmlax
      >>> is_kept = dmlax.keep_freed_memory()
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or _sets_limits(os.environ):
        return False
    accepted = [mallopt(limit, size) == 1 for limit, size in _KEPT.items()]
    return all(accepted)


def keep_if_asked() -> None:
    """Keeps freed memory if the environment asks for it."""
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        keep_freed_memory()


def _sets_limits(environment: Mapping[str, str]) -> bool:
    """True if environment variables set one of glibc's limits."""
    tunables = environment.get("GLIBC_TUNABLES", "")
    return any(
        f"MALLOC_{limit.upper()}_" in environment or f"glibc.malloc.{limit}=" in tunables
        for limit in _LIMITS
    )
