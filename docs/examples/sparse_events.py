"""Event-camera frames: gather the few active pixels, not the whole image.

    python docs/examples/sparse_events.py

A frame holds, for every pixel, the sum of its events' signs; nearly all are 0. A frame's
descriptor is the sum, over its active pixels, of the pixel's value times the pixel's features.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

import dmlax

FRAMES, HEIGHT, WIDTH, FEATURES = 8, 120, 160, 32
DENSITY = 0.01
CAPACITY = 2048  # active pixels that one batch has room for


class Descriptors(NamedTuple):
    """A batch's descriptors, and the number of active pixels that did not fit."""

    values: Array  # float32 (frames, features)
    dropped: Array  # uint32 ()


def dense_descriptors(frames: Array, features: Array) -> Array:
    """Sums over every pixel."""
    precision = jax.lax.Precision.HIGHEST
    return jnp.einsum("bhw,hwf->bf", frames.astype(features.dtype), features, precision=precision)


def sparse_descriptors(frames: Array, features: Array, size: int = CAPACITY) -> Descriptors:
    """Sums over the active pixels, at most `size` of them.

    The rows after the count hold an index that no axis has: a gather reads 0 there, and a sum
    drops it.
    """
    nowhere = max(*frames.shape, *features.shape)
    count, places = dmlax.nonzero_coordinates(frames, size=size, fill_value=nowhere)
    frame, y, x = places.T
    value = frames.at[frame, y, x].get(mode="fill", fill_value=0)
    rows = features.at[y, x].get(mode="fill", fill_value=0)
    contributions = value[:, None].astype(features.dtype) * rows
    values = jax.ops.segment_sum(contributions, frame, num_segments=len(frames))
    return Descriptors(values, count - jnp.minimum(count, jnp.uint32(size)))


def safe_descriptors(frames: Array, features: Array, size: int = CAPACITY) -> Array:
    """Sums over the active pixels if they fit, else over every pixel."""
    sparse = sparse_descriptors(frames, features, size)
    return jax.lax.cond(
        sparse.dropped > 0, lambda: dense_descriptors(frames, features), lambda: sparse.values
    )


class Record(NamedTuple):
    """Results of the example."""

    active: int
    pixels: int
    equal: bool
    dropped: int
    safe_equal: bool
    vmapped_equal: bool


def main() -> Record:
    """Compare the sparse descriptors with the dense ones, in four ways."""
    frames, features = _data(jax.random.key(0))
    dense = dense_descriptors(frames, features)

    # All in one list, inside jit.
    sparse = jax.jit(sparse_descriptors)(frames, features)
    equal = bool((sparse.values == dense).all() & (sparse.dropped == 0))

    # Too few rows: the count includes the dropped pixels, so the loss is known, or avoided.
    small = jax.jit(sparse_descriptors, static_argnames="size")(frames, features, size=1000)
    safe = jax.jit(safe_descriptors, static_argnames="size")(frames, features, size=1000)

    # A list for each frame.
    of_one = jax.vmap(lambda frame: sparse_descriptors(frame[None], features, size=300).values[0])

    record = Record(
        active=int((frames != 0).sum()),
        pixels=frames.size,
        equal=equal,
        dropped=int(small.dropped),
        safe_equal=bool((safe == dense).all()),
        vmapped_equal=bool((of_one(frames) == dense).all()),
    )
    print(f"active pixels          {record.active:,} of {record.pixels:,}")
    print(f"sparse equals dense    {record.equal}")
    print(f"dropped at size=1000   {record.dropped}")
    print(f"dense when too many    {record.safe_equal}")
    print(f"vmapped equals dense   {record.vmapped_equal}")
    return record


def _data(key: Array) -> tuple[Array, Array]:
    """int8 frames; features that are small integers, whose sums float32 holds exactly."""
    active, signs, weights = jax.random.split(key, 3)
    shape = (FRAMES, HEIGHT, WIDTH)
    values = jax.random.randint(signs, shape, -3, 4, jnp.int8)
    frames = jnp.where(jax.random.uniform(active, shape) < DENSITY, values, jnp.int8(0))
    features = jax.random.randint(weights, (HEIGHT, WIDTH, FEATURES), -64, 65)
    return frames, features.astype(jnp.float32)


if __name__ == "__main__":
    main()
