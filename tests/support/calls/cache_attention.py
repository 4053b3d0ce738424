"""Attention of rows to a cache: what the kernel computes, beside the same in float64."""

import zlib
from collections.abc import Iterator
from functools import partial

import jax
import numpy as np

from dmlax._fused.cache_attention.plan import CachePlan, Caches
from dmlax.onnx.operators.caches import ATTENTION

_SIZES = (1, 5, 8, 16, 20, 64, 80, 130)


def draw(seed: int) -> tuple[CachePlan, Caches]:
    """A random call: rows see any places, some none; places that no row sees hold NaN."""
    rng = np.random.default_rng(seed)
    batch, groups, members = (int(n) for n in rng.integers(1, (4, 4, 8)))
    size, value_size = (int(n) for n in rng.choice(_SIZES, 2))
    rows, places = int(rng.choice([1, 1, 2, 5, 17, 33])), int(rng.choice([1, 15, 128, 300, 513]))
    q = rng.normal(size=(batch, groups * members, rows, size))
    keys, values = (rng.normal(size=(batch, groups, places, n)) for n in (size, value_size))
    ends = rng.integers(0, places + 1, (batch, 1))
    last = np.minimum(ends - rows + 1 + np.arange(rows), ends)
    first = last - int(rng.integers(1, places + 1)) if seed % 3 == 0 else 0 * last
    ranges = np.stack([first, last], axis=-1).astype(np.int32)
    seen = np.any(_seen(ranges, places), axis=1, keepdims=True)[..., None]
    keys, values = (np.where(seen, x, np.nan) for x in (keys, values))
    sinks = rng.normal(size=(batch, groups * members if seed % 4 == 0 else 0))
    scale, softcap = float(rng.choice([0.1, 0.3])), (0.0, 2.0)[seed % 5 == 0]
    floats = [x.astype(np.float32) for x in (q, keys, values, sinks)]
    operands = jax.device_put(Caches(*floats[:3], ranges, floats[3]))
    return ATTENTION.plan(operands, scale, softcap)


def _seen(ranges: np.ndarray, places: int) -> np.ndarray:
    """True for the places that a row sees, [batch, rows, places]."""
    index = np.arange(places)
    return (index >= ranges[..., :1]) & (index < ranges[..., 1:])


def wanted(plan: CachePlan, operands: Caches) -> np.ndarray:
    """The result in float64."""
    q, keys, values, ranges, sinks = (np.asarray(x, np.float64) for x in operands)
    keys, values = (
        np.nan_to_num(np.repeat(x, q.shape[1] // x.shape[1], axis=1)) for x in (keys, values)
    )
    scores = plan.scale * q @ keys.swapaxes(2, 3)
    scores = plan.softcap * np.tanh(scores / plan.softcap) if plan.softcap else scores
    scores = np.where(_seen(ranges, keys.shape[2])[:, None], scores, -np.inf)
    extra = sinks[..., None, None] if plan.has_sinks else np.full((1, 1, 1, 1), -np.inf)
    top = np.maximum(scores.max(-1, keepdims=True), extra)
    top = np.where(np.isinf(top), 0, top)
    terms = np.exp(scores - top)
    total = terms.sum(-1, keepdims=True) + np.exp(extra - top)
    return terms @ values / np.where(total == 0, 1, total)


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The calls from `first` to `last` that are not within 2e-6 of the definition."""
    for seed in range(first, last):
        plan, operands = draw(seed)
        run = jax.jit(partial(ATTENTION.call, plan, implementation=implementation))
        found, right = np.asarray(run(operands)), wanted(plan, operands)
        if not np.allclose(found, right, rtol=2e-6, atol=2e-6):
            yield f"{seed}: {plan}, {np.nanmax(np.abs(found - right))}"


def checksum(count: int) -> int:
    """A checksum of the bits of the first calls."""
    total = 0
    for seed in range(count):
        plan, operands = draw(seed)
        run = jax.jit(partial(ATTENTION.call, plan, implementation="native_cpu"))
        total = zlib.crc32(np.asarray(run(operands)).tobytes(), total)
    return total
