"""Wrong keywords: the error names the right one."""

import numpy as np
import pytest

import dmlax
from dmlax import calibration
from dmlax._core import keywords
from dmlax._operators.registry import OPERATORS

X, W = np.ones((1, 1, 3, 3), np.uint8), np.ones((1, 1, 2, 2), np.int8)
FLOATS = np.ones(3, np.float32)
WRONG = [
    (
        lambda: dmlax.convolution_integer(X, W, window_strides=(1, 1)),
        "convolution_integer() got an unexpected keyword argument 'window_strides'; the keyword is "
        "'strides'",
    ),
    (
        lambda: dmlax.convolution_integer(X, W, feature_group_count=1),
        "convolution_integer() got an unexpected keyword argument 'feature_group_count'; the "
        "keyword is 'group_count'",
    ),
    (
        lambda: dmlax.convolution_integer(X, rhs=W),
        "convolution_integer() got an unexpected keyword argument 'rhs'; takes 'filter' as its "
        "second positional-only argument",
    ),
    (
        lambda: dmlax.quantized_linear_convolution(X, W, bias=None),
        "quantized_linear_convolution() takes 'bias' as its third positional-only argument",
    ),
    (
        lambda: dmlax.element_wise_quantize_linear(FLOATS, y_scale=1.0),
        "element_wise_quantize_linear() got an unexpected keyword argument 'y_scale'; takes "
        "'scale' as its second positional-only argument",
    ),
    (
        lambda: dmlax.nonzero_coordinates(FLOATS, fil_value=1),
        "nonzero_coordinates() got an unexpected keyword argument 'fil_value'; the keyword is "
        "'fill_value'",
    ),
    (
        lambda: dmlax.quantized_linear_convolution(X, W, weights_scale=1.0),
        "quantized_linear_convolution() got an unexpected keyword argument 'weights_scale'; the "
        "keyword is 'filter_scale'",
    ),
    (
        lambda: dmlax.quantized_linear_matrix_multiply(X, W, weights_zero_point=1),
        "quantized_linear_matrix_multiply() got an unexpected keyword argument "
        "'weights_zero_point'; the keyword is 'b_zero_point'",
    ),
    (
        lambda: dmlax.prepare_filter(W, groups=1),
        "prepare_filter() got an unexpected keyword argument 'groups'; the keyword is "
        "'group_count'",
    ),
    *(
        (
            lambda name=name: dmlax.quantized_linear_matrix_multiply(X, W, **{name: 1.0}),
            f"quantized_linear_matrix_multiply() got an unexpected keyword argument {name!r}; the "
            f"keyword is {right!r}",
        )
        for name, right in {
            "input_scale": "a_scale",
            "x_scale": "a_scale",
            "lhs_scale": "a_scale",
            "rhs_scale": "b_scale",
            "kernel_zero_point": "b_zero_point",
            "y_scale": "output_scale",
            "ouput_scale": "output_scale",
        }.items()
    ),
    (
        lambda: dmlax.quantized_linear_convolution(X, W, lhs_scale=1.0),
        "quantized_linear_convolution() got an unexpected keyword argument 'lhs_scale'; the "
        "keyword is 'input_scale'",
    ),
    (
        lambda: dmlax.quantized_linear_matrix_multiply(X, W, q_scale=1.0),
        "quantized_linear_matrix_multiply() got an unexpected keyword argument 'q_scale'; the "
        "keywords of tensors are a_scale, b_scale, output_scale, a_zero_point, b_zero_point, "
        "output_zero_point",
    ),
    (
        lambda: calibration.quantize_bias(FLOATS, 0.5, 0.5),
        "quantize_bias() takes 1 arguments by position; the next are keywords: input_scale, "
        "filter_scale",
    ),
    (
        lambda: dmlax.nonzero_coordinates(FLOATS, qqqq=1),
        "nonzero_coordinates() got an unexpected keyword argument 'qqqq'",
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_keyword_is_answered_with_the_right_one(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == message


def test_other_type_errors_are_pythons():
    with pytest.raises(TypeError, match="missing 3 required keyword-only arguments"):
        dmlax.quantized_linear_convolution(X, W)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'filter'"):
        dmlax.convolution_integer(X)


def test_every_parameter_that_has_other_names_exists():
    parameters = {
        name
        for function in (*(row.function for row in OPERATORS), dmlax.prepare_filter)
        for name in keywords.inspect.signature(function).parameters
    }
    assert set(keywords._OTHER_NAMES) <= parameters
