"""Equivalence classes and structures of operators on two quantized tensors that broadcast."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from dmlax_conformance.oracle.binary import add_quotients, multiply_quotients

from . import elements
from .elements import QuotientView, lengths
from .matrix import CoverageMatrix

A, B = "ATensor", "BTensor"


def _repeating(view: QuotientView) -> set[str]:
    """Return the operands that have fewer elements than the output."""
    return {name for name in (A, B) if prod(view.vector.inputs[name].sizes) < view.count}


def _repeat(*names: str) -> Callable[[QuotientView], bool]:
    return lambda view: _repeating(view) == {*names}


def _is_one_value(view: QuotientView, name: str) -> bool:
    return view.length(f"{name}Tensor") == 1 < view.count


def _repeats_along_rows(view: QuotientView, name: str) -> bool:
    sizes = view.vector.inputs[f"{name}Tensor"].sizes or (1,)
    return sizes[-1] == 1 < view.columns and _repeating(view) == {f"{name}Tensor"}


STRUCTURES: dict[str, Any] = {
    **elements.ELEMENTS,
    **elements.at_ranks(range(1, 9)),
    "neither repeats": _repeat(),
    "A repeats": _repeat(A),
    "B repeats": _repeat(B),
    "both repeat": _repeat(A, B),
    **elements.of_values("{} is one value", _is_one_value, "AB"),
    **elements.of_values("{} repeats along rows", _repeats_along_rows, "AB"),
    **elements.of_types("{} A, {} B", A, B),
    **lengths("AZeroPointTensor", "zero point of A"),
    **lengths("BZeroPointTensor", "zero point of B"),
    **lengths(elements.OUTPUT_POINT, "zero point of the output"),
    **elements.OUTPUT_TYPES,
}
MATRICES = {
    f"element_wise_quantized_linear_{name}": CoverageMatrix(
        partial(QuotientView, quotients=own), elements.QUOTIENTS, STRUCTURES
    )
    for name, own in (("add", add_quotients), ("multiply", multiply_quotients))
}
