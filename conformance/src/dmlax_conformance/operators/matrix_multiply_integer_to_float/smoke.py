"""A plain call of MATRIX_MULTIPLY_INTEGER_TO_FLOAT."""

import numpy as np

from .._shared.smoke import INNER_SIZES, MATRICES, MATRIX_SUMS, Smoke

SCALES = ("AScaleTensor", "BScaleTensor")
INPUTS = {**MATRICES, **dict.fromkeys(SCALES, np.ones((1, 1), "float32"))}
SMOKE = Smoke(INPUTS, {"OutputTensor": np.array(MATRIX_SUMS, "float32")}, *INNER_SIZES)
