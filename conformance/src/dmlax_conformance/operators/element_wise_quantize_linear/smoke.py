"""A plain call of ELEMENT_WISE_QUANTIZE_LINEAR."""

import numpy as np

from .._shared.smoke import Smoke

X, HALVES = np.array([1, 2.5, -3], "float32"), np.array([0.5, 0.5, 0.5], "float32")
SMOKE = Smoke(
    {"InputTensor": X, "ScaleTensor": HALVES},
    {"OutputTensor": np.array([2, 5, -6], "int8")},
    {"ScaleTensor": HALVES.astype("float16")},
    ("data_type", "ScaleTensor"),
)
