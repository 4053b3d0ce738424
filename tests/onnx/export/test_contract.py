"""Names of inputs and outputs, wrong options, and functions that no file can hold."""

import functools
import inspect
import re
import sys
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
import dmlax.onnx
from dmlax import SpecError, UnsupportedError, calibration, training
from support import exports

X = np.ones((2, 3), np.float32)


def names(values):
    return [value.name for value in values]


def line_of(function, text):
    """The position of a line of a function's source."""
    lines, first = inspect.getsourcelines(function)
    (offset,) = (number for number, line in enumerate(lines) if text in line)
    return f"{__file__}:{first + offset}"


def test_names_come_from_parameters_and_results():
    def function(images, state, *rest):
        return {"logits": images, "state": [state["a"] + 1, rest[0]]}

    model = dmlax.onnx.from_jax(function, X, {"a": X}, X)
    assert names(model.graph.input) == ["images", "state.a", "rest.0"]
    assert names(model.graph.output) == ["output.logits", "output.state.0", "output.state.1"]


def test_names_can_be_chosen():
    model = dmlax.onnx.from_jax(
        lambda x, y: (x, y + 1), X, X, input_names=["a", "b"], output_names=["c", "d"]
    )
    assert (names(model.graph.input), names(model.graph.output)) == (["a", "b"], ["c", "d"])
    assert exports.count_different([X, X + 1], exports.run(model, [X, X])) == 0


def test_outputs_may_be_inputs_constants_and_each_other():
    def function(x):
        y = x + 1
        return x, x, y, y, jnp.arange(3)

    exports.check(function, X, forms=["qdq"])


def test_closed_over_arrays_are_initializers():
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    model = dmlax.onnx.from_jax(lambda x: x @ weights @ jnp.asarray(weights).T, X)
    assert names(model.graph.input) == ["x"]
    assert [list(constant.dims) for constant in model.graph.initializer] == [[3, 4], [4, 3]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "QDQ"}, "from_jax: form is 'QDQ', expected one of qdq, qoperator"),
        ({"opset": 12}, "from_jax: opset is 12, expected"),
        ({"input_names": ["a", "b"]}, "input_names is ['a', 'b'], expected 1 different names"),
        ({"output_names": "a"}, "output_names is 'a', expected 1 different names that no input"),
        (
            {"output_names": ["x"]},
            "output_names is ['x'], expected 1 different names that no input",
        ),
        ({"dynamic": {"y": {0: "n"}}}, "dynamic names no input: 'y'"),
        ({"dynamic": {"x": {2: "n"}}}, "dynamic of x is 2: 'n', expected an axis of"),
        ({"dynamic": {"x": {0: "n*2"}}}, "dynamic of x is 0: 'n*2', expected an axis of"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        dmlax.onnx.from_jax(lambda x: x, X, **options)
    assert caught.value.code == "option"


def test_every_unsupported_part_is_listed_with_its_line():
    @jax.jit
    def inner(x):
        return jax.lax.erf_inv(x)

    def function(x):
        y = jax.pure_callback(lambda x: x, x, inner(x))
        jax.debug.print("{}", y)
        return dmlax.nonzero_coordinates(y, size=3)

    with pytest.raises(UnsupportedError) as caught:
        dmlax.onnx.from_jax(function, X)
    message = str(caught.value)
    for name, text in {
        "pure_callback": "pure_callback",
        "debug_print": "debug.print",
        "nonzero_coordinates": "nonzero_coordinates",
    }.items():
        assert f"{name} is not supported, at {line_of(function, text)}" in message
    assert f"erf_inv is not supported, at {line_of(inner, 'erf_inv')}" in message
    assert caught.value.field == "function"


def test_weights_are_no_arguments():
    """One line for each call, which names the function that the user called."""
    range = calibration.quantization(calibration.min_max().observe(X))

    def layer(weights, bias, x):
        rounded = calibration.quantize_weights(weights, axis=-1)
        scales = calibration.keywords(a=range, b=rounded, output=range)
        return training.quantized_linear_matrix_multiply(x, weights, bias, **scales)

    weights, bias = np.ones((3, 2), np.float32), np.ones(2, np.float32)
    with pytest.raises(UnsupportedError) as caught:
        dmlax.onnx.from_jax(layer, weights, bias, X)
    remedy = "reads arguments of the function, expected constants: close over the weights, at"
    names = ("quantize_weights", "quantized_linear_matrix_multiply")
    lines = [f"{name} {remedy} {line_of(layer, name)} (layer)" for name in names]
    lines = [line.replace("(layer)", f"({layer.__qualname__})") for line in lines]
    assert str(caught.value) == f"from_jax: {'; '.join(lines)}"
    closed = functools.partial(layer, weights, bias)
    exports.check(lambda x: closed(x), X, forms=["qoperator"])


def test_a_callback_of_constants_is_not_run():
    with pytest.raises(UnsupportedError, match="pure_callback is not supported"):
        dmlax.onnx.from_jax(lambda x: x + jax.pure_callback(lambda x: x, X, X), X)


def test_unsupported_options_say_why():
    scale = jnp.ones((2, 1))
    matrix = np.ones((3, 2), np.int8)

    def rows(x):
        return dmlax.quantized_linear_matrix_multiply(
            x, matrix, a_scale=scale, b_scale=1.0, output_scale=1.0
        )

    def scales(x, scale):
        return jax.vmap(lambda s: dmlax.element_wise_quantize_linear(x, s))(scale)

    with pytest.raises(UnsupportedError, match="is mapped by vmap over its tensor, at"):
        dmlax.onnx.from_jax(jax.vmap(dmlax.dynamic_quantize_linear), X)
    with pytest.raises(UnsupportedError, match="has a scale or zero point for every row, at"):
        dmlax.onnx.from_jax(rows, X.astype(np.int8))
    with pytest.raises(UnsupportedError, match="is mapped by vmap over its scale, at"):
        dmlax.onnx.from_jax(scales, X, np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "cannot be traced at {}: Attempted boolean"),
        (lambda x: np.asarray(x) + 1, "cannot be traced at {}: The numpy.ndarray conversion"),
        (lambda x: x if x.shape[0] > 3 else -x, "depends on a dynamic size at {}: Symbolic"),
        (
            lambda x: x.reshape(len(x), -1),
            "needs an integer for a dynamic size at {}: '_DimExpr' object cannot be interpreted as "
            "an integer; x.shape[0] stays dynamic where len(x) cannot",
        ),
    ],
)
def test_an_untraceable_function_names_the_line(function, message):
    position = f"{__file__}:{function.__code__.co_firstlineno} (<lambda>)"
    with pytest.raises(UnsupportedError, match=re.escape(message.format(position))):
        dmlax.onnx.from_jax(function, X, input_names=["x"], dynamic={"x": {0: "n"}})


def test_an_error_of_the_function_stays_as_it_is():
    with pytest.raises(TypeError, match="dot_general requires"):
        dmlax.onnx.from_jax(lambda x: x @ x, X)


def test_without_onnx_it_says_what_to_install():
    with (
        mock.patch.dict(sys.modules, {"onnx": None}),
        pytest.raises(ImportError, match=r"writing an ONNX model needs .*dmlax\[onnx\]"),
    ):
        dmlax.onnx.from_jax(lambda x: x, X)
