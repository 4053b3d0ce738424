"""A folded batch norm equals the layer and the norm after it."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlax
from dmlax import calibration


@pytest.mark.parametrize("seed", range(12))
def test_a_folded_layer_is_the_layer_and_its_norm(seed):
    draw = np.random.default_rng(seed)
    layout, axis = [("OIHW", 0), ("HWIO", -1), ("KN", -1), ("NK", 0)][seed % 4]
    channels, given = (int(n) for n in draw.integers(2, 6, 2))
    size = {"O": channels, "I": given, "H": 3, "W": 2, "K": given, "N": channels}
    weights = jnp.float32(draw.normal(size=[size[x] for x in layout]))
    bias, mean, offset = jnp.float32(draw.normal(size=(3, channels)))
    variance, scale = jnp.float32(draw.uniform(0.1, 4, size=(2, channels)))
    bias, scale, offset = (x if draw.integers(2) else None for x in (bias, scale, offset))
    epsilon = float(draw.choice([1e-5, 1e-3]))

    def layer(weights, bias):
        if len(layout) == 2:
            y = x @ (weights if layout == "KN" else weights.T)
        else:
            y = lax.conv_general_dilated(
                x, weights, (1, 1), "SAME", dimension_numbers=("NHWC", layout, "NHWC")
            )
        return y if bias is None else y + bias

    x = jnp.float32(draw.normal(size=(2, given) if len(layout) == 2 else (2, 5, 4, given)))
    norm = (layer(weights, bias) - mean) / jnp.sqrt(variance + epsilon)
    norm = norm if scale is None else norm * scale
    norm = norm if offset is None else norm + offset
    folded = calibration.fold_batch_norm(
        weights, bias, mean, variance, scale, offset, axis=axis, epsilon=epsilon
    )
    assert [y.shape for y in folded] == [weights.shape, (channels,)]
    np.testing.assert_allclose(layer(*folded), norm, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("weights", "mean", "options", "code", "text"),
    [
        ((4, 3, 1, 1), (3,), {}, "sizes", r"mean has shape \(3,\), expected \(4,\)"),
        ((4, 3), (3,), {}, "option", "axis has no default"),
        ((4, 3), (3,), {"axis": None}, "option", "axis is None, expected an axis"),
        ((4, 3), (3,), {"axis": 2}, "option", "axis is 2"),
    ],
)
def test_a_wrong_fold(weights, mean, options, code, text):
    with pytest.raises(dmlax.SpecError, match=text) as caught:
        calibration.fold_batch_norm(jnp.ones(weights), None, jnp.ones(mean), jnp.ones(3), **options)
    assert caught.value.code == code
