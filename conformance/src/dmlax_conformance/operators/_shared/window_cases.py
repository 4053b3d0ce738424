"""Vectors of the two convolutions: attributes, parameters and output sizes."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from ...format.vectors import Request
from ..topics import Topic, bits, drawn, ints
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


def image(dtype: str = "uint8", sizes: Sequence[int] = (1, 2, 4, 5), seed: int = 1) -> Tensor:
    """Return drawn elements over the full range."""
    return drawn(dtype, sizes, seed, *SIDES[dtype])


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


WINDOWS: dict[str, tuple[str, dict[str, Any], tuple[int, int]]] = {
    "stride-2": ("both strides 2, the last column is left over", {"strides": (2, 2)}, (2, 2)),
    "stride-1-3": ("strides differ", {"strides": (1, 3)}, (1, 2)),
    "stride-beyond-kernel": ("stride larger than the kernel", {"strides": (3, 3)}, (1, 1)),
    "dilation-2": ("both dilations 2", {"dilations": (2, 2)}, (2, 2)),
    "dilation-1-3": ("dilations differ", {"dilations": (1, 3)}, (2, 2)),
    "padding-all": ("one cell on every side", {"start": (1, 1), "end": (1, 1)}, (3, 3)),
    "padding-start": ("start padding only", {"start": (2, 1)}, (2, 2)),
    "padding-end": ("end padding only", {"end": (1, 2)}, (2, 2)),
    "padding-four": ("four different paddings", {"start": (0, 3), "end": (2, 1)}, (3, 2)),
    "padding-only": ("windows wholly in padding", {"start": (3, 3), "end": (3, 3)}, (2, 2)),
    "kernel-covers": (
        "kernel larger than the bare input",
        {"start": (1, 1), "end": (1, 0)},
        (6, 5),
    ),
    "mixture": (
        "stride, dilation and padding together, all different",
        {"strides": (2, 1), "dilations": (1, 2), "start": (1, 0), "end": (2, 3)},
        (3, 2),
    ),
}


OPTIONS: dict[str, tuple[str, Any]] = {
    "stride-0": ("Strides", [0, 1]),
    "stride-minus-1": ("Strides", [1, -1]),
    "strides-too-few": ("Strides", [1]),
    "strides-too-many": ("Strides", [1, 1, 1]),
    "dilation-0": ("Dilations", [1, 0]),
    "dilations-too-many": ("Dilations", [1, 1, 1]),
    "start-padding-negative": ("StartPadding", [-1, 0]),
    "start-padding-too-few": ("StartPadding", [0]),
    "end-padding-negative": ("EndPadding", [0, -1]),
    "end-padding-too-many": ("EndPadding", [0, 0, 0]),
    "groups-0": ("GroupCount", 0),
    "groups-minus-1": ("GroupCount", -1),
}
SURVIVOR_OPTIONS: dict[str, tuple[str, list[int]]] = {
    "second-stride-0": ("Strides", [1, 0]),
    "first-stride-minus-1": ("Strides", [-1, 1]),
    "first-dilation-0": ("Dilations", [0, 1]),
    "second-dilation-minus-1": ("Dilations", [1, -1]),
    "dilations-too-few": ("Dilations", [1]),
    "second-start-padding-negative": ("StartPadding", [0, -1]),
    "start-padding-too-many": ("StartPadding", [0, 0, 0]),
    "first-end-padding-negative": ("EndPadding", [-1, 0]),
    "end-padding-too-few": ("EndPadding", [0]),
}


def long_operands(input_type: str, filter_type: str) -> tuple[Tensor, Tensor]:
    """Return 4,099 input channels, an odd number past a power of two, and two filters."""
    x = from_recipe(input_type, (1, 4099, 1, 1), Recipe(31, *SIDES[input_type]))
    w = from_recipe(filter_type, (2, 4099, 1, 1), Recipe(32, *SIDES[filter_type]))
    return x, w


def add_options(
    topic: Topic, base: str, clause: str, options: Mapping[str, tuple[str, Any]]
) -> None:
    """Add one call for each attribute that is out of range."""
    for name, (field, value) in options.items():
        text, error = f"{field} is {value}", ("option", field)
        topic.invalid(name, text, clause, base, error, attributes={field: value})
