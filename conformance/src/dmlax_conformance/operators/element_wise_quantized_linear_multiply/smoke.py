"""A plain call of ELEMENT_WISE_QUANTIZED_LINEAR_MULTIPLY."""

import numpy as np

from .._shared.smoke import BINARY, Smoke

SMOKE = Smoke(
    BINARY,
    {"OutputTensor": np.array([1, 4, 16], "uint8")},
    {"BTensor": np.array([1, 2], "uint8")},
    ("sizes", "BTensor"),
)
