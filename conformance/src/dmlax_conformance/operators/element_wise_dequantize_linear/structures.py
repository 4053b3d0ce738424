"""Value classes and structures of ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...format.vectors import Vector
from .._shared import element_wise_structures as shared
from .._shared.cross import Array, Cross, impossible
from .._shared.element_wise_structures import ElementWiseView
from .products import Products

TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
NARROW = ("int8 input", "uint8 input")
UP_TO_16_BITS = (*NARROW, "int16 input", "uint16 input")


class View(Products, ElementWiseView):
    """The parts of a call that predicates read, its exact products among them."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        ElementWiseView.__init__(self, vector)
        self.source = vector.inputs["InputTensor"].dtype


def _among_finite(way: Callable[[Array, Array, Array], Array]) -> Callable[[Products], Array]:
    """Compare what is kept of a product, what is lost, and half of the last place."""
    return lambda view: np.isfinite(view.result) & (view.result != 0) & way(*view.rounding)


def _is_subnormal(values: Array) -> Array:
    return np.asarray((np.abs(values) < np.finfo(values.dtype).tiny) & (values != 0))


PRODUCTS: dict[str, Callable[[Products], Array]] = {
    "exact": _among_finite(lambda kept, lost, half: lost == 0),
    "rounded down": _among_finite(lambda kept, lost, half: (0 < lost) & (lost < half)),
    "rounded up": _among_finite(lambda kept, lost, half: lost > half),
    "tie, even below": _among_finite(
        lambda kept, lost, half: (lost == half) & (lost > 0) & (kept % 2 == 0)
    ),
    "tie, even above": _among_finite(
        lambda kept, lost, half: (lost == half) & (lost > 0) & (kept % 2 == 1)
    ),
    "float32 product errs": lambda view: view.product_errs("float32"),
    "float64 product errs": lambda view: view.product_errs("float64"),
    "float16 product errs": lambda view: (
        view.product_errs("float16") & (view.output == "float16")
    ),
    "difference leaves its type": Products.leaves_own_type,
    "difference leaves 16 bits": lambda view: view.leaves(-(2**15), 2**15 - 1),
    "difference leaves 32 bits": lambda view: view.leaves(-(2**31), 2**31 - 1),
    "negative difference": lambda view: view.difference < 0,
    "float32 before the difference errs": lambda view: view.integers_first_err("float32"),
    "float16 before the difference errs": lambda view: view.integers_first_err("float16"),
    "difference of rounded products errs": Products.products_first_err,
    "subnormal": lambda view: _is_subnormal(view.result),
    "plus infinity": lambda view: view.result == np.inf,
    "minus infinity": lambda view: view.result == -np.inf,
    "zero": lambda view: view.difference == 0,
    "zero of a negative scale": lambda view: (view.difference == 0) & (view.scale < 0),
}
STRUCTURES: dict[str, Any] = {
    **shared.STRUCTURES,
    **{f"{name} input": (lambda view, name=name: view.source == name) for name in TYPES},
    "float32 output": lambda view: view.output == "float32",
    "float16 output": lambda view: view.output == "float16",
    "negative scale": lambda view: view.scale < 0,
    "subnormal scale": lambda view: _is_subnormal(view.scale),
}


def _only_at_others(name: str, places: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, at) for at in places)


IMPOSSIBLE = {
    **impossible(
        "FLOAT16 and the difference hold 8-bit integers, FLOAT32 their products with FLOAT16",
        *_only_at_others("float32 product errs", NARROW),
        *_only_at_others("float16 product errs", NARROW),
        *_only_at_others("float16 before the difference errs", NARROW),
        *_only_at_others("dequantize-float32-product", NARROW),
        *_only_at_others("dequantize-float16-before-difference", NARROW),
        *_only_at_others("difference leaves 16 bits", NARROW),
        *_only_at_others("dequantize-difference-in-16-bits", NARROW),
    ),
    **impossible(
        "float64 holds the product, and float32 the integers and a difference, of 16 bits",
        *_only_at_others("float64 product errs", UP_TO_16_BITS),
        *_only_at_others("float32 before the difference errs", UP_TO_16_BITS),
        *_only_at_others("difference leaves 32 bits", UP_TO_16_BITS),
        *_only_at_others("dequantize-float64-product", UP_TO_16_BITS),
        *_only_at_others("dequantize-float32-before-difference", UP_TO_16_BITS),
        *_only_at_others("dequantize-difference-in-32-bits", UP_TO_16_BITS),
    ),
    **impossible(
        "a difference of 33 bits times the 11 of FLOAT16 is exact in float64",
        ("float64 product errs", "float16 output"),
        ("dequantize-float64-product", "float16 output"),
    ),
    **impossible(
        "any product of FLOAT32 and most of its differences would be wrong in float16",
        ("float16 product errs", "float32 output"),
    ),
    **impossible(
        "no FLOAT16 is subnormal in float32",
        ("dequantize-flushes-scale", "float16 output"),
    ),
    **impossible(
        "the difference is the input",
        ("difference leaves its type", "no zero point"),
        ("difference of rounded products errs", "no zero point"),
        ("dequantize-difference-in-own-type", "no zero point"),
        ("dequantize-difference-saturates", "no zero point"),
        ("dequantize-products-*", "no zero point"),
    ),
}
OF_ONE_TYPE = (
    *("dequantize-float16-product", "dequantize-float16-through-float32"),
    "dequantize-float32-through-float16",
)
CROSS: Cross[View] = Cross(
    View, {**PRODUCTS}, STRUCTURES, IMPOSSIBLE, OF_ONE_TYPE
)
