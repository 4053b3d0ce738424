"""Sums and products of two quantized tensors: by table and by element, and in a random order."""

import numpy as np
import pytest

import dmlax
from support import NATIVE, assert_same, draw

pytestmark = pytest.mark.oldest

PARAMETERS = {
    "a_scale": np.float32(0.75),
    "b_scale": np.float32(0.3),
    "output_scale": np.float32(0.5),
    "a_zero_point": np.uint8(7),
    "b_zero_point": np.int8(-9),
    "output_zero_point": np.int8(3),
}
FUNCTIONS = [
    dmlax.element_wise_quantized_linear_add,
    dmlax.element_wise_quantized_linear_multiply,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_pair_of_bytes_is_one_result_by_table_by_element_and_by_kernel(function):
    """The tensors are as large as what a table is worth; the reference has none."""
    every = np.arange(65_536)
    a = np.tile((every >> 8).astype(np.uint8), 5)
    b = np.tile((every & 255).astype(np.uint8).view(np.int8), 5)
    wanted = function(a, b, implementation="reference", **PARAMETERS)
    for implementation in (*NATIVE, "xla"):
        assert_same(function(a, b, implementation=implementation, **PARAMETERS), wanted)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_tensor_of_more_elements_than_a_kernel_takes_at_once(function):
    """Rows that end within a task, and a task that begins within a row."""
    a, b = draw(1, np.uint8, (3, 701, 97)), draw(2, np.int8, (3, 701, 1))
    for x, y in ((a, b), (a, draw(3, np.int8, (97,))), (a, draw(4, np.int8, a.shape))):
        wanted = function(x, y, implementation="xla", **PARAMETERS)
        assert_same(function(x, y, **PARAMETERS), wanted)


def test_in_float32_the_order_of_the_operands_matters():
    every = np.arange(256, dtype=np.uint8)
    a, b = np.repeat(every, 256), np.tile(every, 256)
    call = lambda x, y, **others: dmlax.element_wise_quantized_linear_add(  # noqa: E731
        x, y, output_scale=0.6, arithmetic="float32", **others
    )
    forth = call(a, b, a_scale=1.1, b_scale=0.2, a_zero_point=123, b_zero_point=108)
    back = call(b, a, a_scale=0.2, b_scale=1.1, a_zero_point=108, b_zero_point=123)
    assert np.count_nonzero(np.asarray(forth) != np.asarray(back)) == 5268
