"""What the two convolution operators share: attributes, parameters and output sizes."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ...format.tensors import Tensor
from ...format.vectors import Request
from ..topics import bits, ints
from .convolution import Windows
from .near_ties import float32

Attributes = Mapping[str, Any]
SIDES = {"int8": (-128, 127), "uint8": (0, 255)}


def attributes(
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    start: Sequence[int] = (0, 0),
    end: Sequence[int] = (0, 0),
    groups: int = 1,
) -> dict[str, Any]:
    """Return all attribute fields; the defaults are the plainest 2-D windows."""
    return {
        "Strides": list(strides),
        "Dilations": list(dilations),
        "StartPadding": list(start),
        "EndPadding": list(end),
        "GroupCount": groups,
    }


def output(x: Tensor, w: Tensor, given: Attributes, dtype: str) -> dict[str, Request]:
    """Ask for the output of these operands."""
    spatial = Windows.of(given).output_sizes(x.sizes[2:], w.sizes[2:])
    return {"OutputTensor": Request(dtype, (x.sizes[0], w.sizes[0], *spatial))}


def parameter(values: Sequence[int], dtype: str, rank: int = 4) -> Tensor:
    """Return {1,1,1,1} or {1,K,1,1} integers, or {K} when `rank` is 1."""
    return ints(dtype, _shape(len(values), rank), values)


def scales(values: Sequence[float | Fraction], rank: int = 4) -> Tensor:
    """Return float32 scales nearest to these numbers, in the shape of a parameter."""
    words = [float32(Fraction(value)) for value in values]
    return bits("float32", _shape(len(words), rank), words)


def scale_words(words: Sequence[int], rank: int = 4) -> Tensor:
    """Return float32 scales of these bits, in the shape of a parameter."""
    return bits("float32", _shape(len(words), rank), words)


def _shape(length: int, rank: int) -> tuple[int, ...]:
    return (length,) if rank == 1 else (1, length) + (1,) * (rank - 2)
