"""The plan of an element-wise call."""

import numpy as np
import pytest

import dmlax
from dmlax._core.arguments import Aval, Rules
from dmlax._operators.quantize.plan import dequantize_plan, quantize_plan

pytestmark = pytest.mark.oldest

RULES = Rules("op")


def aval(dtype, *shape):
    return Aval(np.dtype(dtype), shape)


def quantize(x, scale, zero=None, axis=None, dtype=np.uint8):
    return quantize_plan(RULES, x, scale, zero, axis, np.dtype(dtype), "exact")


def test_quantizing_has_the_shape_of_the_input_and_the_dtype_asked_for():
    found = quantize(aval(np.float32, 2, 3), aval(np.float32))
    assert found.output == aval(np.uint8, 2, 3)


def test_dequantizing_has_the_dtype_of_the_scale():
    found = dequantize_plan(RULES, aval(np.int16, 2, 3), aval(np.float16), None, None)
    assert found.output == aval(np.float16, 2, 3)


def test_a_negative_axis_counts_from_the_end():
    scale = aval(np.float32, 3)
    assert quantize(aval(np.float32, 2, 3, 4), scale, axis=-2).axis == 1


@pytest.mark.parametrize("axis", [-3, 2])
def test_the_first_and_the_last_axis_are_axes(axis):
    assert quantize(aval(np.float32, 2, 2, 2), aval(np.float32, 2), axis=axis).axis == axis % 3


@pytest.mark.parametrize("axis", [-4, 3, 4])
def test_an_axis_that_the_input_has_not_is_refused(axis):
    with pytest.raises(dmlax.SpecError, match=f"axis is {axis}, expected -3 to 2 for InputTensor"):
        quantize(aval(np.float32, 2, 2, 2), aval(np.float32, 2), axis=axis)


def test_rank_1_is_enough():
    assert quantize(aval(np.float32, 2), aval(np.float32)).output == aval(np.uint8, 2)
    with pytest.raises(dmlax.SpecError, match="expected rank 1 to 8"):
        quantize(aval(np.float32), aval(np.float32))


def test_parameters_spread_along_their_axis():
    found = quantize(aval(np.float32, 2, 3, 4, 5), aval(np.float32, 3), axis=1)
    assert found.spread(np.zeros(3)).shape == (1, 3, 1, 1)
    assert found.spread(np.zeros(())).shape == ()
    assert quantize(aval(np.float32, 3), aval(np.float32, 3), axis=0).spread(np.zeros(3)).ndim == 1
    found = quantize(aval(np.float32, 3, 2), aval(np.float32, 3), axis=0)
    assert found.spread(np.zeros(3)).shape == (3, 1)


def test_parameters_without_an_axis_get_the_inputs_rank():
    found = quantize(aval(np.float32, 2, 3), aval(np.float32, 2, 1))
    assert found.spread(np.zeros((2, 1))).shape == (2, 1)
    assert found.spread(np.zeros(3)).shape == (1, 3)
    assert found.spread(np.zeros(())).shape == ()


def test_a_parameter_of_one_element_goes_along_any_axis():
    assert quantize(aval(np.float32, 2, 3), aval(np.float32, 1), axis=1).output.shape == (2, 3)
    with pytest.raises(dmlax.SpecError):
        quantize(aval(np.float32, 2, 3), aval(np.float32, 0), axis=1)


SHAPES = [
    ((2, 3), (2,), None),
    ((2, 3), (1, 2, 3), None),
    ((1, 3), (2, 3), None),
    ((2, 3), (2,), 1),
    ((2, 3), (1, 3), 1),
    ((2, 3), (3,), 0),
]


@pytest.mark.parametrize(("shape", "parameter", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("field", ["ScaleTensor", "ZeroPointTensor"])
def test_parameters_that_do_not_broadcast_to_the_input_are_refused(field, shape, parameter, axis):
    one = field == "ScaleTensor"
    scale = aval(np.float32, *(parameter if one else ()))
    zero = aval(np.uint8, *(() if one else parameter))
    with pytest.raises(dmlax.SpecError) as caught:
        quantize(aval(np.float32, *shape), scale, zero, axis)
    assert (caught.value.code, caught.value.field) == ("sizes", field)


def test_equal_calls_share_a_plan():
    arguments = aval(np.float32, 2, 3), aval(np.float32)
    assert quantize(*arguments) is quantize(*arguments)
