"""The data, the training and the ranges that the examples with handwritten digits share.

Needs scikit-learn besides dmlax.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from sklearn.datasets import load_digits

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
    scores_of: Callable[[Any, Array], Array], weights: Any, digits: Digits, steps: int, key: Array
) -> Any:
    """Adam on the cross entropy of random batches, the step size falling to zero."""

    def loss(weights: Any, images: Array, labels: Array) -> Array:
        scores = scores_of(weights, images)
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()

    @jax.jit
    def step(i: Array, state: tuple) -> tuple:
        weights, first, second = state
        picked = jax.random.randint(jax.random.fold_in(key, i), (128,), 0, len(digits.images))
        slope = jax.grad(loss)(weights, digits.images[picked], digits.labels[picked])
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slope)
        rate = 0.005 * (1 - i / steps)
        weights = jax.tree.map(
            lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), weights, first, second
        )
        return weights, first, second

    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, zeros, zeros)
    for i in range(steps):
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
