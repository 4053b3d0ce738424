"""Cross-layer equalization: channels of neighbouring layers get about the same range.

A value between two layers is divided by a factor for each channel, and the second layer's weights
are multiplied by it (Nagel et al., ICCV 2019). Powers of two leave the float function as it is.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax.quantization.plan import Planner, Step, batched, channel_axes, contracted
from dmlax.quantization.program import Program

_MOST_ROUNDS = 20  # pairs that share a layer take turns
_LARGEST = 16  # of a round's exponents


def of_inputs(step: Step, weights: Array, values: Array) -> Array:
    """One value for each input channel, in a shape that broadcasts to the weights."""
    if step.kind == "product":
        return values[:, None]
    outputs, inputs, *_ = step.options["dimension_numbers"].rhs_spec
    groups = values.reshape(step.options["group_count"], weights.shape[inputs])
    taps = jnp.repeat(groups, weights.shape[outputs] // len(groups), axis=0)
    others = [i for i in range(weights.ndim) if i not in (outputs, inputs)]
    return jnp.expand_dims(taps if outputs < inputs else taps.T, others)


def pairs_of(planner: Planner, steps: Sequence[Step]) -> list[tuple[Step, Step]]:
    """Layers in integers of which the second alone reads the first, channel by channel.

    Between them is nothing or `max(x, 0)`, so that a channel's factor passes.
    """
    layers = [step for step in steps if step.weights >= 0 and step.is_integer]
    times, found = Counter(step.weights for step in layers), []
    for first, second in itertools.product(layers, layers):
        if second.operands[0] != first.result or planner.uses[first.result] != 1:
            continue
        if second.kind == "product":
            axes = [*contracted(second)[0], *batched(second)[0]]
        else:
            axes = [second.options["dimension_numbers"].lhs_spec[1]]
        is_free = all(equation.name != "min" for equation in first.absorbed)
        is_alone = times[first.weights] == times[second.weights] == 1
        if is_free and is_alone and [*channel_axes(planner.program, first)] == axes:
            found.append((first, second))
    return found


def factors_of(
    pairs: Sequence[tuple[Step, Step]], folded: Callable[[Step, Mapping[int, Array]], Array]
) -> dict[int, Array]:
    """Powers of two by which each channel has about the same range in both layers of a pair.

    `folded` gives the float weights of a step, by the factors of values.
    """

    def largest(step: Step, factors: Mapping[int, Array], of_inputs: bool) -> np.ndarray:
        weights = jnp.abs(folded(step, factors))
        if step.kind == "product":
            return np.asarray(weights.max(1 if of_inputs else 0))
        outputs, inputs, *_ = step.options["dimension_numbers"].rhs_spec
        if not of_inputs:
            return np.asarray(weights.max([i for i in range(weights.ndim) if i != outputs]))
        taps = jnp.moveaxis(weights, (outputs, inputs), (0, 1))
        groups = step.options["group_count"]
        taps = taps.reshape(groups, -1, taps.shape[1], taps[0, 0].size)
        return np.asarray(taps.max((1, 3)).reshape(-1))

    found: dict[int, Array] = {}
    for _ in range(_MOST_ROUNDS):
        moved = False
        for first, second in pairs:
            a, b = largest(first, found, False), largest(second, found, True)
            ratio = np.divide(a, b, out=np.ones_like(a), where=(a > 0) & (b > 0))
            steps = np.clip(np.rint(np.log2(ratio) / 2), -_LARGEST, _LARGEST)
            factor = np.ldexp(found.get(first.result, np.ones_like(a)), steps.astype(np.int32))
            found[first.result] = jnp.asarray(factor)
            moved = moved or bool(steps.any())
        if not moved:
            break
    return found


def divided(
    program: Program, steps: Sequence[Step], factors: Mapping[int, Array], values: Mapping[int, Any]
) -> dict[int, Any]:
    """The values, of which those between equalized layers are divided by their factors."""
    found = dict(values)
    for step in steps:
        if step.result in factors:
            (axis,), x = channel_axes(program, step), values[step.result].astype(jnp.float32)
            shape = [-1 if i == axis else 1 for i in range(x.ndim)]
            found[step.result] = x / factors[step.result].reshape(shape)
    return found
