"""The instruction sets that the kernels are compiled for."""

import re
from pathlib import Path

ROWS = Path(__file__).parents[2] / "src" / "dmlax" / "_cpu" / "isas.def"
NAMES = re.findall(r"^DMLAX_ISA\((\w+), ", ROWS.read_text(encoding="utf-8"), re.MULTILINE)
assert NAMES[-1] == "portable"
