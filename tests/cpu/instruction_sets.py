"""The instruction sets of this machine's processor that the kernels are compiled for."""

import platform
import re
from pathlib import Path

_FILE = Path(__file__).parents[2] / "src" / "dmlax" / "_cpu" / "isas.def"
_ROW = re.compile(r"^DMLAX_ISA\((\w+), \w+, (\w+), ", re.MULTILINE)
NAMES = [
    name
    for name, processor in _ROW.findall(_FILE.read_text(encoding="utf-8"))
    if processor in (platform.machine(), "any")
]
assert NAMES[-1] == "portable"
