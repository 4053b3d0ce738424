"""A residual network for handwritten digits in Flax NNX: float32, 8 bits, fine-tuned, exported.

    python docs/examples/train_int8.py --output train_int8.png

Needs flax, matplotlib, onnx, onnxruntime, rich and scikit-learn besides dmlax, and digits.py beside
it.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from flax import nnx
from jax import Array

import digits
import dmlax.onnx
from dmlax import calibration, training

# The float network -----------------------------------------------------------------------------


class Convolution(nnx.Conv):
    """A convolution and a relu."""

    def __call__(self, x: Array) -> Array:
        return nnx.relu(super().__call__(x))


def add(a: Array, b: Array) -> Array:
    """A residual sum and a relu."""
    return nnx.relu(a + b)


def in_float32(name: str, layer: Callable[..., Array], *inputs: Array) -> Array:
    """Computes a layer as Flax does."""
    return layer(*inputs)


class Network(nnx.Module):
    """Two residual blocks and a classifier. `run` computes a layer by its name."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        convolution = functools.partial(Convolution, kernel_size=(3, 3), rngs=rngs)
        self.stem, self.down = convolution(1, 16), convolution(16, 32, strides=2)
        self.first, self.second = convolution(32, 32), convolution(32, 32)
        self.third, self.fourth = convolution(32, 32), convolution(32, 32)
        self.scores = nnx.Conv(32, 10, (4, 4), padding="VALID", rngs=rngs)

    def __call__(self, x: Array, run: Callable[..., Array] = in_float32) -> Array:
        """The scores of the ten digits."""
        x = run("down", self.down, run("stem", self.stem, x))
        y = run("second", self.second, run("first", self.first, x))
        x = run("first sum", add, x, y)
        y = run("fourth", self.fourth, run("third", self.third, x))
        x = run("second sum", add, x, y)
        return run("scores", self.scores, x)[:, 0, 0]


# The quantization ------------------------------------------------------------------------------


def calibrate(layers: digits.Layers) -> dict[str, list[calibration.Quantization]]:
    """The scales and zero points of the inputs and the output of each layer."""
    observe = calibration.min_max().observe
    return {name: [calibration.quantization(observe(x)) for x in layers[name]] for name in layers}


def in_int8(ranges: dict, name: str, layer: Any, *inputs: Array, weight_bits: int = 8) -> Array:
    """Computes a layer with the bits of 8-bit integers, rounded as ONNX Runtime rounds."""
    *operands, output = ranges[name]
    if layer is add:
        scales = calibration.keywords(a=operands[0], b=operands[1], output=output)
        return training.element_wise_quantized_linear_add(*inputs, **scales, arithmetic="float32")
    w, b = layer.kernel[...], layer.bias[...]
    filter = calibration.quantize_weights(w, axis=3, bits=weight_bits)
    scales = calibration.keywords(input=operands[0], filter=filter, output=output)
    options = {"strides": layer.strides, "padding": layer.padding, "arithmetic": "float32"}
    options["dimension_numbers"] = ("NHWC", "HWIO", "NHWC")
    return training.quantized_linear_convolution(*inputs, w, b, **scales, **options)


# From floats to a file -------------------------------------------------------------------------


def main(arguments: Sequence[str] = ()) -> digits.Stages:
    """Train, calibrate, quantize, fine-tune, export, compare, draw."""
    options = digits.parse_options(__doc__, arguments)
    known, unseen = (x._replace(images=jnp.moveaxis(x.images, 1, 3)) for x in digits.load())
    graph, initial = nnx.split(Network(nnx.Rngs(0)))

    def fit(run: Callable[..., Array], weights: Any, steps: int, rate: float) -> Any:
        def forward(weights: Any, images: Array) -> Array:
            return nnx.merge(graph, weights)(images, run)

        return digits.train(forward, weights, known, steps, jax.random.key(1), rate)

    weights = fit(in_float32, initial, options.steps, 0.005)
    network = nnx.merge(graph, weights)
    int8 = functools.partial(in_int8, calibrate(digits.record(network, in_float32, known.images)))
    int2 = functools.partial(int8, weight_bits=2)
    tuned, tuned_2 = (
        nnx.merge(graph, fit(run, weights, options.steps // 3, 0.001)) for run in (int8, int2)
    )
    scores = jax.jit(lambda images: tuned(images, int8))
    differing = {}
    for form in ("qdq", "qoperator"):
        file = dmlax.onnx.from_jax(scores, unseen.images, input_names=["images"], form=form)
        session = onnxruntime.InferenceSession(file.SerializeToString())
        (theirs,) = session.run(None, {"images": np.asarray(unseen.images)})
        differing[form] = int((theirs != scores(unseen.images)).sum())
    layers = {
        "float32": digits.record(network, in_float32, unseen.images),
        "int8": digits.record(network, int8, unseen.images),
        "int8, fine-tuned": digits.record(tuned, int8, unseen.images),
        "weights of 2 bits": digits.record(network, int2, unseen.images),
        "2 bits, fine-tuned": digits.record(tuned_2, int2, unseen.images),
    }
    stages = digits.compare_stages(layers, differing, unseen)
    print(stages)
    if options.output:
        stages.draw(options.output)
    return stages


if __name__ == "__main__":
    main(sys.argv[1:])
