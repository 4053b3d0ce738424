"""A plain call of a quantized convolution with an addend."""

import numpy as np

from .._shared.smoke import IMAGES, SUMS, WINDOWS, Smoke

SCALES = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor", "SumScaleTensor")
INPUTS = {
    **IMAGES,
    **dict.fromkeys(SCALES, np.ones((1, 1, 1, 1), "float32")),
    "AddendTensor": np.array(SUMS, "uint8"),
    "AddendScaleTensor": np.full((1, 1, 1, 1), 2, "float32"),
}
SMOKE = Smoke(
    INPUTS,
    {"OutputTensor": np.array(SUMS, "uint8") * np.uint8(3)},
    {"AddendTensor": np.ones((1, 1, 2, 1), "uint8")},
    ("sizes", "AddendTensor"),
    {**WINDOWS, "AddendFirst": False},
)
