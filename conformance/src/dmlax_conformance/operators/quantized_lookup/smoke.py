"""A plain call of QUANTIZED_LOOKUP."""

import numpy as np

from .._shared.smoke import Smoke

SMOKE = Smoke(
    {
        "InputTensor": np.array([-128, 0, 5], "int8"),
        "TableTensor": np.arange(255, -1, -1).astype("uint8"),
    },
    {"OutputTensor": np.array([255, 127, 122], "uint8")},
    {"TableTensor": np.zeros(255, "uint8")},
    ("sizes", "TableTensor"),
)
