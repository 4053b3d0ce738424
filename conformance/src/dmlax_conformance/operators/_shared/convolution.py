"""Windows and sums of a convolution."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...format.tensors import Tensor
from .rounding import wrap_int32

Inputs = Mapping[str, Tensor]
Values = dict[tuple[int, ...], int]


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
    image = _centred(x, inputs.get("InputZeroPointTensor"))
    filters = _centred(w, inputs.get("FilterZeroPointTensor"))
    sizes = (x.sizes[0], w.sizes[0], *windows.output_sizes(x.sizes[2:], w.sizes[2:]))
    places = product(*map(range, sizes))
    return sizes, [wrap_int32(_sum(image, filters, place, w.sizes, windows)) for place in places]


def parameter(tensor: Tensor | None, channel: int) -> int:
    """Return the one value, or the channel's own; a missing tensor is 0."""
    if tensor is None:
        return 0
    return tensor.words[channel if len(tensor.words) > 1 else 0]


def _centred(tensor: Tensor, zero_point: Tensor | None) -> Values:
    """Subtract the zero point: one value, or one for each filter."""
    words = zip(product(*map(range, tensor.sizes)), tensor.words, strict=True)
    return {place: word - parameter(zero_point, place[0]) for place, word in words}


def _sum(
    image: Values,
    filters: Values,
    output: tuple[int, ...],
    filter_sizes: tuple[int, ...],
    windows: Windows,
) -> int:
    """Return one sum; a tap outside the image is padding, whose centred value is 0."""
    batch, channel, *place = output
    first = channel // (filter_sizes[0] // windows.groups) * filter_sizes[1]
    total = 0
    for tap in product(*map(range, filter_sizes[1:])):
        steps = zip(place, tap[1:], windows.strides, windows.dilations, windows.start, strict=True)
        where = (o * s + t * d - a for o, t, s, d, a in steps)
        total += image.get((batch, first + tap[0], *where), 0) * filters[(channel, *tap)]
    return total
