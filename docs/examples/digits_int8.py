"""A convolutional network for handwritten digits: trained in float32, run in 8 bits.

    python docs/examples/digits_int8.py --output digits_int8.png

Needs scikit-learn and matplotlib besides dmlax.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jax import Array, lax
from sklearn.datasets import load_digits

import dmlax

HELD_OUT = 500


class Window(NamedTuple):
    """A layer's kernel, its stride and its padding."""

    kernel: int
    channels: tuple[int, int]
    stride: int
    padding: int


WINDOWS = (
    Window(kernel=3, channels=(1, 16), stride=1, padding=1),  # 8x8
    Window(kernel=3, channels=(16, 32), stride=2, padding=1),  # 4x4
    Window(kernel=4, channels=(32, 10), stride=1, padding=0),  # 1x1: the classifier
)

# The float network -----------------------------------------------------------------------------


class Layer(NamedTuple):
    """A convolution in float32."""

    weights: Array  # (outputs, inputs, kernel, kernel)
    bias: Array  # (outputs,)


def initial_layers(key: Array) -> list[Layer]:
    """Random weights."""
    layers = []
    for window, seed in zip(WINDOWS, jax.random.split(key, len(WINDOWS)), strict=True):
        inputs, outputs = window.channels
        shape = (outputs, inputs, window.kernel, window.kernel)
        deviation = (2 / (inputs * window.kernel**2)) ** 0.5
        layers.append(Layer(deviation * jax.random.normal(seed, shape), jnp.zeros(outputs)))
    return layers


def activations(layers: Sequence[Layer], images: Array) -> list[Array]:
    """The input and every layer's output; the last has the scores of the ten digits."""
    found = [images]
    for layer, window in zip(layers, WINDOWS, strict=True):
        strides, padding = 2 * (window.stride,), 2 * ((window.padding,) * 2,)
        y = lax.conv_general_dilated(found[-1], layer.weights, strides, padding)
        y = y + layer.bias[:, None, None]
        found.append(y if window is WINDOWS[-1] else jax.nn.relu(y))
    return found


def train(images: Array, labels: Array, steps: int, key: Array) -> list[Layer]:
    """Adam on the cross entropy of random batches, the step size falling to zero."""

    def loss(layers: list[Layer], images: Array, labels: Array) -> Array:
        scores = activations(layers, images)[-1][:, :, 0, 0]
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()

    @jax.jit
    def step(i: Array, state: tuple) -> tuple:
        layers, first, second = state
        picked = jax.random.randint(jax.random.fold_in(key, i), (128,), 0, len(images))
        slope = jax.grad(loss)(layers, images[picked], labels[picked])
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slope)
        rate = 0.005 * (1 - i / steps)
        layers = jax.tree.map(
            lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), layers, first, second
        )
        return layers, first, second

    layers = initial_layers(key)
    zeros = jax.tree.map(jnp.zeros_like, layers)
    state = (layers, zeros, zeros)
    for i in range(steps):
        state = step(jnp.float32(i), state)
    return state[0]


# The quantized network -------------------------------------------------------------------------


class Quantization(NamedTuple):
    """real = scale * (uint8 - zero_point)."""

    scale: Array  # float32, ()
    zero_point: Array  # uint8, ()


class QuantizedLayer(NamedTuple):
    """A convolution in 8 bits: a pytree of arrays, so it passes through jit."""

    filter: dmlax.PreparedFilter
    bias: Array  # int32, in units of the input's scale times the filter's
    filter_scale: Array  # float32, one per output channel
    input: Quantization
    output: Quantization


def calibrate(values: Array) -> Quantization:
    """Maps the range of some activations, extended to include 0, to 0..255."""
    low, high = jnp.minimum(values.min(), 0), jnp.maximum(values.max(), 0)
    scale = (high - low) / 255
    return Quantization(scale, jnp.round(-low / scale).astype(jnp.uint8))


def quantize_layer(layer: Layer, input: Quantization, output: Quantization) -> QuantizedLayer:
    """Maps each output channel's weights to -127..127, with its own scale."""
    scale = jnp.abs(layer.weights).max(axis=(1, 2, 3)) / 127
    weights = dmlax.element_wise_quantize_linear(
        layer.weights, scale, axis=0, output_dtype=jnp.int8
    )
    bias = jnp.round(layer.bias / (input.scale * scale)).astype(jnp.int32)
    return QuantizedLayer(dmlax.prepare_filter(weights), bias, scale, input, output)


def quantize(layers: Sequence[Layer], images: Array) -> list[QuantizedLayer]:
    """Quantizes each layer with ranges measured on the images."""
    ranges = [calibrate(values) for values in activations(layers, images)]
    return [quantize_layer(*each) for each in zip(layers, ranges, ranges[1:], strict=False)]


@jax.jit
def quantized_scores(layers: Sequence[QuantizedLayer], images: Array) -> Array:
    """Scores of the ten digits, in uint8 like everything between.

    The relu needs no operation: the range of a hidden layer begins at 0, so its zero point is 0,
    and the clamp removes negative values.
    """
    first = layers[0].input
    x = dmlax.element_wise_quantize_linear(images, first.scale, first.zero_point)
    for layer, window in zip(layers, WINDOWS, strict=True):
        x = dmlax.quantized_linear_convolution(
            x,
            layer.filter,
            layer.bias,
            input_scale=layer.input.scale,
            input_zero_point=layer.input.zero_point,
            filter_scale=layer.filter_scale,
            output_scale=layer.output.scale,
            output_zero_point=layer.output.zero_point,
            strides=2 * (window.stride,),
            start_padding=2 * (window.padding,),
            end_padding=2 * (window.padding,),
        )
    return x[:, :, 0, 0]


# Both of them ----------------------------------------------------------------------------------


class Record(NamedTuple):
    """Answers of the two networks to digits that neither was trained on."""

    float_accuracy: float
    int8_accuracy: float
    agreement: float
    vmapped_equal: bool


def main(arguments: Sequence[str] = ()) -> Record:
    """Train, quantize, compare, draw."""
    options = _parser().parse_args(arguments)
    data = load_digits()
    images, labels = jnp.float32(data.images[:, None]) / 16, jnp.int32(data.target)
    order = jax.random.permutation(jax.random.key(0), len(images))
    known, unseen = order[HELD_OUT:], order[:HELD_OUT]

    layers = train(images[known], labels[known], options.steps, jax.random.key(1))
    quantized = quantize(layers, images[known])

    scores = activations(layers, images[unseen])[-1][:, :, 0, 0]
    scores_8 = quantized_scores(quantized, images[unseen])
    one_by_one = jax.vmap(lambda image: quantized_scores(quantized, image[None])[0])
    guess, guess_8 = scores.argmax(axis=1), scores_8.argmax(axis=1)

    record = Record(
        float_accuracy=float((guess == labels[unseen]).mean()),
        int8_accuracy=float((guess_8 == labels[unseen]).mean()),
        agreement=float((guess == guess_8).mean()),
        vmapped_equal=bool((one_by_one(images[unseen]) == scores_8).all()),
    )
    print(f"float32 accuracy  {record.float_accuracy:.1%}")
    print(f"int8 accuracy     {record.int8_accuracy:.1%}")
    print(f"agreement         {record.agreement:.1%}")
    print(f"vmapped equal     {record.vmapped_equal}")
    if options.output:
        draw(options.output, images[unseen], labels[unseen], scores, scores_8)
    return record


def draw(path: Path, images: Array, labels: Array, scores: Array, scores_8: Array) -> None:
    """Draws the digits with the least certain answers of the float network."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    best = jnp.sort(scores, axis=1)[:, ::-1]
    hardest = np.argsort(best[:, 0] - best[:, 1])[:16]
    figure, axes = pyplot.subplots(2, 8, figsize=(10, 3.4), layout="constrained")
    for index, box in zip(hardest, axes.flat, strict=True):
        guesses = int(scores[index].argmax()), int(scores_8[index].argmax())
        box.imshow(images[index, 0], cmap="gray_r", interpolation="nearest")
        good = guesses == (labels[index],) * 2
        box.set_title("float {}  int8 {}".format(*guesses), color="black" if good else "crimson")
        box.set_xlabel(f"is {labels[index]}")
        box.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, metavar="PATH", help="write a picture here")
    parser.add_argument("--steps", type=int, default=600, help="training steps (default 600)")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
