"""The instruction sets of this machine's kind of processor that the kernels are compiled for."""

import functools
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from dmlax._cpu import library

_FILE = Path(__file__).parents[2] / "src" / "dmlax" / "_cpu" / "isas.def"
_ROW = re.compile(r"^DMLAX_ISA\((\w+), \w+, (\w+), ", re.MULTILINE)
NAMES = [
    name
    for name, processor in _ROW.findall(_FILE.read_text(encoding="utf-8"))
    if processor in (platform.machine(), "any")
]
assert NAMES[-1] == "portable"


def run_on(name: str, code: str) -> str:
    """Runs Python code in a process whose kernels use one instruction set; gives its output."""
    environment = os.environ | {"DMLAX_NATIVE_ISA": name, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[1], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@functools.cache
def is_here(name: str) -> bool:
    """False if the machine lacks an instruction set; the library says so."""
    if name in library.instruction_sets():
        return True
    why = run_on(name, "from dmlax._cpu import library; print(library.why_not('cpu'))")
    assert why.startswith("DMLAX_NATIVE_ISA names none of what this machine has: ")
    assert name not in why
    return False
