"""Value classes of integer sums."""

from typing import Any

import numpy as np


def _above(bits: int, side: int) -> Any:
    return lambda view: side * view.expected > 2 ** (bits - 1)


def _is_lost_in_float32(view: Any) -> Any:
    return view.expected.astype(np.float32).astype(np.int64) != view.expected


CLASSES: dict[str, Any] = {
    "zero": lambda view: view.expected == 0,
    "above 16 bits": _above(16, 1),
    "below 16 bits": _above(16, -1),
    "above 24 bits": _above(25, 1),
    "below 24 bits": _above(25, -1),
    "lost in float32": _is_lost_in_float32,
    "within 16 bits": lambda view: (abs(view.expected) < 2**15) & (view.expected != 0),
}
