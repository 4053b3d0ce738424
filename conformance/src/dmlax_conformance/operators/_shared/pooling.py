"""Windows of a pool, and their averages."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

from ...format.layout import packed_strides
from ...format.tensors import Tensor
from . import floats
from .call_rules import Attributes, Inputs
from .convolution import Windows, parameter
from .floats import Real
from .rounding import rounded

Sizes = tuple[int, ...]


class Mean(NamedTuple):
    """A sum, how many elements it has, and the words of both scales."""

    total: int
    elements: int
    input: int
    output: int


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
    sizes = output_sizes(inputs["InputTensor"].sizes, attributes)
    return Tensor(dtype, sizes, rounded(quotients(inputs, attributes), dtype))


def quotients(inputs: Inputs, attributes: Attributes) -> list[tuple[Real, int]]:
    """Return the exact quotient of each element of the output, and its zero point."""
    return [(mean(each), point) for each, point in means(inputs, attributes)]


def means(inputs: Inputs, attributes: Attributes) -> Iterator[tuple[Mean, int]]:
    """Yield what the mean of each window is made of, and the output zero point."""
    x = inputs["InputTensor"]
    every = prod(attributes["WindowSize"]) if attributes["IncludePadding"] else 0
    names = "InputScaleTensor OutputScaleTensor InputZeroPointTensor OutputZeroPointTensor"
    tensors = [inputs.get(name) for name in names.split()]
    every_own = [[parameter(each, channel) for each in tensors] for channel in range(x.sizes[1])]
    for channel, places in elements(x.sizes, attributes):
        sx, sy, zx, zy = every_own[channel]
        total = sum(x.words[place] - zx for place in places)
        yield Mean(total, every or len(places), sx, sy), zy


@cache
def mean(given: Mean) -> Real:
    """Return one mean over the output scale; that of no elements is 0."""
    sx, sy = (floats.decode(word, "float32").value for word in (given.input, given.output))
    return floats.exactly(given.total * sx / max(given.elements, 1) / sy)
