"""A plain call of QUANTIZED_LINEAR_AVERAGE_POOLING."""

import numpy as np

from .._shared.smoke import POOL, POOL_INPUTS, STRIDE_0, Smoke

SMOKE = Smoke(
    POOL_INPUTS,
    {"OutputTensor": np.array([[[[6]]]], "uint8")},
    *STRIDE_0,
    {**POOL, "IncludePadding": False},
)
