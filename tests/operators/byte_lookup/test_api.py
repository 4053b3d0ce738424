"""A lookup: every value of each dtype, many elements, and tables that are mapped over."""

import numpy as np
import pytest

import dmlax
from support import NATIVE, assert_same, by_implementations, draw

pytestmark = pytest.mark.oldest

PAIRS = [("int8", "int8"), ("int8", "uint8"), ("uint8", "uint8"), ("uint8", "int8")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("dtype", "table", "implementation"),
    by_implementations(PAIRS, [*NATIVE, "xla", "reference"]),
)
def test_entries_are_in_the_order_of_the_values(dtype, table, implementation):
    entries = draw(1, table, 256)
    limits = np.iinfo(dtype)
    x = np.arange(limits.min, limits.max + 1).astype(dtype)
    assert_same(dmlax.quantized_lookup(x, entries, implementation=implementation), entries)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 63, 2_000_001])
def test_every_element_is_replaced(count):
    x, table = draw(2, np.uint8, (count,)), draw(3, np.int8, 256)
    assert_same(dmlax.quantized_lookup(x, table), table[x])
