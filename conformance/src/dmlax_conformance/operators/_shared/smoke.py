"""A call of an operator that any implementation gets right, and one that it must refuse."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


class Smoke(NamedTuple):
    """A plain call with its outputs, and a change that breaks a rule with a code and a field.

    Of the coordinates only the first `rows` are defined.
    """

    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    change: Mapping[str, Any]  # tensors, outputs or attributes
    refusal: tuple[str, str]
    attributes: Mapping[str, Any] = {}
    rows: int | None = None


IMAGES: Mapping[str, Array] = {
    "InputTensor": np.array([[[[1, 2], [3, 4]]]], "uint8"),
    "FilterTensor": np.array([[[[2]]]], "uint8"),
}
BINARY: Mapping[str, Array] = {  # 1, 2 and 4 twice
    "ATensor": np.array([4, 8, 16], "uint8"),
    "AScaleTensor": np.array([0.25], "float32"),
    "BTensor": np.array([2, 4, 8], "uint8"),
    "BScaleTensor": np.array([0.5], "float32"),
    "OutputScaleTensor": np.array([1], "float32"),
}
SUMS = [[[[2, 4], [6, 8]]]]
WINDOWS = {
    "Strides": [1, 1],
    "Dilations": [1, 1],
    "StartPadding": [0, 0],
    "EndPadding": [0, 0],
    "GroupCount": 1,
}
STRIDE_0: tuple[Mapping[str, Any], tuple[str, str]] = ({"Strides": [0, 1]}, ("option", "Strides"))
POOL = {
    "WindowSize": [2, 2],
    **{name: [1, 1] for name in ("Strides", "Dilations")},
    **{name: [0, 0] for name in ("StartPadding", "EndPadding")},
}
POOL_INPUTS: Mapping[str, Array] = {
    "InputTensor": np.array([[[[1, 2], [3, 6]]]], "uint8"),
    "InputScaleTensor": np.full((1, 1, 1, 1), 2, "float32"),
    "OutputScaleTensor": np.ones((1, 1, 1, 1), "float32"),
}
MATRICES: Mapping[str, Array] = {
    "ATensor": np.array([[1, 2], [3, 4]], "uint8"),
    "BTensor": np.array([[2, 0], [0, 3]], "uint8"),
}
MATRIX_SUMS = [[2, 6], [6, 12]]
INNER_SIZES: tuple[Mapping[str, Any], tuple[str, str]] = (
    {"BTensor": np.zeros((3, 2), "uint8")},
    ("sizes", "BTensor"),
)
