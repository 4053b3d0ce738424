"""Value classes and structures of QUANTIZED_LINEAR_CONVOLUTION."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ...format.tensors import to_numpy
from .._shared import convolution_structures as shared
from .._shared import floats, value_classes
from .._shared.convolution_structures import ConvolutionView, has, wrapped
from .._shared.cross import Array, Cross, impossible
from .._shared.floats import Real
from .._shared.value_classes import extended

BIAS, SCALES, OUTPUT = "BiasTensor", "FilterScaleTensor", "OutputTensor"
OUTPUT_POINT = "OutputZeroPointTensor"


class View(ConvolutionView):
    """The parts of a call that predicates read: accumulators and exact quotients among them."""

    @cached_property
    def bias(self) -> Array:
        """The bias of each element."""
        return self._each(BIAS).astype(np.int64)

    @cached_property
    def accumulators(self) -> Array:
        """The sums with bias, in 32 bits."""
        return wrapped(self.sums + self.bias)

    @cached_property
    def scales(self) -> tuple[Real, list[Real], Real]:
        """The scales of input, of each filter, and of output."""
        sx, sw, sy = (
            [floats.decode(word, "float32") for word in self.vector.inputs[name].words]
            for name in ("InputScaleTensor", SCALES, "OutputScaleTensor")
        )
        return sx[0], sw * (self.sizes[1] if len(sw) == 1 else 1), sy[0]

    @cached_property
    def distinct(self) -> tuple[Array, Array]:
        """The elements with other accumulators or channels than before, and which has which."""
        keys = self.accumulators * self.sizes[1] + self.channel
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        return first, inverse.reshape(-1)

    @cached_property
    def quotients(self) -> list[Real]:
        """The exact quotient of each distinct element."""
        sx, sw, sy = self.scales
        factors = [sx.value * each.value / sy.value for each in sw]
        first, _ = self.distinct
        pairs = zip(self.accumulators[first].tolist(), self.channel[first].tolist(), strict=True)
        return [floats.exactly(total * factors[channel]) for total, channel in pairs]

    @cached_property
    def zero_points(self) -> Array:
        """The output zero point, for each element."""
        return np.broadcast_to(self._each(OUTPUT_POINT).astype(np.int64), self.count)

    @cached_property
    def classes(self) -> dict[str, Array]:
        """The classes of the quotients."""
        first, inverse = self.distinct
        zero_points = self.zero_points[first]
        found = value_classes.of_quotients(self.quotients, zero_points, self.dtype(OUTPUT))
        return {name: mask[inverse] for name, mask in found.items()}

    @cached_property
    def near_ties(self) -> Array:
        """A mask of the quotients that are near ties or ties."""
        return value_classes.near_ties(self.quotients)[self.distinct[1]]

    def errs(self, dtype: str, formula: Callable[..., Any]) -> Array:
        """Return where a formula of accumulator and scales in a float type errs."""
        sx, sw, sy = (
            to_numpy(self.vector.inputs[name]).reshape(-1).astype(dtype)
            for name in ("InputScaleTensor", SCALES, "OutputScaleTensor")
        )
        own = np.broadcast_to(sw, self.sizes[1])[self.channel]
        with np.errstate(all="ignore"):
            found = formula(self.accumulators.astype(dtype), sx, own, sy)
        wrong = value_classes.errs(found, self.zero_points, self.dtype(OUTPUT), self.expected)
        return np.asarray(self.near_ties & wrong)

    def extended_errs(self) -> Array:
        """Return where a multiplier in extended precision errs."""
        sx, sw, sy = self.scales
        factors = [extended(sx.value * each.value / sy.value) for each in sw]

        first, inverse = self.distinct

        def way(index: int) -> Any:
            place = first[index]
            return extended(int(self.accumulators[place]) * factors[self.channel[place]])

        is_near = self.near_ties[first]
        return value_classes.extended_errs(self.quotients, way, is_near)[inverse]

    def _each(self, name: str) -> Array:
        """Return a parameter for each element; a missing one is 0."""
        if name not in self.vector.inputs:
            return np.zeros(self.count, np.int64)
        own = to_numpy(self.vector.inputs[name]).reshape(-1)
        return np.broadcast_to(own, self.sizes[1])[self.channel] if len(own) > 1 else own


def _in(name: str) -> Any:
    return lambda view: view.classes[name]


def _multiplier(a: Any, x: Any, w: Any, y: Any) -> Any:
    return a * (x * w / y)


def _formula(a: Any, x: Any, w: Any, y: Any) -> Any:
    return a * (x * w) / y


def _reciprocal(a: Any, x: Any, w: Any, y: Any) -> Any:
    return a * (x * w) * (1 / y)


CLASSES: dict[str, Any] = {
    **{name: _in(name) for name in value_classes.QUOTIENTS},
    "float32 multiplier errs": lambda view: view.errs("float32", _multiplier),
    "float32 formula errs": lambda view: view.errs("float32", _formula),
    "float64 multiplier errs": lambda view: view.errs("float64", _multiplier),
    "float64 reciprocal errs": lambda view: view.errs("float64", _reciprocal),
    "extended multiplier errs": View.extended_errs,
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
CROSS: Cross[View] = Cross(View, CLASSES, STRUCTURES, IMPOSSIBLE, (*OF_SUMS, *OF_THEIR_OWN))
