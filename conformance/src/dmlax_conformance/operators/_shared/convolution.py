"""Windows and sums of a convolution."""

from collections.abc import Iterator, Mapping
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
        return cls(
            strides=tuple(attributes["Strides"]),
            dilations=tuple(attributes["Dilations"]),
            start=tuple(attributes["StartPadding"]),
            end=tuple(attributes["EndPadding"]),
            groups=attributes["GroupCount"],
        )

    def output_sizes(self, image: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
        """Return the spatial output sizes; one that is not positive means that nothing fits."""
        rows = zip(image, kernel, self.strides, self.dilations, self.start, self.end, strict=True)
        return tuple((n + a + b - ((k - 1) * d + 1)) // s + 1 for n, k, s, d, a, b in rows)


def accumulators(inputs: Inputs, windows: Windows) -> tuple[tuple[int, ...], list[int]]:
    """Return the sizes and the wrapped int32 sums of products, row-major."""
    x, w = inputs["InputTensor"], inputs["FilterTensor"]
    image = _centred_image(x, inputs.get("InputZeroPointTensor"))
    filters = _centred_filters(w, inputs.get("FilterZeroPointTensor"))
    sizes = (x.sizes[0], w.sizes[0], *windows.output_sizes(x.sizes[2:], w.sizes[2:]))
    places = product(*map(range, sizes))
    return sizes, [wrap_int32(_sum(image, filters, place, w.sizes, windows)) for place in places]


def parameter(tensor: Tensor | None, channel: int) -> int:
    """Return the one value, or the channel's own; a missing tensor is 0."""
    if tensor is None:
        return 0
    return tensor.words[channel if len(tensor.words) > 1 else 0]


def _centred_image(x: Tensor, zero_point: Tensor | None) -> Values:
    zero = parameter(zero_point, 0)
    values = (word - zero for word in x.words)
    return dict(zip(product(*map(range, x.sizes)), values, strict=True))


def _centred_filters(w: Tensor, zero_point: Tensor | None) -> Values:
    places = list(product(*map(range, w.sizes)))
    words = zip(places, w.words, strict=True)
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
        where = tuple(_positions(place, tap[1:], windows))
        total += image.get((batch, first + tap[0], *where), 0) * filters[(channel, *tap)]
    return total


def _positions(place: list[int], tap: tuple[int, ...], windows: Windows) -> Iterator[int]:
    rows = zip(place, tap, windows.strides, windows.dilations, windows.start, strict=True)
    return (o * s + t * d - a for o, t, s, d, a in rows)
