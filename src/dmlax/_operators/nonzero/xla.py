"""Compaction in plain XLA: bits packed into words, counted by population count, scattered once."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import choice, float_bits, tuning
from dmlax._core.arguments import is_static
from dmlax._core.byte_packing import pad_end
from dmlax._operators.nonzero.plan import NonzeroPlan
from dmlax._operators.nonzero.result import NonzeroCoordinates

_LANES = 32


class _Words(NamedTuple):
    """The input's zero tests, 32 to a word, and the flat indices of its first and last element."""

    bits: Array
    first: Array
    last: Array  # the word in which a device's slice ends; bits after the end are no elements


def run(plan: NonzeroPlan, input: Array) -> NonzeroCoordinates:
    """Packs, compacts flat indices, and takes them apart into coordinates."""
    words = _pack(plan, input)
    if not is_static(words.bits.shape):
        flat, count = _compact(plan, tuning.SYMBOLIC_SCATTERED, words)
    elif words.bits.size <= tuning.CPU_SCATTERED // _LANES:
        flat, count = _compact(plan, tuning.SCATTERED, words)
    else:
        outputs = jax.ShapeDtypeStruct((plan.size,), np.uint32), jax.ShapeDtypeStruct((), np.uint32)
        flat, count = choice.by_platform(
            words,
            outputs,
            functools.partial(_compact, plan, tuning.SCATTERED),
            {"cpu": functools.partial(_compact, plan, tuning.CPU_SCATTERED)},
        )
    return NonzeroCoordinates(count, _coordinates(plan, flat, count))


def _pack(plan: NonzeroPlan, input: Array) -> _Words:
    """The whole input's words; with an axis name, gathered from its devices."""
    local = input.size
    count = -(-local // _LANES)
    if not is_static(input.shape):
        chunks = -(-local // tuning.SYMBOLIC_SCATTERED)
        count = chunks * (tuning.SYMBOLIC_SCATTERED // _LANES)
    nonzero = float_bits.is_nonzero(input).reshape(-1)
    nonzero = pad_end(nonzero, count * _LANES - local).reshape(count, _LANES)
    lanes = lax.broadcasted_iota(jnp.uint32, (1, _LANES), 1)
    words = (nonzero.astype(jnp.uint32) << lanes).sum(axis=1, dtype=jnp.uint32)
    first = jnp.arange(count, dtype=jnp.uint32) * _LANES
    last = jnp.minimum(first + (_LANES - 1), jnp.maximum(jnp.uint32(local), 1) - 1)
    if plan.axis_name is None:
        return _Words(words, first, last)
    # A sum, not all_gather: its result is known to be the same on every device.
    device = lax.axis_index(plan.axis_name)
    everyone = jnp.zeros((plan.axis_size, count), jnp.uint32).at[device].set(words)
    offsets = jnp.arange(plan.axis_size, dtype=jnp.uint32)[:, None] * local
    words = lax.psum(everyone, plan.axis_name).reshape(-1)
    first, last = ((offsets + indices[None]).reshape(-1) for indices in (first, last))
    return _Words(words, first, last)


def _compact(plan: NonzeroPlan, chunk: int, words: _Words) -> tuple[Array, Array]:
    """Flat indices of the set bits, ascending, and how many there are."""
    step = functools.partial(_compact_chunk, plan.size)
    nothing = (words.bits[:1] ^ words.bits[:1]).sum(dtype=jnp.uint32)  # zero, varying as the data
    state = jnp.zeros(plan.size, jnp.uint32) + nothing, nothing
    per_chunk = chunk // _LANES
    whole, rest = divmod(words.bits.size, per_chunk)
    if whole != 0:
        split = _Words(*(x[: whole * per_chunk].reshape(whole, per_chunk) for x in words))
        state, _ = lax.scan(lambda state, words: (step(state, words), None), state, split)
    if rest != 0:
        state = step(state, _Words(*(x[whole * per_chunk :] for x in words)))
    return state


def _compact_chunk(size: int, state: tuple[Array, Array], words: _Words) -> tuple[Array, Array]:
    """Appends one chunk's indices.

    Every element of a word that holds anything is written, a zero to the row of the next nonzero
    element, whose index is greater: the maximum needs no branch that the data decides.
    """
    flat, count = state
    population = lax.population_count(words.bits)
    ends = jnp.cumsum(population, dtype=jnp.uint32) + count
    lanes = lax.broadcasted_iota(jnp.uint32, (1, _LANES), 1)
    below = lax.population_count(words.bits[:, None] & ((jnp.uint32(1) << lanes) - 1))
    rows = (ends - population)[:, None] + below
    rows = jnp.where((words.bits == 0)[:, None], jnp.uint32(size), rows)
    indices = jnp.minimum(words.first[:, None] + lanes, words.last[:, None])
    return flat.at[rows.reshape(-1)].max(indices.reshape(-1), mode="drop"), ends[-1]


def _coordinates(plan: NonzeroPlan, flat: Array, count: Array) -> Array:
    """Divides by constants only, and selects: side by side, columns would be written one by one."""
    shape = plan.coordinates.shape
    if plan.elements == 0:  # the other axes may multiply to more than an index holds
        return jnp.full(shape, jnp.uint32(plan.fill_value))
    column = lax.broadcasted_iota(jnp.uint32, shape, 1)
    coordinates = jnp.zeros(shape, jnp.uint32)
    stride = 1
    for axis, size in reversed(list(enumerate(plan.sizes[-plan.coordinate_rank :]))):
        position = flat // jnp.uint32(stride)
        stride *= size
        if axis:  # what is left of the first axis is below its size
            position %= jnp.uint32(size)
        coordinates = jnp.where(column == axis, position[:, None], coordinates)
    written = lax.iota(jnp.uint32, plan.size) < count
    return jnp.where(written[:, None], coordinates, jnp.uint32(plan.fill_value))
