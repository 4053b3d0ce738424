"""Value classes and structures of QUANTIZED_LINEAR_CONVOLUTION."""

from functools import cached_property
from typing import Any

import numpy as np

from .._shared import convolution_structures as shared
from .._shared import rescale_structures
from .._shared.convolution_structures import ConvolutionView, has, wrapped
from .._shared.cross import LINES, Array, Cross, Meeting, impossible
from .._shared.rescale_structures import RescaleView
from .._shared.value_classes import ROUNDED

BIAS, SCALES, OUTPUT = "BiasTensor", "FilterScaleTensor", "OutputTensor"
OUTPUT_POINT = "OutputZeroPointTensor"


class View(RescaleView, ConvolutionView):
    """The parts of a call that predicates read: accumulators and exact quotients among them."""

    @cached_property
    def bias(self) -> Array:
        """The bias of each element."""
        return self._each(BIAS)

    @cached_property
    def accumulators(self) -> Array:
        """The sums with bias, in 32 bits."""
        return wrapped(self.sums + self.bias)

    @cached_property
    def scales(self) -> tuple[Array, Array, Array]:
        """The words of the scales of each element."""
        sx, sw, sy = map(self._each, ("InputScaleTensor", SCALES, "OutputScaleTensor"))
        return sx, sw, sy

    @cached_property
    def zero_points(self) -> Array:
        """The output zero point, for each element."""
        return self._each(OUTPUT_POINT)

    def _each(self, name: str) -> Array:
        """Return the words of a parameter for each element; a missing one is 0."""
        given = self.vector.inputs.get(name)
        own = np.array([0] if given is None else given.words, np.int64)
        return np.asarray(np.broadcast_to(own, self.sizes[1])[self.channel])


CLASSES: dict[str, Any] = {
    **rescale_structures.CLASSES,
    "live sum": lambda view: view.sums != 0,
    "accumulator above 16 bits": lambda view: view.accumulators >= 2**15,
    "accumulator below 16 bits": lambda view: view.accumulators < -(2**15),
    "accumulator above 24 bits": lambda view: view.accumulators > 2**24,
    "accumulator below 24 bits": lambda view: view.accumulators < -(2**24),
}
STRUCTURES: dict[str, Any] = {
    **shared.STRUCTURES,
    "no bias": has(BIAS, 0),
    "a bias": has(BIAS, 1, shared.MANY),
    "one filter scale": has(SCALES, 1),
    "filter scales": has(SCALES, 2, shared.MANY),
    "no output zero point": has(OUTPUT_POINT, 0),
    "an output zero point": has(OUTPUT_POINT, 1),
    "int8 output": lambda view: view.dtype(OUTPUT) == "int8",
    "uint8 output": lambda view: view.dtype(OUTPUT) == "uint8",
}
BEYOND_24_BITS = ("float32-accumulator", "rounds-twice-fine", "fixed-point-31")
IMPOSSIBLE = {
    **impossible("there is no bias", ("qconv-bias-*", "no bias")),
    **impossible(
        "there is nothing to add before rounding",
        ("qconv-zero-point-first", "no output zero point"),
        ("qconv-clamps-before-zero-point", "no output zero point"),
    ),
    **impossible(
        "sums of so many products as make 24 bits have no room for a half",
        *((f"qconv-{name}", "no bias") for name in BEYOND_24_BITS),
    ),
}
OF_SUMS = tuple(f"qconv-{name}*" for name in ("input-", "filter-", "sums-", "pairs-", "products-"))
OF_THEIR_OWN = (  # lengths, places, data types, and what needs scales for nothing else
    *("qconv-only-*", "qconv-*-lost", "qconv-bias-on-*", "qconv-bias-along-*", "qconv-bias-*s"),
    *("qconv-clamps-int8-*", "qconv-clamps-uint8-*", "qconv-clamps-to-minus-127"),
    *("qconv-float64-formula", "qconv-float32-product-of-scales"),
)
MEETING = Meeting(
    ROUNDED,
    (
        *("rank *", "* input, * filter", "* output", "*zero point*", "*scale*", "*bias"),
        *("depthwise", "strides", "dilations", "padding", "addend *", "one tap"),
    ),
    LINES,
    (("rank 3", "rows *"),),
)
CROSS: Cross[View] = Cross(
    View, CLASSES, STRUCTURES, IMPOSSIBLE, (*OF_SUMS, *OF_THEIR_OWN), MEETING
)
