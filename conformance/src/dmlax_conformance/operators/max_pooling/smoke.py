"""A plain call of MAX_POOLING."""

import numpy as np

from .._shared.smoke import POOL, POOL_INPUTS, STRIDE_0, Smoke

SMOKE = Smoke(
    {"InputTensor": POOL_INPUTS["InputTensor"]},
    {"OutputTensor": np.array([[[[6]]]], "uint8")},
    *STRIDE_0,
    POOL,
)
