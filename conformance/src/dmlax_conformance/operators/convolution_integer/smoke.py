"""A plain call of CONVOLUTION_INTEGER."""

import numpy as np

from .._shared.smoke import IMAGES, STRIDE_0, SUMS, WINDOWS, Smoke

SMOKE = Smoke(IMAGES, {"OutputTensor": np.array(SUMS, "int32")}, *STRIDE_0, WINDOWS)
