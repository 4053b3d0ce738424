"""A plain call of QUANTIZED_LINEAR_MATRIX_MULTIPLY."""

import numpy as np

from .._shared.smoke import INNER_SIZES, MATRICES, MATRIX_SUMS, Smoke

SCALES = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")
INPUTS = {**MATRICES, **dict.fromkeys(SCALES, np.ones((1, 1), "float32"))}
SMOKE = Smoke(INPUTS, {"OutputTensor": np.array(MATRIX_SUMS, "uint8")}, *INNER_SIZES)
