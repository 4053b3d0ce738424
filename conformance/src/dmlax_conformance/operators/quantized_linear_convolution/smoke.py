"""A plain call of QUANTIZED_LINEAR_CONVOLUTION."""

import numpy as np

from .._shared.smoke import IMAGES, STRIDE_0, SUMS, WINDOWS, Smoke

SCALES = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
INPUTS = {**IMAGES, **dict.fromkeys(SCALES, np.ones((1, 1, 1, 1), "float32"))}
SMOKE = Smoke(INPUTS, {"OutputTensor": np.array(SUMS, "uint8")}, *STRIDE_0, WINDOWS)
