"""Cross-layer equalization: better scores of networks with spread channels, the same floats."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dmlax.quantization import Rule, quantize
from dmlax.quantization.quantize import _folded
from support import assert_same

LAST, FIRST = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


def convolve(x, w, layouts, groups=1):
    options = {"dimension_numbers": layouts, "feature_group_count": groups}
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", **options)


def network(layouts):
    """A layer of MobileNetV2: wider, each channel alone, narrower; then groups and a product."""
    per_channel = (-1,) if layouts is LAST else (-1, 1, 1)

    def function(params, x):
        bias, norm = (params[name].reshape(per_channel) for name in ("bias", "norm"))
        x = jax.nn.relu(convolve(x, params["wide"], layouts) + bias)
        x = jax.nn.relu(convolve(x, params["depth"], layouts, 16) * norm)
        x = convolve(x, params["groups"], layouts, 2)
        x = jax.nn.relu(convolve(x, params["narrow"], layouts))
        x = jnp.moveaxis(x, 1, -1) if layouts is FIRST else x
        return jax.nn.relu(x @ params["a"]) @ params["b"]

    return function


def spread(rng, layouts):
    """Parameters whose channels have ranges far apart, which the next layer makes up for."""
    size = np.exp2(rng.uniform(-5, 5, 16)).astype(np.float32)
    shapes = {"wide": (1, 1, 4, 16), "depth": (3, 3, 1, 16), "groups": (1, 1, 8, 16)}
    params = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    params |= {"narrow": rng.normal(size=(1, 1, 16, 8)), "bias": rng.normal(size=16)}
    params |= {"a": rng.normal(size=(8, 16)), "b": rng.normal(size=(16, 5)), "norm": np.ones(16)}
    params["wide"], params["bias"] = params["wide"] * size, params["bias"] * size
    params["depth"] = params["depth"] / size * size[::-1]
    params["groups"] = params["groups"] / size[::-1].reshape(2, 8).T.repeat(8, 1)
    params["a"], params["b"] = params["a"] * size, params["b"] / size[:, None]
    if layouts is FIRST:
        params |= {k: v.transpose(3, 2, 0, 1) for k, v in params.items() if v.ndim == 4}
    return jax.tree.map(jnp.float32, params)


def noise(function, params, x, quantized):
    wanted = np.asarray(function(params, x), np.float64)
    return 10 * np.log10((wanted**2).sum() / ((wanted - np.asarray(quantized(x))) ** 2).sum())


@pytest.mark.parametrize("layouts", [LAST, FIRST], ids=["last", "first"])
def test_spread_channels_have_better_scores(layouts):
    rng = np.random.default_rng(4)
    function, params = network(layouts), spread(rng, layouts)
    x = jnp.float32(rng.normal(size=(4, 6, 6, 4)))
    x = jnp.moveaxis(x, -1, 1) if layouts is FIRST else x
    plain, equal = (quantize(function, params, [x], equalize=e) for e in (False, True))
    assert len(equal.factors) == (5 if layouts is LAST else 4)  # a transposition
    assert not plain.factors
    assert noise(function, params, x, equal) > noise(function, params, x, plain) + 10
    assert min(line.signal_to_noise for line in equal.report.lines) > 20
    assert_same(equal.training()(params, x), equal(x))
    other = jax.tree.map(lambda p: p * jnp.float32(1.1), params)
    assert_same(equal.with_params(other)(x), equal.training()(other, x))


@pytest.mark.parametrize("layouts", [LAST, FIRST], ids=["last", "first"])
def test_the_float_function_stays(layouts):
    """The factors are powers of two, so that each layer and the network have the same bits."""
    rng = np.random.default_rng(5)
    function, params = network(layouts), spread(rng, layouts)
    x = jnp.float32(rng.normal(size=(2, 4, 6, 6) if layouts is FIRST else (2, 6, 6, 4)))
    quantized = quantize(function, params, [x], equalize=True)
    plan, factors = quantized.plan, quantized.factors
    constants = plan.program.constants_of(quantized.constants, jax.tree.leaves(params))
    names = {step.name: step for step in plan.steps if step.weights >= 0}
    folded = {name: _folded(plan.program, step, constants, factors) for name, step in names.items()}
    found = {name: weights.reshape(params[name].shape) for name, (weights, _) in folded.items()}
    for values in factors.values():
        assert_same(np.frexp(np.asarray(values))[0], np.full(values.shape, 0.5, np.float32))
    assert max(len(np.unique(values)) for values in factors.values()) > 4
    assert all((found[name] != params[name]).any() for name in ("wide", "depth", "a", "b"))
    equal = {**params, **found, "bias": folded["wide"][1]}
    assert_same(jax.jit(function)(equal, x), jax.jit(function)(params, x))


def clipped(x):
    return jnp.minimum(jax.nn.relu(x), 6)


def two(params, x):
    y = jax.nn.relu(x @ params["a"])
    return y @ params["b"] + y.sum()


def twice(params, x):
    y = jax.nn.relu(x @ params["c"])
    return jax.nn.relu(y @ params["c"]) @ params["c"]


NOT = {
    "a limit between": lambda params, x: clipped(x @ params["a"]) @ params["b"],
    "two readers": two,
    "shared weights": twice,
    "another function between": lambda params, x: jnp.tanh(x @ params["a"]) @ params["b"],
    "a transposition between": lambda params, x: (x @ params["a"]).T @ params["c"],
}


@pytest.mark.parametrize("name", NOT)
def test_what_lies_between_keeps_the_channels(name):
    rng = np.random.default_rng(6)
    shapes = {"a": (6, 9), "b": (9, 6), "c": (6, 6)}
    params = {name: jnp.float32(rng.normal(size=shape)) for name, shape in shapes.items()}
    x = jnp.float32(rng.normal(size=(6, 6)))
    plain, equal = (quantize(NOT[name], params, [x], equalize=e) for e in (False, True))
    assert not equal.factors
    assert_same(equal(x), plain(x))


def test_channels_without_weights_and_left_layers():
    params = {"a": jnp.float32([[1, 0, 64]]), "b": jnp.float32([[1], [1], [0]])}
    x = jnp.ones((2, 1), jnp.float32)

    def function(params, x):
        return (x @ params["a"]) @ params["b"]

    (factors,) = quantize(function, params, [x], equalize=True).factors.values()
    assert factors.tolist() == [1, 1, 1]
    rules = [Rule("a", to_float=True)]
    assert not quantize(function, params, [x], rules=rules, equalize=True).factors


def test_the_correction_of_biases_is_that_of_equal_channels():
    rng = np.random.default_rng(7)
    function, params = network(LAST), spread(rng, LAST)
    x = jnp.float32(rng.normal(size=(8, 6, 6, 4)))
    rules = [Rule(bits=4)]
    plain, corrected = (
        quantize(function, params, [x], rules=rules, equalize=True, bias_correction=c)
        for c in (False, True)
    )
    assert noise(function, params, x, corrected) > noise(function, params, x, plain)
