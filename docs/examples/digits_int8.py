"""A convolutional network for handwritten digits: trained in float32, run in 8 bits.

    python docs/examples/digits_int8.py --output digits_int8.png

Needs matplotlib, rich and scikit-learn besides dmlax, and digits.py beside it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jax import Array, lax

import digits
import dmlax
from digits import Quantization, calibrate


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


@jax.jit
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
    tensors = [images]
    for layer, window in zip(layers, WINDOWS, strict=True):
        strides, padding = 2 * (window.stride,), 2 * ((window.padding,) * 2,)
        y = lax.conv_general_dilated(tensors[-1], layer.weights, strides, padding)
        y = y + layer.bias[:, None, None]
        tensors.append(y if window is WINDOWS[-1] else jax.nn.relu(y))
    return tensors


@jax.jit
def float_scores(layers: Sequence[Layer], images: Array) -> Array:
    """Scores of the ten digits."""
    return activations(layers, images)[-1][:, :, 0, 0]


# The quantized network -------------------------------------------------------------------------


class QuantizedLayer(NamedTuple):
    """A convolution in 8 bits: a pytree of arrays, so it passes through jit."""

    filter: dmlax.PreparedFilter
    bias: Array  # int32, in units of the input's scale times the filter's
    filter_scale: Array  # float32, one per output channel
    input: Quantization
    output: Quantization


def quantize_layer(layer: Layer, input: Quantization, output: Quantization) -> QuantizedLayer:
    """Maps the weights of each output channel to -127..127, with a scale for the channel."""
    scale = jnp.abs(layer.weights).max(axis=(1, 2, 3)) / 127
    weights = dmlax.element_wise_quantize_linear(
        layer.weights, scale, axis=0, output_dtype=jnp.int8
    )
    bias = jnp.round(layer.bias / (input.scale * scale)).astype(jnp.int32)
    return QuantizedLayer(dmlax.prepare_filter(weights), bias, scale, input, output)


@jax.jit
def quantize(layers: Sequence[Layer], images: Array) -> list[QuantizedLayer]:
    """Quantizes each layer with ranges measured on the images."""
    ranges = [calibrate(values) for values in activations(layers, images)]
    return [quantize_layer(*part) for part in zip(layers, ranges, ranges[1:], strict=False)]


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


def main(arguments: Sequence[str] = ()) -> digits.Record:
    """Train, quantize, compare, draw."""
    options = digits.parse_options(__doc__, arguments, steps=600)
    known, unseen = digits.load()
    initial = initial_layers(jax.random.key(1))
    layers = digits.train(float_scores, initial, known, options.steps, jax.random.key(1))
    quantized = quantize(layers, known.images)
    scores = float_scores(layers, unseen.images)
    record, scores_8 = digits.compare(scores, lambda x: quantized_scores(quantized, x), unseen)
    print(record)
    if options.output:
        draw(options.output, *unseen, scores, scores_8)
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


if __name__ == "__main__":
    main(sys.argv[1:])
