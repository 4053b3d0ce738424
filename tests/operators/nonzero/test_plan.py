"""The plan of a nonzero call: defaults, the effective rank, and the largest input."""

import jax
import numpy as np
import pytest

import dmlax
from dmlax._core.arguments import Aval
from dmlax._operators.nonzero.plan import nonzero_plan

pytestmark = pytest.mark.oldest


def plan(shape, dtype=np.float32, size=None, coordinate_rank=None, fill_value=0, devices=1):
    aval = Aval(np.dtype(dtype), shape)
    return nonzero_plan(aval, size, coordinate_rank, fill_value, None, devices)


def test_sizes_are_of_the_whole_input_over_all_devices():
    found = plan((2, 3), devices=4)
    assert (found.sizes, found.elements, found.size) == ((8, 3), 24, 24)


def test_the_effective_rank_is_that_of_the_whole_input():
    assert plan((1, 3), coordinate_rank=1).coordinate_rank == 1
    with pytest.raises(dmlax.SpecError, match="has 1 columns, expected 2 to 2"):
        plan((1, 3), coordinate_rank=1, devices=4)


def test_the_largest_input_has_as_many_elements_as_a_count_can_say():
    assert plan((2**16, 2**16 - 1), np.bool_, size=0).elements == 2**32 - 2**16
    assert plan((3, 5, 17, 257, 65537), np.bool_, size=0).elements == 2**32 - 1
    for shape, devices in (((2**16, 2**16), 1), ((2**14, 2**16), 4)):
        with pytest.raises(dmlax.SpecError) as caught:
            plan(shape, np.bool_, size=0, devices=devices)
        assert (caught.value.code, caught.value.field) == ("sizes", "InputTensor")


def test_eval_shape_of_the_largest_input_needs_no_memory():
    x = jax.ShapeDtypeStruct((2**16, 2**16 - 1), np.uint8)
    found = jax.eval_shape(lambda x: dmlax.nonzero_coordinates(x, size=10), x)
    assert found.coordinates.shape == (10, 2)
