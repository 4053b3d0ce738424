"""Functions that quantize refuses or leaves in float, and the names in its errors."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlax
from dmlax.quantization import Rule, quantize

X = jnp.float32(np.random.default_rng(1).normal(size=(4, 6)))
W = jnp.float32(np.random.default_rng(2).normal(size=(3, 6, 6)))


def scanned(w, x):
    return lax.scan(lambda y, each: (jnp.tanh(y @ each), None), x, w)[0]


def looped(w, x):
    def step(carry):
        return carry[0] + 1, carry[1] @ w[0]

    return lax.while_loop(lambda carry: carry[0] < 2, step, (0, x))[1]


def chosen(w, x):
    return lax.cond(x[0, 0] > 0, lambda: x @ w[0], lambda: x)


def nested(w, x):
    def step(y, each):
        return lax.cond(y[0, 0] > 0, lambda: y @ each, lambda: y), None

    return lax.scan(step, x, w)[0]


def grouped(w, x):
    return lax.conv_general_dilated(
        jnp.concatenate([x[:, None]] * 3), w[:, :1, :3], (1,), [(0, 0)], batch_group_count=3
    )


def cropped(w, x):
    return lax.conv_general_dilated(x[:, None], w[:, :1, :3], (1,), [(-1, 0)])


@pytest.mark.parametrize(
    ("function", "name", "why"),
    [
        (scanned, "scan", "no operator is a scan of layers"),
        (looped, "while", "no operator is a while of layers"),
        (chosen, "cond", "no operator is a cond of layers"),
        (nested, "scan", "no operator is a scan of layers"),
        (grouped, "conv_general_dilated", "no operator groups the batch"),
        (cropped, "conv_general_dilated", "no operator has this rank or negative padding"),
    ],
)
def test_a_layer_that_no_operator_has_is_float_or_an_error_with_its_line(function, name, why):
    quantized = quantize(function, W, [X])
    lines = [x for x in quantized.report.lines if x.operator == name]
    assert [x.runs.startswith(f"float: {why}") for x in lines] == [True]
    assert "test_bad_functions.py" in lines[0].name
    assert np.allclose(quantized(X), function(W, X), rtol=1e-5, atol=1e-5)
    with pytest.raises(dmlax.UnsupportedError) as caught:
        quantize(function, W, [X], on_unsupported="error")
    assert f"{name} at " in str(caught.value)
    assert f"({function.__name__})" in str(caught.value)
    assert why in str(caught.value)


def test_products_of_values_and_loops_without_layers_are_no_error():
    def function(w, x):
        y = lax.fori_loop(0, 3, lambda _, y: y * 0.5, x @ w[0])
        return y @ x.T

    assert quantize(function, W, [X], on_unsupported="error")(X).shape == (4, 4)


def test_a_choice_that_is_none_is_an_error():
    with pytest.raises(dmlax.SpecError, match="on_unsupported"):
        quantize(scanned, W, [X], on_unsupported="warn")


def test_a_function_that_jax_cannot_trace_is_an_error_with_its_line():
    def function(w, x):
        return x @ w[0] if x.sum() > 0 else x

    with pytest.raises(dmlax.UnsupportedError, match=r"cannot be traced at .*test_bad_functions"):
        quantize(function, W, [X])


def two(params, x):
    return jnp.log(x @ params["first"]) @ params["last"]


@pytest.mark.parametrize(
    ("params", "x", "place"),
    [
        ({"first": W[0], "last": W[1]}, X * np.nan, "the input of first"),
        ({"first": W[0] * np.inf, "last": W[1]}, X, "the result of first"),
        ({"first": -jnp.abs(W[0]), "last": W[1]}, jnp.abs(X), "the input of last"),
    ],
)
def test_a_range_with_nan_names_the_layer(params, x, place):
    with pytest.raises(dmlax.SpecError) as caught:
        quantize(two, params, [x])
    assert f"batches give no scale for {place}: quantization" in str(caught.value)
    assert caught.value.code == "value"


def test_tuned_parameters_with_nan_name_the_layer():
    params = {"first": W[0], "last": W[1]}
    quantized = quantize(lambda p, x: (x @ p["first"]) @ p["last"], params, [X])
    with pytest.raises(dmlax.SpecError, match="params give no scale for last"):
        quantized.with_params(params | {"last": W[1] * np.nan})


def test_a_rule_of_an_unsupported_layer_says_what_it_is():
    with pytest.raises(dmlax.SpecError, match="are parameters, but no weights"):
        quantize(lambda p, x: scanned(p["w"], x), {"w": W}, [X], rules=[Rule("w")])


@pytest.mark.parametrize("function", [grouped, scanned])
def test_a_rule_leaves_a_layer_that_no_operator_has_in_float(function):
    options = {"rules": [Rule("w", to_float=True)], "on_unsupported": "error"}
    quantized = quantize(lambda p, x: function(p["w"], x), {"w": W}, [X], **options)
    assert [x.runs for x in quantized.report.lines] == ["float: a rule"]
    assert np.allclose(quantized(X), function(W, X), rtol=1e-5, atol=1e-5)
