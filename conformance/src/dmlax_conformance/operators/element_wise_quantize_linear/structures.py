"""Value classes and structures of ELEMENT_WISE_QUANTIZE_LINEAR."""

from functools import cached_property
from typing import Any

import numpy as np

from .._shared import element_wise_structures as shared
from .._shared import floats, value_classes
from .._shared.cross import ELEMENTS, Array, Cross, Meeting, impossible
from .._shared.element_wise import broadcast
from .._shared.element_wise_structures import SCALE, ElementWiseView
from .._shared.floats import Real
from .._shared.value_classes import ROUNDED, extended


class View(ElementWiseView):
    """The parts of a call that predicates read, its exact quotients among them."""

    @property
    def source(self) -> str:
        """The data type of the input."""
        return self.vector.inputs["InputTensor"].dtype

    @cached_property
    def scales(self) -> list[Real]:
        """The scale of each element."""
        tensor = self.vector.inputs[SCALE]
        return [floats.decode(word, tensor.dtype) for word in broadcast(tensor, self.sizes)]

    @cached_property
    def quotients(self) -> list[Real]:
        """The exact quotient of each element."""
        words = self.vector.inputs["InputTensor"].words
        numbers = [value_classes.real(word, self.source) for word in words]
        return [
            floats.exactly(x.value / s.value) if x.kind == "finite" else x
            for x, s in zip(numbers, self.scales, strict=True)
        ]

    @cached_property
    def classes(self) -> dict[str, Array]:
        """The classes of the quotients."""
        return value_classes.of_quotients(self.quotients, self.zero_point, self.output)

    @cached_property
    def near_ties(self) -> Array:
        """A mask of the quotients that are near ties or ties."""
        return value_classes.near_ties(self.quotients)

    def errs(self, way: Any, dtype: str = "") -> Array:
        """Return where a formula of input and scale in this float type errs."""
        own = dtype or ("float32" if self.source == "int32" else self.source)
        with np.errstate(all="ignore"):
            found = way(self.x.astype(own), self.scale.astype(own))
        return self.near_ties & value_classes.errs(
            found, self.zero_point, self.output, self.expected
        )

    def extended_errs(self) -> Array:
        """Return where extended precision errs with a reciprocal."""

        def way(index: int) -> Any:
            scale = self.scales[index].value
            return extended(self.quotients[index].value * scale * extended(1 / scale))

        return value_classes.extended_errs(self.quotients, way, self.near_ties)


def _is_input(dtype: str) -> Any:
    return lambda view: view.source == dtype


def _is_subnormal(view: View) -> Any:
    if view.source == "int32":
        return False
    return (np.abs(view.x) < np.finfo(view.x.dtype).tiny) & (view.x != 0)


def _in(name: str) -> Any:
    return lambda view: view.classes[name]


CLASSES: dict[str, Any] = {
    **{name: _in(name) for name in value_classes.QUOTIENTS},
    "float division errs": lambda view: view.errs(lambda x, s: x / s),
    "float reciprocal errs": lambda view: view.errs(lambda x, s: x * (1 / s)),
    "float64 reciprocal errs": lambda view: view.errs(lambda x, s: x * (1 / s), "float64"),
    "extended reciprocal errs": View.extended_errs,
    "plus infinity": lambda view: view.x == np.inf,
    "minus infinity": lambda view: view.x == -np.inf,
    "NaN": lambda view: view.x != view.x,
    "minus zero": lambda view: (view.x == 0) & np.signbit(view.x),
    "subnormal input": _is_subnormal,
}
STRUCTURES: dict[str, Any] = {
    **shared.STRUCTURES,
    **{f"{name} input": _is_input(name) for name in ("float32", "float16", "int32")},
    "int8 output": lambda view: view.output == "int8",
    "uint8 output": lambda view: view.output == "uint8",
    "negative scale": lambda view: view.scale < 0,
}
IMPOSSIBLE = {
    **impossible(
        "an integer is finite, and its zero has no sign",
        *((name, "int32 input") for name in ("* infinity", "NaN", "minus zero", "subnormal input")),
        *((f"quantize-{name}-*", "int32 input") for name in ("infinity", "nan")),
    ),
    **impossible(
        "there is nothing to add",
        ("quantize-zero-point-first", "no zero point"),
    ),
}
OF_ONE_TYPE = (
    *("quantize-float32-*", "quantize-float16-*", "quantize-int32-*", "quantize-rounds-twice-fine"),
    *("quantize-clamps-int8-*", "quantize-clamps-uint8-*", "quantize-clamps-to-minus-127"),
    "quantize-nan-is-0",
)
MEETING = Meeting(
    ROUNDED,
    ("* input", "* output", "*zero point*", "*scale*", "rank [2-8]"),
    ELEMENTS,
)
CROSS: Cross[View] = Cross(View, CLASSES, STRUCTURES, IMPOSSIBLE, OF_ONE_TYPE, MEETING)
