"""A residual network for handwritten digits in Flax NNX: in float32, in 8 bits, and fine-tuned.

    python docs/examples/train_int8.py --output train_int8.png

Needs flax, scikit-learn and matplotlib besides dmlax, and digits.py beside it.
"""

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
from flax import nnx
from jax import Array

import digits
import dmlax
from dmlax import calibration, training


class Tensor(NamedTuple):
    """A tensor and its name."""

    name: str
    value: Array


class Float:
    """The layers in float32; `tensors` has the outputs of the last call by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Array] = {}

    def keep(self, name: str, value: Array) -> Tensor:
        self.tensors[name] = value
        return Tensor(name, value)

    def convolve(self, name: str, layer: nnx.Conv, x: Tensor) -> Tensor:
        y = layer(x.value)
        return self.keep(name, y if name == "scores" else jax.nn.relu(y))

    def add(self, name: str, a: Tensor, b: Tensor) -> Tensor:
        return self.keep(name, a.value + b.value)

    def average(self, name: str, x: Tensor) -> Tensor:
        return self.keep(name, x.value.mean((1, 2), keepdims=True))


class Network(nnx.Module):
    """A stem, two residual convolutions, and a classifier."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.stem = nnx.Conv(1, 32, (3, 3), rngs=rngs)
        self.first = nnx.Conv(32, 32, (3, 3), rngs=rngs)
        self.second = nnx.Conv(32, 32, (3, 3), rngs=rngs)
        self.scores = nnx.Conv(32, 10, (1, 1), rngs=rngs)

    def __call__(self, images: Array, layers: Float) -> Array:
        """The scores of the ten digits, computed by `layers`."""
        x = layers.convolve("stem", self.stem, layers.keep("images", images))
        x = layers.add("first sum", x, layers.convolve("first", self.first, x))
        x = layers.add("second sum", x, layers.convolve("second", self.second, x))
        return layers.convolve("scores", self.scores, layers.average("mean", x)).value[:, 0, 0]


# The quantized layers --------------------------------------------------------------------------


class Quantized(Float):
    """The layers in floats, with the bits of 8-bit integers."""

    operators: Any = training

    def __init__(self, ranges: dict[str, calibration.Quantization]) -> None:
        super().__init__()
        self.ranges = ranges

    def scales(self, **names: str) -> dict[str, Array]:
        """The scales and zero points of an operator's tensors, by keyword."""
        pairs = [(key, self.ranges[name]._asdict()) for key, name in names.items()]
        return {f"{key}_{part}": x for key, parts in pairs for part, x in parts.items()}

    def weights(self, layer: nnx.Conv, input_scale: Array) -> tuple[Array, Array, Array]:
        """A filter, its scales and a bias."""
        scale = calibration.quantize_weights(jax.lax.stop_gradient(layer.kernel[...]), axis=3).scale
        return layer.kernel[...], scale, layer.bias[...]

    def convolve(self, name: str, layer: nnx.Conv, x: Tensor) -> Tensor:
        w, scale, b = self.weights(layer, self.ranges[x.name].scale)
        options = self.scales(input=x.name, output=name) | {"filter_scale": scale}
        options |= {"padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC")}
        return self.keep(
            name, self.operators.quantized_linear_convolution(x.value, w, b, **options)
        )

    def add(self, name: str, a: Tensor, b: Tensor) -> Tensor:
        scales = self.scales(a=a.name, b=b.name, output=name)
        add = self.operators.element_wise_quantized_linear_add
        return self.keep(name, add(a.value, b.value, **scales))

    def average(self, name: str, x: Tensor) -> Tensor:
        options = self.scales(input=x.name, output=name) | {"dimension_numbers": "NHWC"}
        average = self.operators.quantized_linear_global_average_pooling
        return self.keep(name, average(x.value, **options))


class FourBits(Quantized):
    """The same with weights of 4 bits."""

    def weights(self, layer: nnx.Conv, input_scale: Array) -> tuple[Array, Array, Array]:
        w, scale, b = super().weights(layer, input_scale)
        scale *= 127 / 7
        return training.fake_quantize(w, scale, axis=3, dtype=jnp.int4), scale, b


class Deployed(Quantized):
    """The layers in integers."""

    operators = dmlax

    def weights(self, layer: nnx.Conv, input_scale: Array) -> tuple[Array, Array, Array]:
        w, scale, _ = calibration.quantize_weights(layer.kernel[...], axis=3)
        b = calibration.quantize_bias(layer.bias[...], input_scale=input_scale, filter_scale=scale)
        return w, scale, b


# All of them -----------------------------------------------------------------------------------


class Record(NamedTuple):
    """Accuracies on unseen digits, scores that differ when deployed, and the errors of tensors."""

    accuracies: dict[str, float]
    differ: int
    report: calibration.ErrorReport

    def __str__(self) -> str:
        lines = [f"{name:20}  {value:.1%}" for name, value in self.accuracies.items()]
        lines += [f"{'scores that differ':20}  {self.differ}", ""]
        return "\n".join([*lines, str(self.report)])


def main(arguments: Sequence[str] = ()) -> Record:
    """Train, calibrate, quantize, fine-tune, deploy, compare, draw."""
    options = _parser().parse_args(arguments)
    known, unseen = (x._replace(images=jnp.moveaxis(x.images, 1, 3)) for x in digits.load())
    definition, initial = nnx.split(Network(nnx.Rngs(0)))

    def scores(layers: Float, weights: Any, images: Array) -> Array:
        return nnx.merge(definition, weights)(images, layers)

    def tensors(layers: Float, weights: Any) -> dict[str, Array]:
        scores(layers, weights, unseen.images)
        return dict(layers.tensors)

    def fit(layers: Float, weights: Any, steps: int) -> Any:
        forward = functools.partial(scores, layers)
        return digits.train(forward, weights, known, steps, jax.random.key(1))

    def accuracy(outputs: dict[str, Array]) -> float:
        return float((outputs["scores"][:, 0, 0].argmax(1) == unseen.labels).mean())

    floats = Float()
    weights = fit(floats, initial, options.steps)
    scores(floats, weights, known.images)
    ranges = {
        name: calibration.quantization(calibration.min_max().observe(x))
        for name, x in floats.tensors.items()
    }
    quantized, four_bits = Quantized(ranges), FourBits(ranges)
    tuned = fit(quantized, weights, options.steps // 3)
    outputs = {
        "float32": tensors(Float(), weights),
        "int8": tensors(quantized, weights),
        "int8, fine-tuned": tensors(quantized, tuned),
        "int4 weights": tensors(four_bits, weights),
        "int4, fine-tuned": tensors(four_bits, fit(four_bits, weights, options.steps // 3)),
    }
    layers = [name for name in ranges if name != "images"]
    errors = ({name: outputs[which][name] for name in layers} for which in ("float32", "int8"))
    images = dmlax.element_wise_quantize_linear(unseen.images, *ranges["images"])
    deployed = scores(Deployed(ranges), tuned, images)
    trained = outputs["int8, fine-tuned"]["scores"][:, 0, 0]
    differ = dmlax.element_wise_quantize_linear(trained, *ranges["scores"]) != deployed
    record = Record(
        {name: accuracy(each) for name, each in outputs.items()},
        int(differ.sum()),
        calibration.error_report(*errors),
    )
    print(record)
    if options.output:
        draw(options.output, record)
    return record


def draw(path: Path, record: Record) -> None:
    """Draws the accuracies, and the signal to noise of each tensor."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3), layout="constrained")
    left.barh([*record.accuracies], [100 * x for x in record.accuracies.values()])
    left.set(xlim=(80, 100), xlabel="accuracy, %")
    layers = record.report.layers
    right.barh([x.name for x in layers], [x.signal_to_noise for x in layers])
    right.set(xlabel="signal to noise in int8, dB")
    for axes in (left, right):
        axes.invert_yaxis()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, metavar="PATH", help="write a picture here")
    parser.add_argument("--steps", type=int, default=600, help="training steps (default 600)")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
