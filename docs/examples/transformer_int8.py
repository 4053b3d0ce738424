"""A transformer block for handwritten digits in Equinox: float32, 8 bits, fine-tuned, exported.

    python docs/examples/transformer_int8.py --output transformer_int8.png

Needs equinox, matplotlib, onnx, onnxruntime, rich and scikit-learn besides dmlax, and digits.py
beside it.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from jax import Array

import digits
import dmlax.onnx
from dmlax import calibration, training

# The float network -----------------------------------------------------------------------------

ROWS, WIDTH, HEADS = 8, 32, 2


def in_float32(name: str, layer: Any, *inputs: Array) -> Array:
    """Computes a layer on the last axis."""
    if isinstance(layer, eqx.nn.Linear):
        return inputs[0] @ layer.weight.T + layer.bias
    return layer(*inputs)


def to_heads(x: Array) -> Array:
    """(N, rows, width) to (N, heads, rows, width of a head)."""
    return x.reshape(-1, ROWS, HEADS, WIDTH // HEADS).swapaxes(1, 2)


class Network(eqx.Module):
    """A block of attention over an image's rows of pixels. `run` computes a layer by its name."""

    layers: dict[str, eqx.nn.Linear]
    places: Array
    norms: list[eqx.nn.LayerNorm]

    def __init__(self, key: Array) -> None:
        sizes = dict.fromkeys(("query", "key", "value", "project"), (WIDTH, WIDTH))
        sizes |= {"embed": (8, WIDTH), "scores": (ROWS * WIDTH, 10)}
        sizes |= {"wide": (WIDTH, 2 * WIDTH), "narrow": (2 * WIDTH, WIDTH)}
        keys = iter(jax.random.split(key, len(sizes)))
        self.layers = {name: eqx.nn.Linear(*size, key=next(keys)) for name, size in sizes.items()}
        self.places = jnp.zeros((ROWS, WIDTH))
        self.norms = [eqx.nn.LayerNorm(WIDTH), eqx.nn.LayerNorm(WIDTH)]

    def __call__(self, images: Array, run: Callable[..., Array] = in_float32) -> Array:
        """The scores of the ten digits, of images (N, 8, 8)."""

        def dense(name: str, x: Array) -> Array:
            return run(name, self.layers[name], x)

        first_norm, second_norm = (jax.vmap(jax.vmap(norm)) for norm in self.norms)
        x = run("places", jnp.add, dense("embed", images), self.places)
        y = first_norm(x)
        query, key, value = (to_heads(dense(name, y)) for name in ("query", "key", "value"))
        logits = run("logits", jnp.matmul, query, key.mT)
        attention = jax.nn.softmax(logits / (WIDTH / HEADS) ** 0.5)
        mixed = run("mixed", jnp.matmul, attention, value).swapaxes(1, 2)
        x = run("first sum", jnp.add, x, dense("project", mixed.reshape(x.shape)))
        y = jax.nn.gelu(dense("wide", second_norm(x)))
        x = run("second sum", jnp.add, x, dense("narrow", y))
        return dense("scores", x.reshape(-1, ROWS * WIDTH))


# The quantization ------------------------------------------------------------------------------


def calibrate(layers: digits.Layers) -> dict[str, list[calibration.Quantization]]:
    """The scales and zero points of the inputs and the output of each layer."""
    observe = calibration.min_max().observe
    return {name: [calibration.quantization(observe(x)) for x in layers[name]] for name in layers}


def in_int8(ranges: dict[str, list], name: str, layer: Any, *inputs: Array) -> Array:
    """Computes a layer with the bits of 8-bit integers, rounded as ONNX Runtime rounds."""
    *operands, output = ranges[name]
    if isinstance(layer, eqx.nn.Linear):
        b = layer.weight.T
        operands += [calibration.quantize_weights(b, axis=-1)]
        inputs += (b, layer.bias)
    scales = calibration.keywords(a=operands[0], b=operands[1], output=output)
    if layer is jnp.add:
        return training.element_wise_quantized_linear_add(*inputs, **scales, arithmetic="float32")
    return training.quantized_linear_matrix_multiply(*inputs, **scales, arithmetic="float32")


# From floats to a file -------------------------------------------------------------------------


def main(arguments: Sequence[str] = ()) -> digits.Stages:
    """Train, calibrate, quantize, fine-tune, export, compare, draw."""
    options = digits.parse_options(__doc__, arguments)
    known, unseen = (x._replace(images=x.images[:, 0]) for x in digits.load())

    def fit(run: Callable[..., Array], network: Network, steps: int, rate: float) -> Network:
        def forward(network: Network, images: Array) -> Array:
            return network(images, run)

        return digits.train(forward, network, known, steps, jax.random.key(1), rate)

    network = fit(in_float32, Network(jax.random.key(0)), options.steps, 0.005)
    run = functools.partial(in_int8, calibrate(digits.record(network, in_float32, known.images)))
    tuned = fit(run, network, options.steps // 3, 0.001)
    scores = jax.jit(lambda images: tuned(images, run))
    differing = {}
    for form in ("qdq", "qoperator"):
        file = dmlax.onnx.from_jax(scores, unseen.images, input_names=["images"], form=form)
        session = onnxruntime.InferenceSession(file.SerializeToString())
        (theirs,) = session.run(None, {"images": np.asarray(unseen.images)})
        differing[form] = int((theirs != scores(unseen.images)).sum())
        (loaded,) = dmlax.onnx.load(file)(unseen.images).values()
        differing[f"{form}, loaded"] = int((theirs != loaded).sum())
    layers = {
        "float32": digits.record(network, in_float32, unseen.images),
        "int8": digits.record(network, run, unseen.images),
        "int8, fine-tuned": digits.record(tuned, run, unseen.images),
    }
    stages = digits.compare_stages(layers, differing, unseen)
    print(stages)
    if options.output:
        stages.draw(options.output)
    return stages


if __name__ == "__main__":
    main(sys.argv[1:])
