"""The data, the training and the reports that the examples with handwritten digits share.

Needs rich and scikit-learn besides dmlax, and matplotlib for pictures.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from rich.progress import track
from sklearn.datasets import load_digits

from dmlax import calibration

HELD_OUT = 500


class Digits(NamedTuple):
    """Images of 8x8 pixels from 0 to 1, and what they show."""

    images: Array  # float32 (N, 1, 8, 8)
    labels: Array  # int32 (N,)


def load() -> tuple[Digits, Digits]:
    """The digits to train with, and those that are held out."""
    data = load_digits()
    every = Digits(jnp.float32(data.images[:, None]) / 16, jnp.int32(data.target))
    order = jax.random.permutation(jax.random.key(0), len(every.images))
    known, unseen = (
        Digits(*(x[part] for x in every)) for part in (order[HELD_OUT:], order[:HELD_OUT])
    )
    return known, unseen


def train(
    scores_of: Callable[[Any, Array], Array],
    weights: Any,
    digits: Digits,
    steps: int,
    key: Array,
    rate: float = 0.005,
    size: int = 128,
) -> Any:
    """Adam on the cross entropy of random batches of a size, the step size falling to zero."""

    def loss(weights: Any, images: Array, labels: Array) -> Array:
        scores = scores_of(weights, images)
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()

    @jax.jit
    def step(i: Array, state: tuple) -> tuple:
        weights, first, second = state
        picked = jax.random.randint(jax.random.fold_in(key, i), (size,), 0, len(digits.images))
        slope = jax.grad(loss)(weights, digits.images[picked], digits.labels[picked])
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slope)
        step_size = rate * (1 - i / steps)
        weights = jax.tree.map(
            lambda p, m, v: p - step_size * m / (jnp.sqrt(v) + 1e-8), weights, first, second
        )
        return weights, first, second

    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, zeros, zeros)
    for i in track(range(steps), "training", transient=True, disable=not sys.stdout.isatty()):
        state = step(jnp.float32(i), state)
    return state[0]


class Quantization(NamedTuple):
    """real = scale * (uint8 - zero_point)."""

    scale: Array  # float32, ()
    zero_point: Array  # uint8, ()


def calibrate(values: Array) -> Quantization:
    """Maps the range of some activations, extended to include 0, to 0..255."""
    low, high = jnp.minimum(values.min(), 0), jnp.maximum(values.max(), 0)
    scale = (high - low) / 255
    return Quantization(scale, jnp.round(-low / scale).astype(jnp.uint8))


class Record(NamedTuple):
    """Answers of a float network and its quantized form to digits that neither was trained on."""

    float_accuracy: float
    int8_accuracy: float
    agreement: float
    vmapped_equal: bool

    def __str__(self) -> str:
        lines = (
            f"float32 accuracy  {self.float_accuracy:.1%}",
            f"int8 accuracy     {self.int8_accuracy:.1%}",
            f"agreement         {self.agreement:.1%}",
            f"vmapped equal     {self.vmapped_equal}",
        )
        return "\n".join(lines)


def compare(
    scores: Array, scores_8_of: Callable[[Array], Array], digits: Digits
) -> tuple[Record, Array]:
    """Compares scores of ten digits with those in 8 bits, which are returned too."""
    scores_8 = scores_8_of(digits.images)
    one_by_one = jax.vmap(lambda image: scores_8_of(image[None])[0])(digits.images)
    guess, guess_8 = scores.argmax(axis=1), scores_8.argmax(axis=1)
    record = Record(
        float_accuracy=float((guess == digits.labels).mean()),
        int8_accuracy=float((guess_8 == digits.labels).mean()),
        agreement=float((guess == guess_8).mean()),
        vmapped_equal=bool((one_by_one == scores_8).all()),
    )
    return record, scores_8


Layers = dict[str, list[Array]]  # the inputs and the output of each layer, by name


def record(network: Any, run: Callable[..., Array], images: Array) -> Layers:
    """Calls `network(images, run)`, and keeps the tensors of each `run(name, layer, *inputs)`."""
    tensors: Layers = {}

    def run_and_keep(name: str, layer: Any, *inputs: Array) -> Array:
        tensors[name] = [*inputs, run(name, layer, *inputs)]
        return tensors[name][-1]

    def call(images: Array) -> list[list[Array]]:
        network(images, run_and_keep)
        return list(tensors.values())

    return dict(zip(tensors, jax.jit(call)(images), strict=True))


class Stages(NamedTuple):
    """A network in float32, in 8 bits and fine-tuned.

    Attributes:
      accuracies: the share of right answers to unseen digits, by stage.
      differing: the number of scores that differ in another library, by its name.
      report: the errors of the layers in 8 bits, before the fine-tuning.
    """

    accuracies: dict[str, float]
    differing: dict[str, int]
    report: calibration.ErrorReport

    def __str__(self) -> str:
        lines = [f"{name:20}{value:.1%}" for name, value in self.accuracies.items()]
        lines += [f"{name:20}{count} scores differ" for name, count in self.differing.items()]
        return "\n".join([*lines, "", str(self.report)])

    def draw(self, path: Path) -> None:
        """Draws the accuracies, and the signal to noise of each layer."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3), layout="constrained")
        left.barh([*self.accuracies], [100 * x for x in self.accuracies.values()])
        left.set(xlim=(70, 100), xlabel="accuracy, %")
        layers = self.report.layers
        right.barh([x.name for x in layers], [x.signal_to_noise for x in layers])
        right.set(xlabel="signal to noise in int8, dB")
        for axes in (left, right):
            axes.invert_yaxis()
        figure.savefig(path, dpi=100)
        pyplot.close(figure)


def compare_stages(
    layers: Mapping[str, Layers], differing: dict[str, int], digits: Digits
) -> Stages:
    """Compares the layers' tensors of the stages "float32", "int8" and others."""
    outputs = {
        stage: {name: tensors[-1] for name, tensors in by_name.items()}
        for stage, by_name in layers.items()
    }
    accuracies = {
        stage: float((by_name["scores"].reshape(-1, 10).argmax(1) == digits.labels).mean())
        for stage, by_name in outputs.items()
    }
    report = calibration.error_report(outputs["float32"], outputs["int8"])
    return Stages(accuracies, differing, report)


def parse_options(
    description: str, arguments: Sequence[str], steps: int = 300
) -> argparse.Namespace:
    """The options of an example's command line."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--output", type=Path, metavar="PATH", help="write a picture here")
    parser.add_argument("--steps", type=int, default=steps, help=f"default {steps}")
    return parser.parse_args(arguments)
