"""Value classes and structures of ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...format.vectors import Vector
from .._shared import element_wise_structures as shared
from .._shared.cross import ELEMENTS, Array, Cross, Meeting, each_at, impossible
from .._shared.element_wise_structures import ElementWiseView
from .products import Products

TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
OF_8_BITS = ("int8 input", "uint8 input")
UP_TO_16_BITS = (*OF_8_BITS, "int16 input", "uint16 input")


class View(Products, ElementWiseView):
    """The parts of a call that predicates read, its exact products among them."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        self.source = vector.inputs["InputTensor"].dtype


def _among_finite(way: Callable[[Array, Array, Array], Array]) -> Callable[[Products], Array]:
    """Compare what is kept of a product, what is lost, and half of the last place."""
    return lambda view: np.isfinite(view.result) & (view.result != 0) & way(*view.rounding)


def _is_subnormal(values: Array) -> Array:
    return np.asarray((np.abs(values) < np.finfo(values.dtype).tiny) & (values != 0))


def _is_input(dtype: str) -> Any:
    return lambda view: view.source == dtype


PRODUCTS: dict[str, Callable[[Products], Array]] = {
    "exact": _among_finite(lambda kept, lost, half: lost == 0),
    "rounded down": _among_finite(lambda kept, lost, half: (lost > 0) & (lost < half)),
    "rounded up": _among_finite(lambda kept, lost, half: lost > half),
    "tie, even below": _among_finite(
        lambda kept, lost, half: (lost == half) & (lost > 0) & (kept % 2 == 0)
    ),
    "tie, even above": _among_finite(
        lambda kept, lost, half: (lost == half) & (lost > 0) & (kept % 2 == 1)
    ),
    "float32 product errs": lambda view: view.product_errs("float32"),
    "float64 product errs": lambda view: view.product_errs("float64"),
    "float16 product errs": lambda view: view.product_errs("float16") & (view.output == "float16"),
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
    **{f"{name} input": _is_input(name) for name in TYPES},
    "float32 output": lambda view: view.output == "float32",
    "float16 output": lambda view: view.output == "float16",
    "negative scale": lambda view: view.scale < 0,
    "subnormal scale": lambda view: _is_subnormal(view.scale),
}
# No product underflows: a scale has the output's data type, and a difference is at least 1.
IMPOSSIBLE = {
    **impossible(
        "FLOAT16 holds a difference of 8-bit integers, FLOAT32 also its product with FLOAT16",
        *each_at(("float32 product errs", "float16 product errs"), OF_8_BITS),
        *each_at(("float16 before *", "difference leaves 16 bits"), OF_8_BITS),
        *each_at(("dequantize-float32-product", "dequantize-float16-product"), OF_8_BITS),
        *each_at(("dequantize-float16-before-*", "dequantize-float16-through-*"), OF_8_BITS),
        *each_at(("dequantize-difference-in-16-bits",), OF_8_BITS),
    ),
    **impossible(
        "float32 holds a difference of 16-bit integers, and float64 its products",
        *each_at(("float64 product errs", "dequantize-float64-product"), UP_TO_16_BITS),
        *each_at(("float32 before *", "dequantize-float32-before-*"), UP_TO_16_BITS),
        *each_at(("* leaves 32 bits", "dequantize-difference-in-32-bits"), UP_TO_16_BITS),
    ),
    **impossible(
        "float64 holds a difference of 33 bits times the 11 of FLOAT16",
        *each_at(("float64 product errs", "dequantize-float64-product"), ("float16 output",)),
    ),
    **impossible(
        "the other output has it",
        *each_at(("float16 product errs", "dequantize-float16-product"), ("float32 output",)),
        ("dequantize-float16-through-float32", "float32 output"),
        ("dequantize-float32-through-float16", "float16 output"),
    ),
    **impossible(
        "no FLOAT16 is subnormal in float32", ("dequantize-flushes-scale", "float16 output")
    ),
    **impossible(
        "the difference is the input",
        *each_at(("difference leaves its type", "* of rounded products *"), ("no zero point",)),
        *each_at(("dequantize-difference-in-own-type",), ("no zero point",)),
        *each_at(("dequantize-difference-saturates", "dequantize-products-*"), ("no zero point",)),
    ),
}
MEETING = Meeting(
    ("rounded *", "negative difference", "zero"),
    ("* input", "* output", "*zero point*", "*scale*", "rank [2-8]"),
    ELEMENTS,
)
CROSS: Cross[View] = Cross(View, PRODUCTS, STRUCTURES, IMPOSSIBLE, (), MEETING)
