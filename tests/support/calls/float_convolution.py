"""Float convolutions and products: sums that are one chain of fused operations, and epilogues."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from dmlax._fused.float_convolution.call import FLOAT_CONVOLUTION
from dmlax._fused.float_convolution.plan import (
    ACTIVATIONS,
    Epilogue,
    FloatPlan,
    Geometry,
    Operands,
    PackedFilter,
)

_CHANNELS = (1, 2, 3, 7, 16, 24, 40, 65, 130)
_FEW = (1, 2, 3, 5, 12, 17)
_STEP = 2.0**-12  # operands' step: float64 holds each product plus any float32 sum
_APPROXIMATE = ("sigmoid", "silu")


class Drawn(NamedTuple):
    """A call, its operands with channels first, and the windows."""

    plan: FloatPlan
    operands: Operands
    image: np.ndarray
    filter: np.ndarray
    residual: np.ndarray | None


def _numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.asarray(rng.integers(-(1 << 12), 1 << 12, shape) * _STEP, np.float32)


def _last(array: np.ndarray, is_last: bool) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if is_last else array


def draw(seed: int) -> Drawn:
    """A random call."""
    rng = np.random.default_rng(seed)
    axes, groups = seed % 4, int(rng.choice([1, 1, 2, 3]))
    inputs, outputs = int(rng.choice(_FEW)), int(rng.choice(_CHANNELS))
    if seed % 3 == 0:
        groups, inputs, outputs = int(rng.choice(_CHANNELS)), 1, 1
    groups = groups if axes else 1
    kernel, strides, dilations = (tuple(map(int, rng.integers(1, 4, axes))) for _ in range(3))
    padding = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (axes, 2)))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [
        max(1, span - sum(pads)) + int(rng.integers(0, 7))
        for span, pads in zip(spans, padding, strict=True)
    ]
    result = tuple(
        (size + sum(pads) - span) // stride + 1
        for size, pads, span, stride in zip(sizes, padding, spans, strides, strict=True)
    )
    last = (True, True) if axes == 0 else (bool(rng.integers(2)), bool(rng.integers(2)))
    image = _numbers(rng, int(rng.integers(1, 4)), groups * inputs, *sizes)
    filter = _numbers(rng, groups * outputs, inputs, *kernel)
    given = rng.random(5) < 0.5
    factor, bias = (_numbers(rng, groups * outputs) if is_there else None for is_there in given[:2])
    residual = _numbers(rng, len(image), groups * outputs, *result) if given[2] else None
    activation = str(rng.choice(ACTIVATIONS))
    epilogue = Epilogue(activation, 1 / 6, 0.5, bool(given[3]) and activation.startswith("hard"))
    held: Any = PackedFilter.pack(filter, groups) if given[4] else jax.device_put(filter)
    plan, operands = FLOAT_CONVOLUTION.plan(
        jax.device_put(_last(image, last[0])),
        held,
        *(None if x is None else jax.device_put(x) for x in (factor, bias)),
        None if residual is None else jax.device_put(_last(residual, last[1])),
        output_sizes=result,
        groups=groups,
        geometry=Geometry(strides, padding, dilations, *last),
        epilogue=epilogue,
    )
    return Drawn(plan, operands, image, filter, residual)


def sums(drawn: Drawn) -> np.ndarray:
    """The sums by the definition: taps in turn, the channels of each in turn."""
    plan, image, filter = drawn.plan, drawn.image, drawn.filter
    groups, geometry = plan.filter.groups, plan.geometry
    padded = np.pad(image, [(0, 0), (0, 0), *geometry.padding])
    padded = padded.reshape(len(image), groups, -1, *padded.shape[2:])
    weights = filter.reshape(groups, -1, *filter.shape[1:])
    shape = (len(image), groups, weights.shape[1], *plan.sizes[2:])
    total = np.zeros(shape, np.float32)
    for tap in itertools.product(*map(range, filter.shape[2:])):
        steps = zip(tap, geometry.dilations, geometry.strides, plan.sizes[2:], strict=True)
        axes = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in steps]
        for channel in range(filter.shape[1]):
            pixels = padded[(slice(None), slice(None), channel, *axes)][:, :, None]
            of_tap = weights[(slice(None), slice(None), channel, *tap)]
            factor = of_tap.reshape(1, groups, -1, *(1,) * len(axes))
            total = (total + pixels.astype(np.float64) * factor).astype(np.float32)
    return total.reshape(plan.sizes)


def wanted(drawn: Drawn) -> np.ndarray:
    """The result by the definition, channels first."""
    y, (_, _, factor, bias, _), rank = sums(drawn), drawn.operands, len(drawn.plan.sizes)
    channels = (1, -1) + (1,) * (rank - 2)
    y = y if factor is None else y * np.asarray(factor).reshape(channels)
    y = y if bias is None else y + np.asarray(bias).reshape(channels)
    y = y if drawn.residual is None else y + drawn.residual
    name, low, high, fuses = drawn.plan.epilogue
    slope, offset = np.float32(low), np.float32(high)
    line = np.float32(y.astype(np.float64) * slope + offset) if fuses else y * slope + offset
    share = np.clip(line, np.float32(0), np.float32(1))
    sigmoid = 1 / (1 + np.exp(-y.astype(np.float64)))
    results = {
        "clip": np.clip(y, slope, offset),
        "hard_sigmoid": share,
        "hard_swish": y * share,
        "shifted_swish": y * np.clip(y + slope, np.float32(0), offset) / offset,
        "sigmoid": sigmoid,
        "silu": y * sigmoid,
    }
    return np.asarray(results.get(name, y))


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The calls from `first` to `last` that differ from the definition."""
    for seed in range(first, last):
        drawn = draw(seed)
        run = jax.jit(partial(FLOAT_CONVOLUTION.call, drawn.plan, implementation=implementation))
        found = np.asarray(run(drawn.operands))
        found = np.moveaxis(found, -1, 1) if drawn.plan.geometry.output_last else found
        right, name = wanted(drawn), drawn.plan.epilogue.activation
        if name in _APPROXIMATE:
            is_right = np.allclose(found, right, rtol=2e-6, atol=1e-30)
        else:
            is_right = np.array_equal(found, right)
        if not is_right:
            yield f"{seed}: {drawn.plan} {drawn.plan.geometry} {drawn.plan.epilogue}"
