"""Value classes and structures of CONVOLUTION_INTEGER."""

from typing import Any

import numpy as np

from .._shared.convolution_structures import STRUCTURES, ConvolutionView
from .._shared.cross import Cross, impossible


def _above(bits: int, side: int) -> Any:
    return lambda view: side * view.expected > 2 ** (bits - 1)


def _is_lost_in_float32(view: ConvolutionView) -> Any:
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
IMPOSSIBLE = impossible(
    "there is no difference",
    ("intconv-input-difference-wraps", "no input zero point"),
    ("intconv-filter-difference-wraps", "no filter zero point"),
)
OF_ITS_OWN = ("intconv-only-*", "intconv-*-lost", "intconv-sums-saturate", "intconv-*-by-input")
CROSS: Cross[ConvolutionView] = Cross(ConvolutionView, CLASSES, STRUCTURES, IMPOSSIBLE, OF_ITS_OWN)
