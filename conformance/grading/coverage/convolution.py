"""Equivalence classes and structures of convolutions."""

from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle.convolution import SCALES, Windows, sum_quotients

from . import elements
from .elements import BY_TWO, LANES, ONE_OR_MANY, OUTPUT, OUTPUT_POINT, along, lengths, of_types
from .matrix import Array, CoverageMatrix

IMAGE, FILTER = "InputTensor", "FilterTensor"


class ConvolutionView(elements.SumView):
    """The axes of the output, and the sums."""

    integers = "convolution_integer"
    scale_names = SCALES

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        self.windows = Windows.of(vector.attributes)
        self.name_axes_of_images("filters")
        pixels, groups = prod(self.sizes[2:]), self.windows.groups
        self.channel = self.axes["filters"][0]
        self.axes["pixels"] = self.index % max(pixels, 1), pixels
        self.axes["groups"] = self.channel // (self.sizes[1] // groups), groups
        _, self.depth, *kernel = vector.inputs[FILTER].sizes
        self.taps = prod(kernel)

    @cached_property
    def accumulators(self) -> Array:
        """The sums with bias, in 32 bits."""
        return super().accumulators.astype("i4").astype("i8")

    def repeated(self, name: str) -> Array:
        """Return the words of a parameter for each element; a missing one is 0."""
        given = self.vector.inputs.get(name)
        words = np.array(given.words if given else (0,), np.int64)
        return np.asarray(np.broadcast_to(words, self.sizes[1])[self.channel])


class AddView(ConvolutionView):
    """The exact quotients of the sum of a convolution and an addend."""

    @cached_property
    def rows(self) -> Any:
        """The quotient and the zero point of each element."""
        given = self.vector
        return sum_quotients(given.attributes, given.inputs, given.outputs)


STRUCTURES: dict[str, Any] = {
    **elements.at_ranks((3, 4)),
    **elements.of_one("column", "row", "image", "filter"),
    **along("columns", BY_TWO, LANES),
    **along("rows", BY_TWO),
    **along("pixels", BY_TWO, LANES),
    **along("images", (1, 2, 4)),
    **along("filters", (*BY_TWO, 128)),
    **along("groups", (1, 2, 4)),
    "depthwise": lambda view: view.windows.groups > 1 and view.depth == 1,
    "one tap": lambda view: view.taps == 1,
    "several taps": lambda view: view.taps > 1,
    "strides": lambda view: max(view.windows.strides) > 1,
    "dilations": lambda view: max(view.windows.dilations) > 1,
    "padding": lambda view: max(view.windows.start + view.windows.end) > 0,
    "products not by fours": lambda view: view.depth * view.taps % 4 != 0,
    "products by fours": lambda view: view.depth * view.taps % 4 == 0,
    **of_types("{} input, {} filter", IMAGE, FILTER),
    **lengths("InputZeroPointTensor", "input zero point", "an {}"),
    **lengths("FilterZeroPointTensor", "filter zero point", *ONE_OR_MANY),
}
QUANTIZED: dict[str, Any] = {
    **elements.RESCALED,
    "accumulator above 16 bits": lambda view: view.accumulators >= 2**15,
    "accumulator below 16 bits": lambda view: view.accumulators < -(2**15),
}
OF_QUANTIZED = {
    **elements.WITH_BIAS,
    **lengths("FilterScaleTensor", "filter scale", *ONE_OR_MANY),
    **lengths(OUTPUT_POINT, "output zero point", "an {}"),
    **elements.OUTPUT_TYPES,
}
OF_SUMS: dict[str, Any] = {
    **elements.WITH_BIAS,
    "addend first": lambda view: view.vector.attributes["AddendFirst"],
    "addend last": lambda view: not view.vector.attributes["AddendFirst"],
    **of_types("{} addend, {} output", "AddendTensor", OUTPUT),
    **lengths("AddendZeroPointTensor", "zero point of the addend"),
    **lengths("SumZeroPointTensor", "zero point of the sum"),
    **elements.OUTPUT_TYPES,
}
MATRICES = {
    "convolution_integer": CoverageMatrix(ConvolutionView, elements.SUMS, STRUCTURES),
    "quantized_linear_convolution": CoverageMatrix(
        ConvolutionView, QUANTIZED, STRUCTURES | OF_QUANTIZED
    ),
    "quantized_linear_convolution_add": CoverageMatrix(
        AddView, elements.QUOTIENTS, STRUCTURES | OF_SUMS
    ),
}
