"""A plain call of MATRIX_MULTIPLY_INTEGER."""

import numpy as np

from .._shared.smoke import INNER_SIZES, MATRICES, MATRIX_SUMS, Smoke

SMOKE = Smoke(MATRICES, {"OutputTensor": np.array(MATRIX_SUMS, "int32")}, *INNER_SIZES)
