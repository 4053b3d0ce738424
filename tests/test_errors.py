"""Errors that are Python's too, traced options, and scales whose values are not checked."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from support.wrong_calls import VALID, call

FLAT, X = np.ones((2, 3), np.float32), np.ones((1, 1, 5, 5), np.uint8)


def test_errors_are_also_what_python_would_raise():
    with pytest.raises(ValueError, match="rank 1 to 8"):
        dmlax.nonzero_coordinates(np.float32(1))
    with pytest.raises(NotImplementedError, match="mosaic_gpu does not exist"):
        dmlax.element_wise_quantize_linear(FLAT, 1.0, implementation="mosaic_gpu")


def test_errors_survive_a_pickle():
    error = dmlax.SpecError("a message", "sizes", "InputTensor")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.code, copy.field) == ("a message", "sizes", "InputTensor")


TRACED = [
    ("nonzero_coordinates", "size", "size"),
    ("nonzero_coordinates", "fill_value", "fill_value"),
    ("convolution_integer", "strides", "Strides"),
    ("convolution_integer", "group_count", "GroupCount"),
    ("element_wise_quantize_linear", "axis", "axis"),
]


@pytest.mark.parametrize(("function", "option", "field"), TRACED)
def test_a_traced_option_is_refused(function, option, field):
    with pytest.raises(dmlax.SpecError) as caught:
        jax.jit(lambda n: call(function, {option: (n, 1) if option == "strides" else n}))(1)
    text = "is the traced or device array int32[], expected a static integer"
    assert str(caught.value) == f"{function}: {field} {text}"
    assert (caught.value.code, caught.value.field) == ("option", field)


# --- scales on a device -------------------------------------------------------------------

BAD = [0.0, -0.0, np.nan, np.inf, -np.inf]
SCALED = [(name, {}) for name in VALID if any("scale" in option for option in VALID[name])]
SCALED += [
    (name, {"arithmetic": "float32"})
    for name, _ in SCALED
    if name != "element_wise_dequantize_linear"
]
SCALED += [("element_wise_quantize_linear", {"input": FLAT.astype(np.int32)})]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("function", "options"), SCALED)
def test_a_bad_traced_scale_finishes_with_the_right_shape(function, options):
    """The output's elements are unspecified; there is no crash, and no wait without end."""
    scales = [name for name in VALID[function] if name.endswith("scale")]
    for traced in (scales, *([name] for name in scales)):
        scaled = jax.jit(
            lambda s, names=traced: call(function, {**options, **dict.fromkeys(names, s)})
        )
        shape = jax.eval_shape(scaled, np.float32(1))
        for bad in BAD:
            result = scaled(np.float32(bad)).block_until_ready()
            assert (result.shape, result.dtype) == (shape.shape, shape.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("implementation", ["xla", "reference"])
def test_a_traced_nan_scale_dequantizes_to_nan(dtype, implementation):
    options = {"implementation": implementation}
    dequantize = jax.jit(lambda *x: dmlax.element_wise_dequantize_linear(*x, **options))
    x = np.uint8([[3, 4, 255], [3, 0, 7]])
    y = np.asarray(dequantize(x, dtype([[np.nan], [2.0]]), np.uint8(3)))
    assert np.isnan(y[0]).all()
    assert y[1].tolist() == [0.0, -6.0, 8.0]


def test_a_dead_channel_has_scale_1_and_a_zero_filter_and_bias():
    """The remedy that a zero filter scale is refused with gives its channel's zero point."""
    w, bias = np.int8([[[[2]]], [[[0]]]]), np.int32([7, 0])
    scales = {"input_scale": 1.0, "filter_scale": np.float32([0.5, 1.0]), "output_scale": 1.0}
    y = dmlax.quantized_linear_convolution(X, w, bias, **scales, output_zero_point=9)
    assert (np.asarray(y)[:, 1] == 9).all()


def test_a_bad_scale_on_a_device_is_not_looked_at():
    result = dmlax.element_wise_quantize_linear(FLAT, jnp.float32(0))
    assert (result.shape, result.dtype) == ((2, 3), np.uint8)
