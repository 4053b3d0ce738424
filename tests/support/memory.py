"""The memory of this process."""

import os
from pathlib import Path

PAGE = os.sysconf("SC_PAGESIZE")
MEMORY = os.sysconf("SC_PHYS_PAGES") * PAGE


def resident() -> int:
    """Bytes of memory of this process, on Linux."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * PAGE
