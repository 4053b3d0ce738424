"""Whole networks that are written in JAX: their exports have the same bits in ONNX Runtime."""

import numpy as np
import pytest

from support import exports
from support.jax_networks import draw_images, mobilenet, resnet

SMALL = {
    "resnet": lambda layout: resnet(layout, (1, 1), 8, 10),
    "mobilenet": lambda layout: mobilenet(layout, ((1, 8, 1, 1), (6, 16, 2, 2)), 32),
}
WHOLE = {"resnet": resnet, "mobilenet": mobilenet}


def logits_are_spread(network, images):
    """True if the drawn scales neither clamp everything nor lose it."""
    logits = np.asarray(network(images))
    return len(np.unique(logits)) > 5


@pytest.mark.parametrize(("name", "layout"), [("resnet", "NHWC"), ("mobilenet", "NCHW")])
def test_a_small_network_has_the_same_bits(name, layout):
    network, images = SMALL[name](layout), draw_images(layout, 33, 2)
    assert logits_are_spread(network, images)
    exports.check(network, images, dynamic={"images": {0: "n"}})


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_network_has_the_same_bits(name, layout):
    network, images = WHOLE[name](layout), draw_images(layout, 224)
    assert logits_are_spread(network, images)
    exports.check(network, images)
