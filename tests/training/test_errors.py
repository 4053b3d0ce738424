"""Wrong calls are refused with the operator's errors, before anything runs."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax import training

X, W = np.ones((1, 2, 4, 4), np.float32), np.ones((3, 2, 1, 1), np.float32)
SCALES = {"input_scale": 0.5, "filter_scale": 0.5, "output_scale": 0.5}
SUMS = {"addend_scale": 0.5, "sum_scale": 0.5}
NAMES = [name for name in training.__all__ if hasattr(dmlax, name)]

WRONG = {
    "integers": ((X.astype(np.int8), W), {}, "data_type", "InputTensor"),
    "no array": ((X, [[1.0]]), {}, "data_type", "FilterTensor"),
    "bias of integers": ((X, W, np.ones(3, np.int32)), {}, "data_type", "BiasTensor"),
    "16 bits": ((X, W), {"input_dtype": np.int16}, "data_type", "InputTensor"),
    "no dtype": ((X, W), {"filter_dtype": "octet"}, "data_type", "FilterTensor"),
    "16 bits out": ((X, W), {"output_dtype": np.int16}, "data_type", "OutputTensor"),
    "scale 0": ((X, W), {"input_scale": 0}, "value", "InputScaleTensor"),
    "infinite": ((X, W), {"output_scale": np.inf}, "value", "OutputScaleTensor"),
    "channels": ((X, W), {"filter_scale": np.ones(2, np.float32)}, "sizes", "FilterScaleTensor"),
    "scales of bfloat16": (
        (X, W),
        {"input_scale": jnp.bfloat16(0.5)},
        "data_type",
        "InputScaleTensor",
    ),
    "zero point": ((X, W), {"input_zero_point": -1}, "value", "InputZeroPointTensor"),
    "dtypes differ": (
        (X, W),
        {"input_zero_point": np.int8(1), "input_dtype": np.uint8},
        "data_type",
        "InputZeroPointTensor",
    ),
    "sizes": ((X, W[:, :1]), {}, "sizes", "FilterTensor"),
    "strides": ((X, W), {"strides": 0}, "option", "Strides"),
    "arithmetic": ((X, W), {"arithmetic": "double"}, "option", "arithmetic"),
    "implementation": ((X, W), {"implementation": "gpu"}, "option", "implementation"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_refused(name):
    tensors, options, code, field = WRONG[name]
    with pytest.raises(dmlax.SpecError, match=r"^quantized_linear_convolution: ") as caught:
        training.quantized_linear_convolution(*tensors, **{**SCALES, **options})
    assert (caught.value.code, caught.value.field) == (code, field)


@pytest.mark.parametrize(
    ("options", "code", "field"),
    [
        ({"addend_scale": 0}, "value", "AddendScaleTensor"),
        ({"sum_dtype": np.int16}, "data_type", "OutputTensor"),
        ({"sum_zero_point": np.float32(1)}, "data_type", "SumZeroPointTensor"),
        ({"addend_first": 1}, "option", "AddendFirst"),
    ],
)
def test_a_wrong_sum_has_the_fields_of_the_one_operator(options, code, field):
    addend = np.ones((1, 3, 4, 4), np.float32)
    with pytest.raises(dmlax.SpecError, match=r"^quantized_linear_convolution_add: ") as caught:
        training.quantized_linear_convolution_add(
            X, W, None, addend, **{**SCALES, **SUMS, **options}
        )
    assert (caught.value.code, caught.value.field) == (code, field)


@pytest.mark.parametrize(
    ("arguments", "options", "code", "field"),
    [
        ((1.5, 0.5), {}, "data_type", "InputTensor"),
        ((X, 0), {}, "value", "ScaleTensor"),
        ((X, np.ones(3, np.float32)), {"axis": 1}, "sizes", "ScaleTensor"),
        ((X, 0.5), {"dtype": np.int32}, "data_type", "OutputTensor"),
    ],
)
def test_a_wrong_fake_quantization_is_refused(arguments, options, code, field):
    with pytest.raises(dmlax.SpecError) as caught:
        training.fake_quantize(*arguments, **options)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_a_count_of_an_lsq_scale_is_positive():
    with pytest.raises(dmlax.SpecError, match="scale_gradient: count is 0"):
        training.scale_gradient(jnp.float32(1), 0)


def test_an_implementation_that_an_operator_lacks_is_unsupported():
    with pytest.raises(dmlax.UnsupportedError, match="mosaic_gpu does not exist"):
        training.quantized_linear_average_pooling(
            X, window_size=2, input_scale=1.0, output_scale=1.0, implementation="mosaic_gpu"
        )


def test_an_unknown_keyword_names_the_right_one():
    with pytest.raises(TypeError, match="the keyword is 'input_scale'"):
        training.quantized_linear_convolution(X, W, x_scale=1.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_function_has_its_operators_arguments_and_the_dtypes_of_its_tensors(name):
    own, operators = (
        inspect.signature(getattr(module, name)).parameters for module in (training, dmlax)
    )
    tensors = [key for key in operators if f"{key}_scale" in operators]
    added = {f"{tensor}_dtype" for tensor in tensors}
    assert own.keys() == operators.keys() | added
    for key in operators:
        parameter = operators[key]
        assert (own[key].kind, own[key].default) == (parameter.kind, parameter.default), key
    assert all(own[key].default is None for key in added)


def test_a_wrong_call_fails_while_it_is_traced():
    with pytest.raises(dmlax.SpecError, match="FilterTensor is int8"):
        jax.eval_shape(
            lambda x: training.quantized_linear_convolution(x, W[:, :1], **SCALES),
            jax.ShapeDtypeStruct(X.shape, jnp.float32),
        )
