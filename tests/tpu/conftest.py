"""The layers and the compiler's driver are those of the benchmarks, which lie beside the tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
