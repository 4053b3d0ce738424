"""The products that value classes are read off are the oracle's."""

import numpy as np
import pytest

from dmlax_conformance.format.vectors import ExpectedError, Vector
from dmlax_conformance.operators._shared.cross import takes_part
from dmlax_conformance.operators.answer import with_elements
from dmlax_conformance.operators.element_wise_dequantize_linear.products import Products
from dmlax_conformance.operators.element_wise_dequantize_linear.structures import PRODUCTS, View


def test_products_are_the_expected_ones(suite: list[Vector]) -> None:
    operator = "element_wise_dequantize_linear"
    calls = [each for each in suite if each.operator == operator and takes_part(each)]
    assert len(calls) > 100
    for vector in map(with_elements, calls):
        result = View(vector).result
        assert not isinstance(vector.expect, ExpectedError)
        words = vector.expect["OutputTensor"].words
        assert result.view(f"uint{8 * result.itemsize}").tolist() == list(words), vector.id


class Product(Products):
    """One product."""

    def __init__(self, x: int, zero_point: int, scale: float, source: str, output: str) -> None:
        """Make arrays of one element."""
        self.x, self.zero_point = np.array([x], np.int64), np.array([zero_point], np.int64)
        self.scale, self.source = np.array([scale], output), source


ROUNDING = {"exact", "rounded down", "rounded up", "tie, even below", "tie, even above"}


@pytest.mark.parametrize(
    ("scale", "x", "name"),
    [
        (1, 2**24 + 1, "tie, even below"),
        (1, 2**24 + 3, "tie, even above"),
        (1, 2**25 + 1, "rounded down"),
        (1, -(2**25) - 3, "rounded up"),
        (-0.5, 2**24, "exact"),
        (2.0**-149, 3, "exact"),
    ],
)
def test_how_a_product_is_rounded(scale: float, x: int, name: str) -> None:
    product = Product(x, 0, scale, "int32", "float32")
    assert {each for each in ROUNDING if PRODUCTS[each](product).all()} == {name}


@pytest.mark.parametrize(
    ("name", "inside", "outside", "others"),
    [
        ("float32 product errs", 2**24 + 1, 2**24 + 2, (0, 3.0, "int32", "float32")),
        ("float64 product errs", 4266868483, 2**32 - 1, (0, 4021333.0, "uint32", "float32")),
        ("float16 product errs", 2049, 2050, (0, 3.0, "int16", "float16")),
        ("float32 before the difference errs", 2**24 + 1, 5, (2**24, 1.0, "int32", "float32")),
        ("float16 before the difference errs", 2049, 5, (2048, 1.0, "int16", "float32")),
        ("difference of rounded products errs", 2**24 + 1, 5, (1, 1.0, "int32", "float32")),
        ("difference leaves its type", -128, -127, (1, 1.0, "int8", "float32")),
        ("difference leaves 16 bits", 2**15 - 1, 2**15 - 2, (-1, 1.0, "int16", "float32")),
        ("difference leaves 32 bits", 2**31 - 1, 2**31 - 2, (-1, 1.0, "int32", "float32")),
        ("negative difference", 6, 7, (7, 1.0, "uint8", "float32")),
        ("plus infinity", 2, 1, (0, 2.0**127, "int8", "float32")),
        ("minus infinity", -65520, -65519, (0, 1.0, "int32", "float16")),
        ("subnormal", 1023, 1024, (0, 2.0**-24, "int16", "float16")),
        ("zero of a negative scale", 7, 6, (7, -1.0, "int8", "float32")),
    ],
)
def test_where_an_easy_mistake_shows(
    name: str, inside: int, outside: int, others: tuple[int, float, str, str]
) -> None:
    found = [PRODUCTS[name](Product(x, *others)).all() for x in (inside, outside)]
    assert found == [True, False]
