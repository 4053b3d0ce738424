"""For each operator a call that any implementation gets right, and one that it must refuse."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..format.vectors import Request
from .adapter import Array, Case

UNKNOWN = Case("smoke-unknown", "no_such_operator", frozenset(), {}, {}, {})


class Smoke(NamedTuple):
    """A call with its outputs, and a call that breaks a rule with the code and the field."""

    call: Case
    expected: Mapping[str, Array]
    rows: int | None
    broken: Case
    refusal: tuple[str, str]


def smokes() -> list[Smoke]:
    """Return one for each operator."""
    return [_nonzero(), _quantized(), _integer(), _quantize(), _dequantize()]


def _nonzero() -> Smoke:
    count = np.array([[2]], "uint32")
    rows = np.array([[0, 1], [1, 0], [0, 0], [0, 0]], "uint32")
    return _smoke(
        "nonzero_coordinates",
        {"InputTensor": np.array([[0, 5], [7, 0]], "int32")},
        {"OutputCountTensor": count, "OutputCoordinatesTensor": rows},
        {"OutputCoordinatesTensor": Request("uint32", (4, 3))},
        ("sizes", "OutputCoordinatesTensor"),
        rows=2,
    )


def _quantized() -> Smoke:
    scales = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
    one = np.ones((1, 1, 1, 1), "float32")
    return _smoke(
        "quantized_linear_convolution",
        {**_IMAGES, **dict.fromkeys(scales, one)},
        {"OutputTensor": np.array([[[[2, 4], [6, 8]]]], "uint8")},
        {"Strides": [0, 1]},
        ("option", "Strides"),
        attributes=_WINDOWS,
    )


def _integer() -> Smoke:
    return _smoke(
        "convolution_integer",
        _IMAGES,
        {"OutputTensor": np.array([[[[2, 4], [6, 8]]]], "int32")},
        {"Strides": [0, 1]},
        ("option", "Strides"),
        attributes=_WINDOWS,
    )


def _quantize() -> Smoke:
    return _smoke(
        "element_wise_quantize_linear",
        {
            "InputTensor": np.array([1, 2.5, -3], "float32"),
            "ScaleTensor": np.array([0.5, 0.5, 0.5], "float32"),
        },
        {"OutputTensor": np.array([2, 5, -6], "int8")},
        {"ScaleTensor": np.array([0.5, 0.5, 0.5], "float16")},
        ("data_type", "ScaleTensor"),
    )


def _dequantize() -> Smoke:
    return _smoke(
        "element_wise_dequantize_linear",
        {
            "InputTensor": np.array([1, -2, 3], "int8"),
            "ScaleTensor": np.array([0.5, 0.5, 0.5], "float32"),
        },
        {"OutputTensor": np.array([0.5, -1, 1.5], "float32")},
        {"ScaleTensor": np.array([1, 1, 1], "int32")},
        ("data_type", "ScaleTensor"),
    )


_IMAGES = {
    "InputTensor": np.array([[[[1, 2], [3, 4]]]], "uint8"),
    "FilterTensor": np.array([[[[2]]]], "uint8"),
}
_WINDOWS = {
    "Strides": [1, 1],
    "Dilations": [1, 1],
    "StartPadding": [0, 0],
    "EndPadding": [0, 0],
    "GroupCount": 1,
}


def _smoke(
    operator: str,
    inputs: Mapping[str, Array],
    expected: Mapping[str, Array],
    change: Mapping[str, Any],
    refusal: tuple[str, str],
    attributes: Mapping[str, Any] | None = None,
    rows: int | None = None,
) -> Smoke:
    """Put both calls together; `change` says which tensor, output or attribute is broken."""
    asked = {name: Request(array.dtype.name, array.shape) for name, array in expected.items()}
    parts = ({**(attributes or {})}, dict(inputs), asked)
    call = _case(f"smoke-{operator}", operator, *parts)
    changed = [{**part, **{k: v for k, v in change.items() if k in part}} for part in parts]
    broken = _case(f"smoke-{operator}-broken", operator, *changed)
    return Smoke(call, expected, rows, broken, refusal)


def _case(name: str, operator: str, attributes: Any, inputs: Any, outputs: Any) -> Case:
    return Case(name, operator, frozenset(), attributes, inputs, outputs)
