"""A plain call of DYNAMIC_QUANTIZE_LINEAR."""

import numpy as np

from .._shared.smoke import Smoke

SMOKE = Smoke(
    {"InputTensor": np.array([0, -100, 410], "float32")},
    {
        "OutputTensor": np.array([50, 0, 255], "uint8"),
        "OutputScaleTensor": np.array([2], "float32"),
        "OutputZeroPointTensor": np.array([50], "uint8"),
    },
    {"InputTensor": np.array([0, -100, 410], "int32")},
    ("data_type", "InputTensor"),
)
