"""Recurrences of hybrid language models: linear attention, convolutions with a state, gates."""

import math
from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import ieee
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import MICROSOFT
from dmlax.onnx.operators.table import Zero, operator
from dmlax.onnx.operators.transformer import Rotation, to_float32

_RULES = ("linear", "gated", "delta", "gated_delta")
_GATES: dict[str, Callable[[Array], Array]] = {
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
    "sigmoid": jax.nn.sigmoid,
}


@operator("LinearAttention", 1, domain=MICROSOFT, ignores=["chunk_size"])
def linear_attention(
    q: Array,
    k: Array,
    v: Array,
    state: Array | None = None,
    decay: Array | None = None,
    rate: Array | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    state_window: Zero = 0,
    update_rule: Annotated[str, _RULES] = "gated_delta",
) -> tuple[Array, Array]:
    """Updates a matrix of keys and values token by token, and multiplies every query by it."""
    batch, length, _ = q.shape
    if q_num_heads % kv_num_heads and kv_num_heads % q_num_heads:
        raise UnsupportedError(f"it has {q_num_heads} heads and {kv_num_heads} groups of them")
    is_gated, has_rate = update_rule.startswith("gated"), update_rule.endswith("delta")
    if is_gated != (decay is not None) or has_rate != (rate is not None):
        found = [name for name, x in (("decay", decay), ("beta", rate)) if x is not None]
        text = f"its update_rule is {update_rule}, and it has {' and '.join(found) or 'no gate'}"
        raise UnsupportedError(f"{text}, expected the gates of the rule")
    by_heads = [x.reshape((batch, length, kv_num_heads, -1)) for x in to_float32(k, v)]
    queries = to_float32(q)[0].reshape((batch, length, q_num_heads, -1))
    keys, values = by_heads
    scale = scale or 1 / math.sqrt(queries.shape[-1])
    heads = max(q_num_heads, kv_num_heads)
    queries = jnp.repeat(queries, heads // q_num_heads, axis=2)
    shape = (batch, kv_num_heads, keys.shape[-1], values.shape[-1])
    first = jnp.zeros(shape, np.float32) if state is None else state.astype(np.float32)
    fade = rates = jnp.ones((batch, length, 1, 1), np.float32)
    if decay is not None:
        fade = jnp.exp(to_float32(decay)[0]).reshape((batch, length, kv_num_heads, -1))
    if rate is not None:
        rates = to_float32(rate)[0][..., None]

    def step(held: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        query, key, value, kept, share = inputs
        held = held * kept[..., None]
        if has_rate:
            value = (value - _contract(key, held)) * share
        held = held + key[..., None] * value[..., None, :]
        return held, _contract(query, jnp.repeat(held, heads // kv_num_heads, axis=1))

    inputs = [jnp.moveaxis(x, 1, 0) for x in (queries, keys, values, fade, rates)]
    last, rows = lax.scan(step, first, tuple(inputs))
    y = jnp.moveaxis(rows, 0, 1).reshape((batch, length, heads * shape[3])) * np.float32(scale)
    return y.astype(q.dtype), last.astype(q.dtype if state is None else state.dtype)


def _contract(x: Array, matrix: Array) -> Array:
    """Multiplies a row of every head by its matrix."""
    return jnp.einsum("bhk,bhkv->bhv", x, matrix, precision=lax.Precision.HIGHEST)


@operator("CausalConvWithState", 1, domain=MICROSOFT, ignores=["state_update_capacity"])
def causal_convolution(
    x: Array,
    w: Array,
    bias: Array | None = None,
    state: Array | None = None,
    *,
    activation: Annotated[str, ("none", "silu", "swish")] = "none",
    channels_last: Annotated[int, (0, 1)] = 0,
    dilation: int = 1,
    input_channel_offset: Zero = 0,
    input_channels: Zero = 0,
    ndim: Annotated[int, (1,)] = 1,
    state_channels_last: Annotated[int, (-1,)] = -1,
    state_length: Zero = 0,
    state_window: Zero = 0,
) -> tuple[Array, Array]:
    """Convolves every channel with the positions up to each; returns the last ones as the state."""
    shape, taps = x.shape, w.shape[-1]
    reach = (taps - 1) * dilation
    if channels_last:
        x = jnp.swapaxes(x.reshape((*shape[:2], -1)), 1, 2)
    if x.ndim != 3 or w.shape != (x.shape[1], 1, taps) or dilation < 1:
        text = f"its input has the shape {list(shape)}, its weight {list(w.shape)}"
        raise UnsupportedError(f"{text}, expected [batch, channels, length] and [channels, 1, k]")
    if state is None:
        before = jnp.zeros((*x.shape[:2], reach), x.dtype)
    elif channels_last:
        before = jnp.swapaxes(state.reshape((shape[0], reach, -1)), 1, 2)
    else:
        before = state
    line = jnp.concatenate([before.astype(x.dtype), x], axis=2)
    wide, factors = to_float32(line, w[:, 0])
    y = jnp.zeros(x.shape, np.float32)
    if bias is not None:
        y = y + bias.astype(np.float32)[:, None]
    for tap in range(taps):
        part = lax.slice_in_dim(wide, tap * dilation, tap * dilation + x.shape[2], axis=2)
        y = y + part * factors[:, tap, None]
    y = (y if activation == "none" else jax.nn.silu(y)).astype(x.dtype)
    last = lax.slice_in_dim(line, line.shape[2] - reach, line.shape[2], axis=2)
    if channels_last:
        y = jnp.swapaxes(y, 1, 2).reshape(shape)
        last = jnp.swapaxes(last, 1, 2).reshape((shape[0], reach, *shape[2:]))
    return y, last


@operator("GatedRMSNorm", 1, domain=MICROSOFT)
def gated_normalization(
    x: Array,
    scale: Array,
    gate: Array,
    *,
    activation: Annotated[str, (*_GATES,)] = "silu",
    epsilon: float = 1e-5,
) -> Array:
    """Divides groups of a row by the root of their mean square, and multiplies by a gate."""
    size = scale.shape[0]
    if x.shape[-1] % size:
        raise UnsupportedError(f"its rows of {x.shape[-1]} elements have groups of {size}")
    wide, factors, gates = to_float32(x, scale, gate)
    groups = wide.reshape((*x.shape[:-1], -1, size))
    square = (groups * groups).mean(-1, keepdims=True)
    root = jnp.broadcast_to(ieee.sqrt(square + epsilon), groups.shape)
    y: Array = ieee.divide(groups, root) * factors
    return (y.reshape(x.shape) * _GATES[activation](gates)).astype(x.dtype)


@operator("LinearAttentionGate", 1, domain=MICROSOFT)
def linear_attention_gate(
    a: Array, bias: Array, scale: Array, b: Array | None = None
) -> tuple[Array, ...]:
    """The decay and the rate of a linear attention."""
    decay = (scale * jax.nn.softplus(a.astype(np.float32) + bias)).astype(a.dtype)
    if b is None:
        return (decay,)
    return decay, jax.nn.sigmoid(b.astype(np.float32)).astype(b.dtype)


@operator("MRotaryEmbedding", 1, domain=MICROSOFT, ignores=["scale"])
def rotary_embedding_of_three_positions(
    x: Array,
    positions: Array,
    cosines: Array,
    sines: Array,
    *,
    rotation: Rotation,
    mrope_section: tuple[int, ...],
    mrope_layout: Annotated[int, (0, 1)] = 0,
    is_packed_batching: Zero = 0,
) -> Array:
    """Rotates pairs of elements by the angles of three positions, each for a part of the pairs."""
    half = cosines.shape[-1]
    if len(mrope_section) != 3 or sum(mrope_section) != half:
        text = f"its mrope_section is {list(mrope_section)}"
        raise UnsupportedError(f"{text}, expected three sizes that add up to {half}")
    source = np.repeat(np.arange(3), mrope_section)
    if mrope_layout:
        source = np.zeros(half, int)
        for stream in (1, 2):
            source[stream : 3 * mrope_section[stream] : 3] = stream
    tables = [
        jnp.take_along_axis(jnp.take(x, positions, axis=0), source[None, None, None], axis=0)[0]
        for x in (cosines, sines)
    ]
    return rotation.of(x, tables[0], tables[1], None)
