"""A plain call of quantized global average pooling."""

import numpy as np

from .._shared.smoke import POOL_INPUTS, Smoke

SMOKE = Smoke(
    POOL_INPUTS,
    {"OutputTensor": np.array([[[[6]]]], "uint8")},
    {"InputTensor": np.zeros((2, 2), "uint8")},
    ("dimension_count", "InputTensor"),
)
