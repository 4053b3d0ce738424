"""A plain call of NONZERO_COORDINATES."""

import numpy as np

from ...format.vectors import Request
from .._shared.smoke import Smoke

SMOKE = Smoke(
    {"InputTensor": np.array([[0, 5], [7, 0]], "int32")},
    {
        "OutputCountTensor": np.array([[2]], "uint32"),
        "OutputCoordinatesTensor": np.array([[0, 1], [1, 0], [0, 0], [0, 0]], "uint32"),
    },
    {"OutputCoordinatesTensor": Request("uint32", (4, 3))},
    ("sizes", "OutputCoordinatesTensor"),
    rows=2,
)
