"""Windows of a pool, and their averages."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod
from typing import Any

from ...format.layout import packed_strides
from ...format.tensors import Tensor
from . import floats
from .call_rules import Attributes, Inputs
from .convolution import Windows, parameter
from .rounding import quantize

Sizes = tuple[int, ...]


def windows_of(attributes: Attributes) -> Windows:
    """Return strides, dilations and padding; a pool has a group for each channel."""
    return Windows.of({**attributes, "GroupCount": 1})


def output_sizes(image: Sizes, attributes: Attributes) -> Sizes:
    """Return the sizes of the output; the window is as wide as its dilation makes it."""
    spatial = windows_of(attributes).output_sizes(image[2:], tuple(attributes["WindowSize"]))
    return (*image[:2], *spatial)


def whole(image: Sizes) -> dict[str, Any]:
    """Return the attributes of the one window that is the image."""
    ones, zeros = [1] * len(image[2:]), [0] * len(image[2:])
    fields = {"WindowSize": [*image[2:]], "Strides": ones, "Dilations": ones}
    return {**fields, "StartPadding": zeros, "EndPadding": zeros, "IncludePadding": False}


def elements(image: Sizes, attributes: Attributes) -> Iterator[tuple[int, list[int]]]:
    """Yield, for each output, its channel and the places of the elements in its window.

    Places count from the start of the input, in its order; padding has none.
    """
    rows = zip(image, packed_strides(image), output_sizes(image, attributes), strict=True)
    (batch, *_), (channels, step, _), *spatial = rows
    axes = [
        _along(axis, size, packed, length, attributes)
        for axis, (size, packed, length) in enumerate(spatial)
    ]
    for image_number, channel in product(range(batch), range(channels)):
        first = (image_number * channels + channel) * step
        for under in product(*axes):
            yield channel, [first + sum(places) for places in product(*under)]


def _along(axis: int, size: int, packed: int, length: int, attributes: Attributes) -> Any:
    """Return the places on one axis of what lies inside, for each output."""
    names = ("WindowSize", "Strides", "Dilations", "StartPadding")
    window, stride, dilation, start = (attributes[name][axis] for name in names)
    taps = range(0, window * dilation, dilation)
    found = ([at * stride + tap - start for tap in taps] for at in range(length))
    return [[place * packed for place in places if 0 <= place < size] for places in found]


def average(inputs: Inputs, attributes: Attributes, dtype: str) -> Tensor:
    """Return round(sum(x - zx) * sx / (sy * n)) + zy, limited to the data type."""
    x = inputs["InputTensor"]
    every = prod(attributes["WindowSize"]) if attributes["IncludePadding"] else 0

    names = "InputScaleTensor OutputScaleTensor InputZeroPointTensor OutputZeroPointTensor"
    tensors = [inputs.get(name) for name in names.split()]
    words = []
    for channel, places in elements(x.sizes, attributes):
        sx, sy, zx, zy = (parameter(tensor, channel) for tensor in tensors)
        total = sum(x.words[place] - zx for place in places)
        words.append(_quantized(total, every or len(places), sx, sy, zy, dtype))
    return Tensor(dtype, output_sizes(x.sizes, attributes), tuple(words))


@cache
def _quantized(total: int, count: int, sx: int, sy: int, zero_point: int, dtype: str) -> int:
    """Return one mean; the scales are float32 bits."""
    one, two = (floats.decode(word, "float32").value for word in (sx, sy))
    return quantize(floats.exactly(total * one / max(count, 1)), two, zero_point, dtype)
