"""Attention to keys and values in a cache, and the writing of caches, as ONNX Runtime does both.

A cache has a capacity, and every sequence of the batch a length in it. New rows are written in
place, and attention reads the blocks up to the longest length, so that a step costs by its length.
Places beyond a length are unspecified. Where ONNX Runtime refuses a length, which is a value of the
program here, the outputs of that sequence are NaN.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import ieee
from dmlax._core.arguments import is_static
from dmlax._core.byte_packing import unpack_bits
from dmlax._core.requantize import Arithmetic
from dmlax._fused.cache_attention import call as cache_attention
from dmlax._fused.cache_attention.plan import CachePlan, Caches
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import MICROSOFT
from dmlax.onnx.operators.table import Parameter, Size, Tensor, operator
from dmlax.onnx.operators.transformer import (
    MaskedHeads,
    attend,
    merge_heads,
    rotate,
    split_heads,
    to_float32,
    unpack_rows,
)
from dmlax.onnx.operators.values import (
    by_first_axis,
    expect_equal_sizes,
    integers,
    is_known,
    is_size,
    larger_size,
    to_device,
)

_BLOCK = 256  # keys that a step of the attention reads
_Read = Callable[[Array], Array]


def _count(size: int) -> Array:
    """The integers from 0 to a size, in the dtype of lengths."""
    return jnp.arange(size, dtype=np.int32)


def write(cache: Array, rows: Array, starts: Array, axis: int = 2) -> Array:
    """Writes rows at a place of every sequence, in place if the caller donates the cache.

    Args:
      cache: [batch, ...], its capacity at `axis`.
      rows: of the same shape, except for their number.
      starts: the place of the first row, [batch] or [1] for all.
      axis: of the places, from 1 on.
    """
    rows = rows.astype(cache.dtype)
    if is_size(starts.shape[0]) and starts.shape[0] == 1:
        return lax.dynamic_update_slice_in_dim(cache, rows, starts[0], axis)
    put = jax.vmap(lax.dynamic_update_slice_in_dim, (0, 0, 0, None))
    written: Array = put(cache, rows, starts, axis - 1)
    return written


def grow(cache: Array, rows: Array, starts: Array, size: int) -> Array:
    """A cache of another size, whose rows from `starts` on are new; sizes may be symbolic."""
    index = _count(size) - starts[:, None]
    if rows.shape[2] == 0:
        index = jnp.full_like(index, -1)
        rows = jnp.zeros((*rows.shape[:2], 1, rows.shape[3]), rows.dtype)
    index = index[:, None, :, None]
    picked = jnp.take_along_axis(rows, jnp.clip(index, 0, rows.shape[2] - 1), axis=2)
    missing = ((0, 0), (0, 0), (0, size - cache.shape[2]), (0, 0))
    is_new = (index >= 0) & (index < rows.shape[2])
    return jnp.where(is_new, picked.astype(cache.dtype), jnp.pad(cache, missing))


def or_nan(x: Array, is_valid: Array) -> Array:
    """A tensor whose sequences, along its first axis, are NaN where they are not valid."""
    is_valid = by_first_axis(is_valid, x.ndim)
    return jnp.where(is_valid, x, jnp.asarray(np.nan, x.dtype))


class Reach(NamedTuple):
    """The keys that every query sees.

    Attributes:
      places: of the queries, [batch, length].
      ends: the lengths with the new rows, [batch].
      is_causal: 1 for the keys up to the query's place.
      window: the number of keys up to there, less than 0 for all.
    """

    places: Array
    ends: Array
    is_causal: int = 1
    window: int = -1

    def ranges(self) -> Array:
        """The first place that every query sees, and the one after its last, [batch, length, 2]."""
        last = jnp.broadcast_to(self.ends[:, None], self.places.shape)
        if self.is_causal:
            last = jnp.minimum(last, self.places + 1)
        first = self.places - self.window + 1 if self.window >= 0 else jnp.zeros_like(last)
        return jnp.stack([first, last], axis=-1)

    def allowed(self, keys: Array) -> Array:
        """True for the keys at some places, [batch or 1, keys], that a query sees."""
        return _are_within(keys, self.ranges())


def _are_within(keys: Array, ranges: Array) -> Array:
    """True for the keys at some places that are in the ranges, [batch, 1, length, keys]."""
    keys, (first, last) = keys[:, None, None, :], jnp.moveaxis(ranges[:, None, :, None], -1, 0)
    within: Array = (keys >= first) & (keys < last)
    return within


def _seen(values: Array, allowed: Array) -> Array:
    """The values that a query of their sequence sees, and 0 elsewhere: 0 times a NaN is NaN."""
    return jnp.where(allowed.any((1, 2))[:, None, :, None], values, 0)


def attend_in_blocks(
    q: Array,
    caches: tuple[Array, Array],
    reads: tuple[_Read, _Read],
    ranges: Array,
    bias: Array | None = None,
    *,
    scale: float,
    softcap: float = 0.0,
    sink: Array | None = None,
) -> Array:
    """Computes what `attend` does, block by block up to the longest length.

    Args:
      q: [batch, heads, length, size].
      caches: keys and values, [batch, groups, capacity, ...].
      reads: the functions that make floats of a block of either.
      ranges: the first place that every query sees, and the one after its last.
      bias: is added to the scores, [batch or 1, heads or 1, length, capacity]; or None.
      scale: of the scores.
      softcap: bounds the scores before the bias is added; 0 does not.
      sink: a score of every head, of a key without a value; or None.
    """
    dtype, (q, bias, sink) = q.dtype, to_float32(q, bias, sink)
    batch, heads, length, _ = q.shape
    groups, capacity = caches[0].shape[1:3]
    block = min(_BLOCK, capacity)
    rows = q.reshape((batch, groups, heads // groups, length, q.shape[3]))
    shape = (*rows.shape[:-1], 1)

    def by_group(x: Array) -> Array:
        """Splits the axis of heads, which may be 1."""
        split = (groups, heads // groups) if x.shape[1] == heads else (1, 1)
        return x.reshape((x.shape[0], *split, *x.shape[2:]))

    def step(turn: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        top, total, result = state
        first = turn * block
        start = jnp.minimum(first, capacity - block)  # the last block overlaps the one before
        k, v = (
            read(lax.dynamic_slice_in_dim(x, start, block, 2)).astype(np.float32)
            for read, x in zip(reads, caches, strict=True)
        )
        keys = start + _count(block)
        scores = jnp.einsum("bgnsh,bgth->bgnst", rows, k, precision=lax.Precision.HIGHEST)
        scores = scores * np.float32(scale)
        scores = softcap * jnp.tanh(scores / softcap) if softcap else scores
        if bias is not None:
            scores = scores + by_group(lax.dynamic_slice_in_dim(bias, start, block, 3))
        allowed = _are_within(keys[None], ranges) & (keys >= first)
        scores, v = jnp.where(allowed[:, :, None], scores, -jnp.inf), _seen(v, allowed)
        higher = jnp.maximum(top, scores.max(-1, keepdims=True))
        shift = jnp.where(jnp.isneginf(higher), 0, higher)
        terms, fade = jnp.exp(scores - shift), jnp.exp(top - shift)
        total = total * fade + terms.sum(-1, keepdims=True)
        added = jnp.einsum("bgnst,bgth->bgnsh", terms, v, precision=lax.Precision.HIGHEST)
        return higher, total, result * fade + added

    if sink is None:
        top, total = jnp.full(shape, -jnp.inf, np.float32), jnp.zeros(shape, np.float32)
    else:
        top, total = jnp.broadcast_to(by_group(sink), shape), jnp.ones(shape, np.float32)
    nothing = jnp.zeros((*rows.shape[:-1], reads[1](caches[1][:, :, :1]).shape[-1]), np.float32)
    begin = jnp.maximum(ranges[..., 0].min(), 0) // block
    end = jnp.minimum(-(-ranges[..., 1].max() // block), -(-capacity // block))
    _, total, result = lax.fori_loop(begin, end, step, (top, total, nothing))
    y: Array = ieee.divide(result, jnp.where(total == 0, 1, total))
    return y.reshape((batch, heads, length, y.shape[-1])).astype(dtype)


def _as_is(held: Array) -> Array:
    """Reads a cache of floats."""
    return held


def _attend_in_xla(plan: CachePlan, operands: Caches) -> Array:
    """The attention in plain XLA."""
    options: dict[str, Any] = {"scale": plan.scale, "softcap": plan.softcap}
    if plan.has_sinks:
        options["sink"] = operands.sinks[:, :, None, None]
    pair, reads = (operands.keys, operands.values), (_as_is, _as_is)
    return attend_in_blocks(operands.q, pair, reads, operands.ranges, **options)


ATTENTION = cache_attention.operator(_attend_in_xla)


def attend_to_cache(
    q: Array,
    caches: tuple[Array, Array],
    reads: tuple[_Read, _Read],
    reach: Reach,
    bias: Array | None,
    arithmetic: Arithmetic,
    *,
    scale: float,
    softcap: float = 0.0,
    sink: Array | None = None,
) -> Array:
    """Computes what `attend_in_blocks` does, by a kernel where it is written for it."""
    ranges = reach.ranges()
    if bias is not None or reads != (_as_is, _as_is) or arithmetic == "exact":
        options: dict[str, Any] = {"scale": scale, "softcap": softcap, "sink": sink}
        return attend_in_blocks(q, caches, reads, ranges, bias, **options)
    sinks = jnp.zeros((q.shape[0], 0), np.float32)
    if sink is not None:
        sinks = jnp.broadcast_to(sink.astype(np.float32).reshape((1, -1)), q.shape[:2])
    plan, operands = ATTENTION.plan(Caches(q, *caches, ranges, sinks), scale, softcap)
    return ATTENTION.call(plan, operands)


class Quantization(NamedTuple):
    """The attributes of a quantized cache."""

    k_quant_type: Annotated[str, ("NONE", "PER_TENSOR", "PER_CHANNEL")] = "NONE"
    v_quant_type: Annotated[str, ("NONE", "PER_TENSOR", "PER_CHANNEL")] = "NONE"
    kv_cache_bit_width: int = 0

    def expect_valid(self, cache: Tensor | None) -> None:
        """Refuses what ONNX Runtime refuses."""
        kinds, dtype = (
            (self.k_quant_type, self.v_quant_type),
            None if cache is None else cache.dtype,
        )
        wanted = {4: np.uint8, 8: np.int8}.get(self.kv_cache_bit_width)
        is_quantized = dtype in (np.int8, np.uint8)
        fits = kinds[0] == kinds[1] and is_quantized == (kinds[0] != "NONE")
        if not fits or (is_quantized and dtype != wanted):
            text = (
                f"its k_quant_type, v_quant_type and kv_cache_bit_width are {kinds[0]}, {kinds[1]}"
            )
            text += (
                f" and {self.kv_cache_bit_width}, and its cache is {dtype}: expected equal types"
            )
            raise UnsupportedError(f"{text}, and 8 bits in int8 or 4 bits in uint8")

    def scale(self, name: str, scale: Array | None, groups: int, size: int) -> Array | None:
        """A scale that broadcasts to a cache; None without one."""
        if self.k_quant_type == "NONE":
            return None
        count = 1 if self.k_quant_type == "PER_TENSOR" else groups * size
        if scale is None or scale.size != count:
            found = "is absent" if scale is None else f"has the shape {list(scale.shape)}"
            raise UnsupportedError(f"its {name} {found}, expected {count} elements")
        scale = scale.astype(np.float32)
        return scale.reshape((1, 1, 1, 1) if count == 1 else (1, groups, 1, size))

    def store(self, x: Array, scale: Array | None) -> Array:
        """The form in which a cache holds floats."""
        if scale is None:
            return x
        half = 1 << (self.kv_cache_bit_width - 1)
        levels = jnp.round(ieee.divide(*jnp.broadcast_arrays(x.astype(np.float32), scale)))
        levels = jnp.clip(levels, -half, half - 1)
        if half > 8:
            return levels.astype(np.int8)
        fields = (levels + half).astype(np.uint8)
        return fields[..., ::2] | fields[..., 1::2] << np.uint8(4)

    def reader(self, scale: Array | None) -> _Read:
        """The function that makes floats of a part of a cache."""
        if scale is None:
            return _as_is

        def read(held: Array) -> Array:
            if self.kv_cache_bit_width == 4:
                held = unpack_bits(held, 4, 2 * held.shape[3]).astype(np.int8) - np.int8(8)
            return held.astype(np.float32) * scale

        return read


class GroupedHeads(NamedTuple):
    """The attributes of `GroupQueryAttention` that say how it attends."""

    num_heads: int
    kv_num_heads: int
    causal: Annotated[int, (0, 1)] = 1
    local_window_size: int = -1
    qk_output: Annotated[int, (0, 1, 2)] = 0
    scale: float = 0.0
    sliding_window_cache: Annotated[int, (0, 1)] = 0
    smooth_softmax: int = 0
    softcap: float = 0.0

    def split(self, q: Array, k: Array | None, v: Array | None) -> list[Array]:
        """Queries, keys and values by heads, of separate rows or of packed ones."""
        if k is None or v is None:
            size = q.shape[-1] // (self.num_heads + 2 * self.kv_num_heads)
            ends = (self.num_heads * size, (self.num_heads + self.kv_num_heads) * size)
            q, k, v = jnp.split(q, ends, axis=-1)
        heads = (self.num_heads, self.kv_num_heads, self.kv_num_heads)
        return [split_heads(x, n) for x, n in zip((q, k, v), heads, strict=True)]


_NORMALIZATIONS = ("k_norm_epsilon", "q_norm_epsilon", "qk_norm_epsilon")


@operator("GroupQueryAttention", 1, domain=MICROSOFT, ignores=_NORMALIZATIONS)
def group_query_attention(
    q: Array,
    k: Array | None,
    v: Array | None,
    past_key: Array | None,
    past_value: Array | None,
    last_keys: Array,
    total_length: Size,
    cosines: Array | None = None,
    sines: Array | None = None,
    positions: Array | None = None,
    attention_bias: Array | None = None,
    sink: Array | None = None,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    q_norm: Parameter | None = None,
    k_norm: Parameter | None = None,
    query_counts: Array | None = None,
    *,
    heads: GroupedHeads,
    quantization: Quantization,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    arithmetic: Arithmetic,
) -> tuple[Array, ...]:
    """Attends with groups of heads to a cache and to new keys, which it appends."""
    if q_norm is not None or k_norm is not None:
        raise UnsupportedError("its q_norm_weight or k_norm_weight is given, expected none")
    quantization.expect_valid(past_key)
    (total,) = integers(total_length)
    q, k, v = heads.split(q, k, v)
    batch, _, length, size = q.shape
    if past_key is None or past_value is None:
        past_key = past_value = jnp.zeros((batch, heads.kv_num_heads, 0, size), q.dtype)
    packed = 2 if quantization.kv_cache_bit_width == 4 else 1
    for cache in (past_key, past_value):
        _expect_shape(cache, batch, heads.kv_num_heads, size // packed)
    ends = last_keys.reshape((-1,)).astype(np.int32) + 1
    counts = jnp.minimum(ends, length) if query_counts is None else query_counts.reshape((-1,))
    counts = counts.astype(np.int32)
    starts = ends - counts if k.shape[2] != 0 else ends - length
    places = starts[:, None] + _count(length)
    if do_rotary:
        if cosines is None or sines is None:
            raise UnsupportedError("its cos_cache or sin_cache is absent")
        at = places if positions is None else positions.astype(np.int32)
        if positions is not None and query_counts is None:  # a prompt has the first position alone
            first = at[:1, :1] + _count(length)
            at = jnp.where(jnp.asarray(total) == length, first, at)
        tables = [jnp.take(x, at, axis=0, mode="clip") for x in (cosines, sines)]
        q, k = (rotate(x, tables, rotary_interleaved) for x in (q, k))
    scales = [
        quantization.scale(name, x, heads.kv_num_heads, size)
        for name, x in (("k_scale", k_scale), ("v_scale", v_scale))
    ]
    new = [quantization.store(x, scale) for x, scale in zip((k, v), scales, strict=True)]
    reads = quantization.reader(scales[0]), quantization.reader(scales[1])
    past, pair = (past_key, past_value), (new[0], new[1])
    step = _Step(heads, q, past, pair, reads, starts, ends, places, arithmetic)
    if heads.sliding_window_cache:
        step = step._replace(ends=starts + counts)
        y, present, scores = step.slide(attention_bias, sink)
    else:
        y, present, scores = step.append(total, attention_bias, sink, query_counts is not None)
    return merge_heads(y), *present, *([] if scores is None else [scores])


def _expect_shape(cache: Array, batch: int, groups: int, size: int) -> None:
    """Refuses a cache of other sequences, heads or sizes; files may leave these sizes open."""
    shape = [*cache.shape]
    pairs = [*zip(shape[:2], (batch, groups), strict=True), (shape[-1], size)]
    if len(shape) != 4 or any(x != y for x, y in pairs if is_size(x) and is_size(y)):
        text = f"its cache has the shape {shape}"
        raise UnsupportedError(f"{text}, expected [{batch}, {groups}, places, {size}]")
    for one, other in pairs:
        expect_equal_sizes(one, other)


class _Step(NamedTuple):
    """One call: a step of the sequences of a batch.

    Attributes:
      new: the keys and the values to append, as the cache holds them.
      starts: the lengths before it.
      ends: the lengths after it.
      places: of the queries.
    """

    heads: GroupedHeads
    q: Array
    past: tuple[Array, Array]
    new: tuple[Array, Array]
    reads: tuple[_Read, _Read]
    starts: Array
    ends: Array
    places: Array
    arithmetic: Arithmetic

    def append(
        self, total: int, bias: Array | None, sink: Array | None, is_padded: bool
    ) -> tuple[Array, list[Array], Array | None]:
        """Appends to a cache that holds every key; returns the scores if they are asked for."""
        capacity, length = self.past[0].shape[2], self.q.shape[2]
        new = self.new[0].shape[2]
        is_fixed = is_static((capacity, total, new)) and not is_padded
        fits = total == capacity + new or new <= total <= capacity if is_fixed else True
        if not fits:
            text = f"its total_sequence_length is {total}, its cache has {capacity} places and its"
            text += f" chunk {new} rows, expected their sum, or {new} to {capacity}"
            raise UnsupportedError(text)
        size = larger_size(capacity, total)
        if is_size(capacity) and capacity == 0:
            present = [*self.new]
            size = new
        elif is_static((size, new)) and size == capacity:
            present = [write(x, y, self.starts) for x, y in zip(self.past, self.new, strict=True)]
        else:
            present = [
                grow(x, y, self.starts, size) for x, y in zip(self.past, self.new, strict=True)
            ]
        if bias is not None:  # the bias has `total` keys
            bias = jnp.take(bias, jnp.clip(_count(size), 0, bias.shape[3] - 1), axis=3)
        is_valid = (self.ends >= 1) & (self.ends <= size) & (self.starts >= 0)
        if is_padded:
            is_valid = is_valid & (self.starts + new <= size) & (self.ends - self.starts <= length)
        else:  # a prompt may be padded
            is_valid = is_valid & ((self.ends >= length) | (jnp.asarray(total) == length))
        reach = Reach(self.places, self.ends, self.heads.causal, self.heads.local_window_size)
        y, scores = self._attend(tuple(present), reach, bias, sink)
        return or_nan(y, is_valid), present, None if scores is None else scores[..., :total]

    def slide(
        self, bias: Array | None, sink: Array | None
    ) -> tuple[Array, list[Array], Array | None]:
        """Appends to a cache of the last keys; a full one drops `capacity - window + 1`."""
        capacity, window, new = self.past[0].shape[2], self.heads.local_window_size, self.new[0]
        if window < 1 or (is_size(capacity) and capacity < window):
            text = f"its sliding_window_cache has {capacity} places and a window of {window}"
            raise UnsupportedError(f"{text}, expected a window, and at least as many places")

        def resident(ends: Array) -> Array:
            dropped = jnp.asarray(capacity - window + 1)
            return ends - dropped * jnp.maximum(-(-(ends - jnp.asarray(capacity)) // dropped), 0)

        held, kept = resident(self.starts)[:, None], resident(self.ends)[:, None]
        rows, length = _count(capacity), _count(new.shape[2])
        starts, ends = self.starts[:, None], self.ends[:, None]
        old_places = jnp.where(rows < held, starts - held + rows, np.int32(np.iinfo(np.int32).max))
        places = jnp.concatenate([old_places, starts + length], axis=1)
        staged = [
            jnp.concatenate([x, y.astype(x.dtype)], axis=2)
            for x, y in zip(self.past, self.new, strict=True)
        ]
        at = ends - kept + rows  # the place of every row of the new cache
        index = jnp.where(at < starts, at - (starts - held), capacity + at - starts)
        index = jnp.clip(index, 0, staged[0].shape[2] - 1)[:, None, :, None]
        present = [jnp.take_along_axis(x, index, axis=2) for x in staged]
        reach = Reach(self.places, self.ends, 1, window)
        if bias is not None:
            columns = jnp.clip(places, 0, bias.shape[3] - 1)[:, None, None]
            bias = jnp.broadcast_to(bias, (self.q.shape[0], *bias.shape[1:]))
            bias = jnp.take_along_axis(bias, columns, axis=3)
        k, v = (read(x) for read, x in zip(self.reads, staged, strict=True))
        allowed = reach.allowed(places)
        attended = attend(self.q, k, _seen(v, allowed), bias, allowed, **self._options(sink))
        is_valid = (self.ends >= 1) & (self.starts >= 0)
        return or_nan(attended.result.astype(self.q.dtype), is_valid), present, None

    def _options(self, sink: Array | None) -> dict[str, Any]:
        """The keywords of `attend`."""
        sink = None if sink is None else sink.reshape((1, -1, 1, 1))
        if sink is None and self.heads.smooth_softmax == 1:
            sink = jnp.zeros((1, self.heads.num_heads, 1, 1))
        return {"scale": self.heads.scale, "softcap": self.heads.softcap, "sink": sink}

    def _attend(
        self, caches: tuple[Array, ...], reach: Reach, bias: Array | None, sink: Array | None
    ) -> tuple[Array, Array | None]:
        """Attends to a whole cache if it is short, and block by block otherwise."""
        options, capacity = self._options(sink), caches[0].shape[2]
        has_scores = self.heads.qk_output > 0
        if is_static((*caches[0].shape, *self.q.shape)) and capacity > _BLOCK and not has_scores:
            pair = (caches[0], caches[1])
            options["scale"] = self.heads.scale or 1 / math.sqrt(self.q.shape[-1])
            one = (self.q, pair, self.reads, reach, bias, self.arithmetic)
            return attend_to_cache(*one, **options), None
        k, v = (read(x) for read, x in zip(self.reads, caches, strict=True))
        allowed = reach.allowed(_count(capacity)[None])
        attended = attend(self.q, k, _seen(v, allowed), bias, allowed, **options)
        scores = None
        if has_scores:
            scores = attended.probabilities if self.heads.qk_output == 2 else attended.biased
            scores = jnp.where(allowed, scores, 0)
        return attended.result.astype(self.q.dtype), scores


class Shared(NamedTuple):
    """A past that is the buffer of the present, too.

    Attributes:
      past: keys and values, [batch, heads, capacity, size].
      length: of every sequence, one number.
      beams: the number of beams, None for the one that `indirection` has.
      indirection: the beam that has every past key of a beam, [batch, beams, keys]; or None.
    """

    past: tuple[Array, Array]
    length: Tensor
    beams: Tensor | None = None
    indirection: Array | None = None

    def attend(
        self,
        heads: MaskedHeads,
        parts: list[Array],
        mask: Array | None,
        attention_bias: Array | None,
        arithmetic: Arithmetic,
    ) -> tuple[Array, ...]:
        """Appends a chunk, and attends to all; returns the scores if the length is known."""
        q, (batch, _, length, size) = parts[0], parts[0].shape
        capacity = self.past[0].shape[2]
        start = to_device(self.length).reshape((-1,))[:1].astype(np.int32)
        starts = jnp.broadcast_to(start, (batch,))
        present = [write(x, y, start) for x, y in zip(self.past, parts[1:], strict=True)]
        known = is_known(self.length)
        total = int(self.length.ravel()[0]) + length if known else capacity
        bias = heads.bias(mask, attention_bias, batch, total)
        if bias is not None:
            bias = jnp.pad(bias, [(0, 0)] * 3 + [(0, capacity - bias.shape[3])])
        places = starts[:, None] + _count(length)
        reach = Reach(places, starts + length, heads.unidirectional)
        k, v = (self._of_beams(x, starts) if length == 1 else x for x in present)
        is_valid = (start >= 0) & (start < capacity) & (start + length <= capacity)
        if capacity > _BLOCK and not known:
            scale = heads.scale or 1 / math.sqrt(size)
            one = (q, (k, v), (_as_is, _as_is), reach, bias, arithmetic)
            y, scores = attend_to_cache(*one, scale=scale), None
        else:
            allowed = reach.allowed(_count(capacity)[None])
            attended = attend(q, k, _seen(v, allowed), bias, allowed, scale=heads.scale)
            y, scores = attended.result, attended.biased[..., :total] if known else None
        return merge_heads(or_nan(y, is_valid)), *present, *([] if scores is None else [scores])

    def _of_beams(self, x: Array, starts: Array) -> Array:
        """Takes the past keys or values of the beams that have them."""
        if self.indirection is None:
            return x
        beams = self.indirection.shape[1]
        owner = _count(x.shape[0])[:, None] // beams * beams
        rows = owner + self.indirection.reshape((x.shape[0], -1))[:, : x.shape[2]]
        places = _count(x.shape[2])
        taken = x[rows[:, None, :], _count(x.shape[1])[:, None], places]
        return jnp.where((places < starts[:, None])[:, None, :, None], taken, x)


def _projected(x: Array, bias: Array | None, start: int, heads: int) -> Array:
    """Rows with a part of a bias, by heads; past keys stay as they are."""
    if x.ndim == 4:
        return x
    return split_heads(x if bias is None else x + bias[start : start + x.shape[-1]], heads)


@operator("MultiHeadAttention", 1, domain=MICROSOFT)
def multi_head_attention(
    q: Array,
    k: Array | None = None,
    v: Array | None = None,
    bias: Array | None = None,
    mask: Array | None = None,
    attention_bias: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    past_sequence_length: Parameter | None = None,
    cache_indirection: Array | None = None,
    *,
    heads: MaskedHeads,
    arithmetic: Arithmetic,
) -> tuple[Array, ...]:
    """Attends with projected queries, keys and values, separate or packed."""
    if q.ndim == 5 and k is None and v is None:  # a query, a key and a value for every head
        q, k, v = unpack_rows(q)
    elif k is not None and v is None and k.ndim == 5:
        k, v = unpack_rows(k)
    if k is None or v is None:
        raise UnsupportedError("its key or value is absent")
    parts, start = [], 0
    for x in (q, k, v):
        parts.append(_projected(x, bias, start, heads.num_heads))
        start += x.shape[1] * x.shape[3] if x.ndim == 4 else x.shape[-1]
    if past_sequence_length is None or past_key is None or past_value is None:
        return heads.attend(parts, mask, attention_bias, (past_key, past_value))
    shared = Shared((past_key, past_value), past_sequence_length, None, cache_indirection)
    return shared.attend(heads, parts, mask, attention_bias, arithmetic)


@operator("DecoderMaskedMultiHeadAttention", 1, domain=MICROSOFT, ignores=["output_qk"])
def decoder_masked_multi_head_attention(
    q: Array,
    k: Array | None = None,
    v: Array | None = None,
    mask: Array | None = None,
    attention_bias: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    past_sequence_length: Parameter | None = None,
    beam_width: Parameter | None = None,
    cache_indirection: Array | None = None,
    bias: Array | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    arithmetic: Arithmetic,
) -> tuple[Array, ...]:
    """Attends with one query of every sequence to a buffer of keys, or to the keys of another."""
    heads = MaskedHeads(num_heads, mask_filter_value, scale)
    if k is None or v is None or q.shape[1] != 1:
        found = f"its query has the shape {list(q.shape)}, and its key or value may be absent"
        raise UnsupportedError(f"{found}: expected one row of each")
    ends = (0, q.shape[-1], q.shape[-1] + k.shape[-1])
    parts = [_projected(x, bias, n, num_heads) for x, n in zip((q, k, v), ends, strict=True)]
    if k.ndim == 4:  # keys of another sequence
        y, _, _, scores = heads.attend(parts, mask, attention_bias, (None, None))
        return y, k, v, scores
    is_shared = past_key is not None and past_value is not None and past_present_share_buffer
    if not is_shared or past_sequence_length is None:
        text = f"its past_present_share_buffer is {past_present_share_buffer}, or a past is absent"
        raise UnsupportedError(f"{text}, expected 1, past_key, past_value and their length")
    assert past_key is not None
    assert past_value is not None
    shared = Shared((past_key, past_value), past_sequence_length, beam_width, cache_indirection)
    return shared.attend(heads, parts, mask, attention_bias, arithmetic)


@operator("TensorScatter", 24)
def scatter_tensor(
    cache: Array,
    update: Array,
    starts: Array | None = None,
    *,
    axis: int = -2,
    mode: Annotated[str, ("linear", "circular")] = "linear",
) -> Array:
    """Writes the rows of an update into a cache, from a place of every sequence on."""
    axis, shape = axis % cache.ndim, list(cache.shape)
    others = [n for i, n in enumerate(shape) if i != axis]
    fits = [n for i, n in enumerate(update.shape) if i != axis] == others and axis > 0
    if update.ndim != cache.ndim or not fits or update.shape[axis] > shape[axis]:
        text = f"its update has the shape {list(update.shape)} for a cache of {shape}"
        raise UnsupportedError(f"{text}, expected the cache's, or fewer along axis {axis} from 1")
    starts = jnp.zeros(shape[:1], np.int32) if starts is None else starts.astype(np.int32)
    length, capacity = update.shape[axis], shape[axis]
    if mode == "circular":
        places = (starts[:, None] + _count(length)) % capacity
        before = (slice(None),) * (axis - 1)
        put = jax.vmap(lambda x, at, y: x.at[(*before, at)].set(y))
        return jnp.asarray(put(cache, places, update))  # type: ignore[no-untyped-call]
    if jnp.issubdtype(cache.dtype, jnp.floating):  # a place beyond the cache must not go unseen
        update = or_nan(update.astype(cache.dtype), (starts >= 0) & (starts + length <= capacity))
    return write(cache, update, starts, axis)
