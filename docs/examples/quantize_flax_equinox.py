"""Four float networks for digits, quantized and tuned by `dmlax.quantization` in a few lines.

    python docs/examples/quantize_flax_equinox.py

Needs equinox, flax, rich and scikit-learn besides dmlax, and digits.py, train_int8.py and
transformer_int8.py beside it.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import linen, nnx
from jax import Array

import digits
import train_int8
import transformer_int8
from dmlax import calibration
from dmlax.quantization import Quantized, Rule, quantize

# The float networks ----------------------------------------------------------------------------


class Convolutions(nnx.Module):
    """The network of digits_int8.py, in Flax NNX."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.second = nnx.Conv(16, 32, (3, 3), 2, padding=1, rngs=rngs)
        self.scores = nnx.Conv(32, 10, (4, 4), padding="VALID", rngs=rngs)

    def __call__(self, x: Array) -> Array:
        """The scores of the ten digits, of images (N, 8, 8, 1)."""
        return self.scores(nnx.relu(self.second(nnx.relu(self.first(x)))))[:, 0, 0]


class Mixer(linen.Module):
    """An MLP-Mixer of one block, in Flax Linen."""

    @linen.compact
    def __call__(self, x: Array) -> Array:
        """The scores of the ten digits, of images (N, 8, 8, 1)."""

        def mlp(x: Array) -> Array:
            return linen.Dense(x.shape[-1])(linen.gelu(linen.Dense(64)(x)))

        x = linen.Conv(32, (2, 2), (2, 2))(x).reshape(-1, 16, 32)
        x = x + mlp(linen.LayerNorm()(x).mT).mT
        x = x + mlp(linen.LayerNorm()(x))
        return linen.Dense(10)(x.mean(1))


class Model(NamedTuple):
    """`function(params, images)`, and trained or initial params."""

    function: Callable[..., Array]
    params: Any


# Their quantization ----------------------------------------------------------------------------


def of_nnx(network: nnx.Module) -> Model:
    """A module of Flax NNX as a function."""
    graph, params = nnx.split(network)
    return Model(lambda params, x: nnx.merge(graph, params)(x), params)


def of_linen(module: linen.Module, x: Array) -> Model:
    """A module of Flax Linen as a function."""
    return Model(module.apply, module.init(jax.random.key(0), x))


def of_equinox(network: eqx.Module) -> Model:
    """A module of Equinox as a function."""
    params, rest = eqx.partition(network, eqx.is_array)
    return Model(lambda params, x: eqx.combine(params, rest)(x[..., 0]), params)


def quantized(model: Model, images: Array, bits: int = 8) -> Quantized:
    """The network in 8 bits, with a scale for each output channel of the weights."""
    batches = [images[:500], images[500:1000]]
    return quantize(*model, batches, rules=[Rule(per_channel=True, dtype="uint8", bits=bits)])


def tuned(network: Quantized, params: Any, known: digits.Digits, steps: int) -> Quantized:
    """The network after training in the arithmetic that is deployed."""
    options = {"key": jax.random.key(2), "rate": 0.002, "size": 500}
    return network.with_params(digits.train(network.training(), params, known, steps, **options))


# All of them -----------------------------------------------------------------------------------


class Result(NamedTuple):
    """A network's answers to the digits that it was not trained on.

    Attributes:
      float_accuracy: in float32.
      int8_accuracy: in 8 bits.
      two_bit_accuracy: with weights of 2 bits.
      tuned_accuracy: with weights of 2 bits, after fine-tuning.
      signal_to_noise: of the scores in 8 bits, in decibels.
      integer_share: the share of the multiply-adds that run in integers.
    """

    float_accuracy: float
    int8_accuracy: float
    two_bit_accuracy: float
    tuned_accuracy: float
    signal_to_noise: float
    integer_share: float

    def __str__(self) -> str:
        return (
            f"float32 {self.float_accuracy:.1%}  int8 {self.int8_accuracy:.1%}  "
            f"2 bits {self.two_bit_accuracy:.1%}  tuned {self.tuned_accuracy:.1%}  "
            f"{self.signal_to_noise:.1f} dB  {self.integer_share:.0%} in integers"
        )


def main(arguments: Sequence[str] = ()) -> dict[str, Result]:
    """Train, quantize, compare."""
    options = digits.parse_options(__doc__, arguments)
    known, unseen = (x._replace(images=jnp.moveaxis(x.images, 1, 3)) for x in digits.load())
    models = {
        "CNN, Flax NNX": of_nnx(Convolutions(nnx.Rngs(0))),
        "residual, Flax NNX": of_nnx(train_int8.Network(nnx.Rngs(0))),
        "transformer, Equinox": of_equinox(transformer_int8.Network(jax.random.key(0))),
        "MLP-Mixer, Linen": of_linen(Mixer(), known.images[:1]),
    }
    results = {}
    for name, (function, initial) in models.items():
        model = Model(
            function, digits.train(function, initial, known, options.steps, jax.random.key(1))
        )
        int8, int2 = (quantized(model, known.images, bits) for bits in (8, 2))
        tuned_2 = tuned(int2, model.params, known, options.steps // 3)
        scores = jax.jit(function)(model.params, unseen.images)
        every = [scores, *(jax.jit(network)(unseen.images) for network in (int8, int2, tuned_2))]
        accuracies = (float((x.argmax(1) == unseen.labels).mean()) for x in every)
        noise = calibration.error_report({"scores": scores}, {"scores": every[1]}).layers[0]
        result = Result(*accuracies, noise.signal_to_noise, int8.report.integer_share)
        results[name] = result
        print(f"{name:22}{result}")
    return results


if __name__ == "__main__":
    main(sys.argv[1:])
