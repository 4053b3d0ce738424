"""Value classes and structures of QUANTIZED_LINEAR_MATRIX_MULTIPLY."""

from functools import cached_property
from typing import Any

from .._shared import matmul_structures as shared
from .._shared import rescale_structures
from .._shared.convolution_structures import MANY, has
from .._shared.cross import LINES, Array, Cross, Meeting, each_at, impossible
from .._shared.matmul_structures import MatmulView, repeats
from .._shared.rescale_structures import RescaleView
from .._shared.value_classes import ROUNDED


class View(RescaleView, MatmulView):
    """The parts of a call that predicates read: accumulators and exact quotients among them."""

    @cached_property
    def accumulators(self) -> Array:
        """The sums with bias."""
        return self.sums + self.each(shared.BIAS)

    @cached_property
    def scales(self) -> tuple[Array, ...]:
        """The words of the scales of each sum."""
        names = (shared.A_SCALE, shared.B_SCALE, shared.OUTPUT_SCALE)
        return tuple(self.each(name) for name in names)

    @cached_property
    def zero_points(self) -> Array:
        """The output zero point, for each sum."""
        return self.each(shared.OUTPUT_POINT)


CLASSES: dict[str, Any] = {
    **rescale_structures.CLASSES,
    "live sum": lambda view: view.sums != 0,
    "accumulator above 32 bits with bias": lambda view: view.accumulators >= 2**31,
    "accumulator below 32 bits with bias": lambda view: view.accumulators < -(2**31),
    "accumulator above 24 bits": lambda view: view.accumulators > 2**24,
    "accumulator below 24 bits": lambda view: view.accumulators < -(2**24),
}
STRUCTURES: dict[str, Any] = {
    **shared.STRUCTURES,
    "bias of each column": lambda view: _bias(view) == view.shape.output[-1:],
    "bias of each row": lambda view: _bias(view)[-1:] == (1,) != _bias(view)[-2:-1],
    "no bias": has(shared.BIAS, 0),
    "a bias": has(shared.BIAS, 1, MANY),
    **repeats("scale of A", shared.A_SCALE, False),
    **repeats("scale of B", shared.B_SCALE, False),
    **repeats("output scale", shared.OUTPUT_SCALE, False),
    **repeats("output zero point", shared.OUTPUT_POINT),
    "int8 output": lambda view: view.output == "int8",
    "uint8 output": lambda view: view.output == "uint8",
}


def _bias(view: View) -> tuple[int, ...]:
    own = view.vector.inputs.get(shared.BIAS)
    return () if own is None or len(own.words) == 1 else own.sizes


IMPOSSIBLE: Any = {
    **impossible(
        "there is no bias", *each_at(("qmatmul-bias-*", "* 32 bits with bias"), ("no bias",))
    ),
    **impossible(
        "sums of so many products as make 24 bits have no room for a half",
        *((f"qmatmul-{name}", "no bias") for name in ("float32-accumulator", "rounds-twice-fine")),
    ),
    **impossible(
        "there is nothing to add before rounding",
        ("qmatmul-zero-point-first", "no output zero point"),
        ("qmatmul-clamps-before-zero-point", "no output zero point"),
    ),
}
OF_SUMS = tuple(f"qmatmul-{name}*" for name in ("a-diff", "b-diff", "sums-", "pairs-", "products-"))
OF_THEIR_OWN = (  # lengths, places, data types, and what needs scales for nothing else
    *("qmatmul-only-*", "qmatmul-*-lost", "qmatmul-bias-on-*", "qmatmul-bias-along-*"),
    *("qmatmul-clamps-int8-*", "qmatmul-clamps-uint8-*", "qmatmul-clamps-to-minus-127"),
    *("qmatmul-float64-formula", "qmatmul-float32-product-of-scales"),
)
MEETING = Meeting(
    ROUNDED,
    ("*int8 A, *", "* output", "*zero point*", "*scale*", "*bias*", "A repeats", "B repeats"),
    LINES,
)
CROSS: Cross[View] = Cross(
    View, CLASSES, STRUCTURES, IMPOSSIBLE, (*OF_SUMS, *OF_THEIR_OWN), MEETING
)
