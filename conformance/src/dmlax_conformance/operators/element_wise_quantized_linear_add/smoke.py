"""A plain call of ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

import numpy as np

from .._shared.smoke import BINARY, Smoke

SMOKE = Smoke(
    BINARY,
    {"OutputTensor": np.array([2, 4, 8], "uint8")},
    {"BTensor": np.array([1, 2], "uint8")},
    ("sizes", "BTensor"),
)
