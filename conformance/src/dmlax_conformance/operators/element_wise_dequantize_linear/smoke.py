"""A plain call of ELEMENT_WISE_DEQUANTIZE_LINEAR."""

import numpy as np

from .._shared.smoke import Smoke

X, HALVES = np.array([1, -2, 3], "int8"), np.array([0.5, 0.5, 0.5], "float32")
SMOKE = Smoke(
    {"InputTensor": X, "ScaleTensor": HALVES},
    {"OutputTensor": np.array([0.5, -1, 1.5], "float32")},
    {"ScaleTensor": np.array([1, 1, 1], "int32")},
    ("data_type", "ScaleTensor"),
)
