"""Networks written in Flax: nearly all of their multiply-adds run in integers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax.quantization import quantize
from support import flax_networks

SMALL = {
    "resnet": lambda: flax_networks.resnet((1,), 8, 10),
    "mobilenet": lambda: flax_networks.mobilenet(((1, 16, 1, 1), (6, 16, 1, 1)), 32, 10),
    "vit": lambda: flax_networks.vit(1, 32, 2, 8, 32, 10),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what Flax uses
@pytest.mark.parametrize("name", SMALL)
def test_a_network_of_flax_runs_in_integers(name):
    function, params = SMALL[name]()
    x = jnp.float32(np.random.default_rng(0).normal(size=(2, 32, 32, 3)))
    quantized = quantize(function, params, [x])
    assert quantized.report.integer_share == 1
    expected, actual = function(params, x), jax.jit(quantized)(x)
    assert 10 * jnp.log10((expected**2).sum() / ((expected - actual) ** 2).sum()) > 25
