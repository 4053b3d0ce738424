"""Windows and sums of a convolution."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from operator import mul
from typing import Any, TypeVar

from ...format.layout import packed_strides
from ...format.tensors import Tensor
from .rounding import wrap_int32

Inputs = Mapping[str, Tensor]
Sizes = tuple[int, ...]
T = TypeVar("T")
PADDING = -1  # the place of its value in an image


@dataclass(frozen=True)
class Windows:
    """The attributes of a convolution."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]
    groups: int

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> "Windows":
        """Read the DirectML fields."""
        fields = ("Strides", "Dilations", "StartPadding", "EndPadding")
        strides, dilations, start, end = (tuple(attributes[field]) for field in fields)
        return cls(strides, dilations, start, end, attributes["GroupCount"])

    def output_sizes(self, image: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
        """Return the spatial output sizes; one that is not positive means that nothing fits."""
        rows = zip(image, kernel, self.strides, self.dilations, self.start, self.end, strict=True)
        return tuple((n + a + b - ((k - 1) * d + 1)) // s + 1 for n, k, s, d, a, b in rows)


def accumulators(inputs: Inputs, windows: Windows) -> tuple[tuple[int, ...], list[int]]:
    """Return the sizes and the wrapped int32 sums of products, row-major."""
    x, w = inputs["InputTensor"], inputs["FilterTensor"]
    images = _split(_centred(x, inputs.get("InputZeroPointTensor")), x.sizes[0] * windows.groups)
    filters = _split(_centred(w, inputs.get("FilterZeroPointTensor")), w.sizes[0])
    groups = _split(filters, windows.groups)
    sizes = (x.sizes[0], w.sizes[0], *windows.output_sizes(x.sizes[2:], w.sizes[2:]))
    places = _places(x.sizes, w.sizes, windows)
    sums: list[int] = []
    for number, image in enumerate(images):
        padded = [*image, 0]  # at PADDING, whose centred value this is
        columns = [[padded[place] for place in taps] for taps in places]
        for own in groups[number % windows.groups]:
            sums += (wrap_int32(sum(map(mul, column, own))) for column in columns)
    return sizes, sums


def parameter(tensor: Tensor | None, channel: int) -> int:
    """Return the one value, or the channel's own; a missing tensor is 0."""
    if tensor is None:
        return 0
    return tensor.words[channel if len(tensor.words) > 1 else 0]


def _centred(tensor: Tensor, zero_point: Tensor | None) -> list[int]:
    """Subtract the zero point: one value, or one for each filter."""
    length = prod(tensor.sizes[1:])
    return [word - parameter(zero_point, at // length) for at, word in enumerate(tensor.words)]


def _split(values: list[T], parts: int) -> list[list[T]]:
    length = len(values) // max(parts, 1)  # a call without images has no parts
    return [values[at * length : (at + 1) * length] for at in range(parts)]


def _places(image: Sizes, filters: Sizes, windows: Windows) -> list[list[int]]:
    """Return, for each pixel of the output, where the channels of a group have a filter's taps."""
    area = prod(image[2:])
    channels = range(0, filters[1] * area, area)
    axes = _axes(image, filters, windows)
    pixels = ([*map(sum, product(*taps))] for taps in product(*axes))
    return [
        [channel + place if place >= 0 else PADDING for channel in channels for place in places]
        for places in pixels
    ]


def _axes(image: Sizes, filters: Sizes, windows: Windows) -> list[list[list[int]]]:
    """Return, for each axis and output, the taps; one outside makes the sum of axes negative."""
    lengths, outside = windows.output_sizes(image[2:], filters[2:]), -prod(image[2:])
    rows = zip(
        *(image[2:], filters[2:], lengths, packed_strides(image)[2:]),
        *(windows.strides, windows.dilations, windows.start),
        strict=True,
    )
    return [
        [
            [at * step if 0 <= at < size else outside for at in range(first, first + k * d, d)]
            for first in range(-start, length * stride - start, stride)
        ]
        for size, k, length, step, stride, d, start in rows
    ]
