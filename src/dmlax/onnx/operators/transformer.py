"""Attention, normalizations and fused operators of transformers, as ONNX Runtime writes them.

All of it is float arithmetic in float32, whatever the dtype of the operands, and XLA's order of
sums. The integer products of `QAttention` are exact.
"""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import ieee, sums
from dmlax._core.requantize import Arithmetic
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import MICROSOFT
from dmlax.onnx.operators import floats, quantized
from dmlax.onnx.operators.convolutions import convolution
from dmlax.onnx.operators.pools import max_pool
from dmlax.onnx.operators.table import Parameter, Zero, operator
from dmlax.onnx.operators.windows import PoolWindows, Windows


def to_float32(*values: Array | None) -> list[Any]:
    """The values as float32; None stays None."""
    return [None if x is None else x.astype(np.float32) for x in values]


@operator("RMSNormalization", 23, ignores=["stash_type"])
@operator("SimplifiedLayerNormalization", *range(1, 29), ignores=["stash_type"])
def root_mean_square_normalization(
    x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5
) -> tuple[Array, Array]:
    """Divides the axes from `axis` on by the root of their mean square; returns 1 / root too."""
    wide, scale = to_float32(x, scale)
    y, _, inverse = floats.normalize(wide, scale, axis=axis, epsilon=epsilon, is_centred=False)
    return y.astype(x.dtype), inverse


def _with_skip(
    x: Array,
    skip: Array,
    bias: Array | None,
    *factors: Array | None,
    epsilon: float,
    is_centred: bool = True,
) -> tuple[Array, Array, Array, Array]:
    """Normalizes a sum, which is the last output."""
    wide, skip, bias = to_float32(x, skip, bias)
    total = wide + skip if bias is None else wide + skip + bias
    operands = to_float32(total, *factors)
    y, mean, inverse = floats.normalize(*operands, epsilon=epsilon, is_centred=is_centred)
    mean = jnp.broadcast_to(mean, inverse.shape)
    return y.astype(x.dtype), mean, inverse, total.astype(x.dtype)


@operator("SkipLayerNormalization", 1, domain=MICROSOFT)
def skip_layer_normalization(
    x: Array,
    skip: Array,
    scale: Array,
    beta: Array | None = None,
    bias: Array | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Array, ...]:
    """Normalizes a sum by its mean and deviation."""
    return _with_skip(x, skip, bias, scale, beta, epsilon=epsilon)


@operator("SkipSimplifiedLayerNormalization", 1, domain=MICROSOFT)
def skip_root_mean_square_normalization(
    x: Array, skip: Array, scale: Array, bias: Array | None = None, *, epsilon: float = 1e-12
) -> tuple[Array, ...]:
    """Normalizes a sum by the root of its mean square."""
    return _with_skip(x, skip, bias, scale, epsilon=epsilon, is_centred=False)


class Embedding(NamedTuple):
    """The inputs that the embeddings share."""

    ids: Array
    segments: Array | None
    words: Array
    positions: Array
    segment_table: Array | None
    scale: Array
    beta: Array


def _embed(
    tables: Sequence[Array], scale: Array, beta: Array, mask: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    """Normalizes a sum of rows; counts the ones of every row of a mask; returns the sum too."""
    total = sum(tables[1:], tables[0])
    y, *_ = floats.normalize(*to_float32(total, scale, beta), epsilon=epsilon)
    counts = jnp.zeros(total.shape[:1], np.int32)
    if mask is not None:
        counts = (mask == 1).sum(1).astype(np.int32)
    return y.astype(total.dtype), counts, total


def _rows(table: Array, indices: Array) -> Array:
    return jnp.take(table, indices, axis=0)


@operator("EmbedLayerNormalization", 1, domain=MICROSOFT, ignores=["mask_index_type"])
def embed_layer_normalization(
    of: Embedding,
    mask: Array | None = None,
    position_ids: Array | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Array, Array, Array]:
    """Adds the rows of tokens, positions and segments, and normalizes the sum."""
    if position_ids is None:
        position_ids = jnp.arange(of.ids.shape[1])[None]
    parts = [_rows(of.words, of.ids), _rows(of.positions, position_ids)]
    if of.segments is not None and of.segment_table is not None:
        parts.append(_rows(of.segment_table, of.segments))
    return _embed(parts, of.scale, of.beta, mask, epsilon)


@operator("QEmbedLayerNormalization", 1, domain=MICROSOFT)
def quantized_embed_layer_normalization(
    of: Embedding, mask: Array | None, *parameters: Parameter, epsilon: float = 1e-12
) -> tuple[Array, Array, Array]:
    """Dequantizes rows, adds them, and normalizes the sum."""
    if len(parameters) != 10:
        raise UnsupportedError(f"it has {8 + len(parameters)} inputs, expected 18")
    indices = (of.ids, jnp.arange(of.ids.shape[1])[None], of.segments, None, None)
    parts = []
    for i, (table, index) in enumerate(zip(of[2:], indices, strict=True)):
        if table is not None:
            levels = table if index is None else _rows(table, index)
            parts.append(quantized.scale_difference(levels, parameters[5 + i], parameters[i]))
    *rows, scale, beta = parts
    return _embed(rows, scale, beta, mask, epsilon)


@operator("FastGelu", 1, domain=MICROSOFT)
def fast_gelu(x: Array, bias: Array | None = None, *, arithmetic: Arithmetic = "float32") -> Array:
    """The Gaussian error linear unit of x plus a bias, by tanh."""
    x = x if bias is None else x + bias
    if arithmetic == "exact":
        return floats.gelu(x, approximate="tanh", arithmetic=arithmetic)
    wide = x.astype(np.float32)
    slope = 0.7978845608028654 + 0.035677408136300125 * wide * wide
    return (0.5 * wide * (1 + jnp.tanh(wide * slope))).astype(x.dtype)


@operator("BiasGelu", 1, domain=MICROSOFT)
def bias_gelu(x: Array, bias: Array, *, arithmetic: Arithmetic) -> Array:
    """The Gaussian error linear unit of a sum."""
    return floats.gelu(x + bias, arithmetic=arithmetic)


@operator("QuickGelu", 1, domain=MICROSOFT)
def quick_gelu(x: Array, *, alpha: float = 1.702) -> Array:
    """X times the sigmoid of alpha x."""
    wide: Array = x.astype(np.float32)
    return (wide * jax.nn.sigmoid(alpha * wide)).astype(x.dtype)


_ACTIVATIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "": lambda x, first, second: x,
    "Relu": lambda x, first, second: jnp.maximum(x, 0),
    "Sigmoid": lambda x, first, second: jax.nn.sigmoid(x),
    "Tanh": lambda x, first, second: jnp.tanh(x),
    "LeakyRelu": lambda x, first, second: jnp.where(x >= 0, x, first * x),
    "Elu": lambda x, first, second: jax.nn.elu(x, first),
    "Clip": lambda x, first, second: jnp.clip(x, first, second),
    "HardSigmoid": lambda x, first, second: jnp.clip(first * x + second, 0, 1),
}


def _activate(x: Array, name: str, parameters: Sequence[float]) -> Array:
    """Computes the activation of a fused operator, "" for none."""
    if name not in _ACTIVATIONS:
        raise UnsupportedError(f"its activation {name} is not known")
    first, second = (*parameters, 0.0, 0.0)[:2]
    return _ACTIVATIONS[name](x, first, second)


def _convolution(channels_last: bool) -> Callable[..., Array]:
    """A convolution, a residual and an activation."""

    def compute(
        x: Array,
        w: Array,
        bias: Array | None = None,
        residual: Array | None = None,
        *,
        activation: str = "",
        activation_params: tuple[float, ...] = (),
        windows: Windows,
    ) -> Array:
        image = jnp.moveaxis(x, -1, 1) if channels_last else x
        y = convolution(image, w, bias, windows=windows)
        y = jnp.moveaxis(y, 1, -1) if channels_last else y
        y = y if residual is None else y + residual
        return _activate(y, activation, activation_params)

    return compute


operator("FusedConv", 1, domain=MICROSOFT)(_convolution(False))
operator("NhwcFusedConv", 1, domain=MICROSOFT)(_convolution(True))
operator("NhwcConv", 1, domain=MICROSOFT)(_convolution(True))


@operator("NhwcMaxPool", 1, domain=MICROSOFT)
def max_pool_of_rows(x: Array, *, windows: PoolWindows) -> Array | tuple[Array, Array]:
    """Takes the largest element of every window, channels last."""
    return max_pool(x, windows=windows, channels_last=1, output_count=1)


@operator("FusedGemm", 1, domain=MICROSOFT, ignores=["activation_gamma"])
def fused_gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    activation: str = "",
    activation_alpha: float = 0.0,
    activation_beta: float = 0.0,
    factors: floats.GemmFactors,
) -> Array:
    """Multiplies matrices, adds a third, and computes an activation."""
    y = floats.gemm(a, b, c, factors=factors)
    return _activate(y, activation, (activation_alpha, activation_beta))


@operator("FusedMatMul", 1, domain=MICROSOFT)
@operator("TransposeMatMul", 1, domain=MICROSOFT)
def fused_matrix_product(
    a: Array,
    b: Array,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Array:
    """Multiplies matrices that it transposes, and scales the product."""
    left = _transposed(a, transA, transBatchA)
    right = _transposed(b, 0, transBatchB)
    if transB and left.ndim == right.ndim and left.ndim > 1 and left.shape[-2] == 1:
        # XLA would copy the transposed matrix for a single row.
        product = floats.matrix_product(right, jnp.swapaxes(left, -1, -2)).swapaxes(-1, -2)
    else:
        product = floats.matrix_product(left, _transposed(right, transB, 0))
    return product if alpha == 1 else product * np.asarray(alpha, product.dtype)


def _transposed(x: Array, is_swapped: int, is_batch_last: int) -> Array:
    """Moves the first axis before the last if asked, then swaps the last two if asked."""
    if is_batch_last and x.ndim > 2:
        x = jnp.moveaxis(x, 0, -2)
    return jnp.swapaxes(x, -1, -2) if is_swapped and x.ndim > 1 else x


class Attended(NamedTuple):
    """The result of an attention, and the scores after every step."""

    result: Array
    raw: Array
    capped: Array
    biased: Array
    probabilities: Array


def attend(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None = None,
    allowed: Array | None = None,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    sink: Array | None = None,
) -> Attended:
    """Computes softmax(scale q k^T + bias) v in float32; a row without keys gives zeros.

    Args:
      q: [batch, heads, queries, size].
      k: [batch, groups, keys, size], whose groups divide the heads.
      v: [batch, groups, keys, value size].
      bias: is added to the scores, to which it broadcasts; or None.
      allowed: booleans that broadcast to the scores, False for keys that are left out; or None.
      scale: default 1 / sqrt(size).
      softcap: bounds the scores before the bias is added; 0 does not.
      sink: a score that broadcasts to [batch, heads, queries, 1], of a key without a value.
    """
    dtype, (q, k, v, bias, sink) = v.dtype, to_float32(q, k, v, bias, sink)
    k, v = (_repeat_groups(x, q.shape[1]) for x in (k, v))
    scale = scale or 1 / math.sqrt(q.shape[-1])
    raw = jnp.einsum("bnsh,bnth->bnst", q, k, precision=lax.Precision.HIGHEST) * np.float32(scale)
    capped = softcap * jnp.tanh(raw / softcap) if softcap else raw
    biased = capped if bias is None else capped + bias
    if allowed is not None:
        biased = jnp.where(allowed, biased, -jnp.inf)
    top = biased.max(-1, keepdims=True)
    top = top if sink is None else jnp.maximum(top, sink)
    top = lax.stop_gradient(jnp.where(jnp.isneginf(top), 0, top))
    terms = jnp.exp(biased - top)
    total = sums.total(terms, [terms.ndim - 1], sums.IN_ROWS)
    total = total if sink is None else total + jnp.exp(sink - top)
    probabilities = ieee.divide(terms, jnp.where(total == 0, 1, total))
    y = jnp.einsum("bnst,bnth->bnsh", probabilities, v, precision=lax.Precision.HIGHEST)
    return Attended(*(x.astype(dtype) for x in (y, raw, capped, biased, probabilities)))


def _repeat_groups(x: Array, heads: int) -> Array:
    """Gives every head the keys or values of its group."""
    groups = x.shape[1]
    if heads % groups:
        raise UnsupportedError(f"it has {heads} heads and {groups} groups of them")
    return x if heads == groups else jnp.repeat(x, heads // groups, axis=1)


def split_heads(x: Array, heads: int) -> Array:
    """Makes [batch, heads, length, size] of [batch, length, heads * size]."""
    batch, length, size = x.shape
    if heads < 1 or size % heads:
        raise UnsupportedError(f"its rows of {size} elements have {heads} heads")
    return jnp.swapaxes(x.reshape((batch, length, heads, size // heads)), 1, 2)


def merge_heads(x: Array) -> Array:
    """The inverse of `split_heads`."""
    batch, heads, length, size = x.shape
    return jnp.swapaxes(x, 1, 2).reshape((batch, length, heads * size))


def _before(past: Array | None, x: Array) -> Array:
    """Puts the keys or values of a cache before new ones."""
    return x if past is None else jnp.concatenate([past.astype(x.dtype), x], axis=2)


def _mask_bias(mask: Array, batch: int, total: int, value: float) -> Array:
    """The bias of a mask in one of com.microsoft's forms."""
    keys = jnp.arange(total)
    if mask.ndim in (2, 3):
        keep = mask[:, None, None] > 0 if mask.ndim == 2 else mask[:, None] > 0
    elif mask.ndim == 1 and mask.shape[0] in (batch, 2 * batch):
        keep = (keys < mask[:batch, None])[:, None, None]
        if mask.shape[0] != batch:
            keep &= (keys >= mask[batch:, None])[:, None, None]
    else:
        text = f"its mask has the shape {list(mask.shape)}, expected rank 2 or 3, or end positions"
        raise UnsupportedError(f"{text} and perhaps starts of {batch} sequences")
    return jnp.where(keep, np.float32(0), np.float32(value))


def _causal(queries: int, keys: int, offset: int) -> Array:
    """True for the keys up to every query, which follows `offset` keys."""
    return jnp.arange(keys) <= jnp.arange(queries)[:, None] + offset


class MaskedHeads(NamedTuple):
    """The attributes that com.microsoft's attentions share."""

    num_heads: int
    mask_filter_value: float = -10000.0
    scale: float = 0.0
    unidirectional: int = 0
    do_rotary: Zero = 0
    past_present_share_buffer: Zero = 0

    def attend(
        self,
        heads: Sequence[Array],
        mask: Array | None,
        attention_bias: Array | None,
        past: Sequence[Array | None],
    ) -> tuple[Array, Array, Array, Array]:
        """Attends with com.microsoft's masks; returns keys, values and scores too."""
        q, *pair = heads
        offset = 0 if past[0] is None else past[0].shape[2]
        k, v = (_before(*cached) for cached in zip(past, pair, strict=True))
        bias = self.bias(mask, attention_bias, q.shape[0], k.shape[2])
        causal = _causal(q.shape[2], k.shape[2], offset) if self.unidirectional else None
        y = attend(q, k, v, bias, causal, scale=self.scale)
        return merge_heads(y.result), k, v, y.biased

    def bias(
        self, mask: Array | None, attention_bias: Array | None, batch: int, total: int
    ) -> Array | None:
        """The sum of a mask's bias for some keys and of another bias, if there is any."""
        bias = None
        if mask is not None:
            bias = _mask_bias(mask, batch, total, self.mask_filter_value)
        if attention_bias is not None:
            (wide,) = to_float32(attention_bias)
            bias = wide if bias is None else bias + wide
        return bias

    def attend_merged(
        self,
        projected: Array,
        sizes: Sequence[int] | None,
        mask: Array | None,
        attention_bias: Array | None,
        past: Array | None,
    ) -> tuple[Array, Array | None]:
        """Attends with queries, keys and values in one row; returns keys and values too."""
        sizes = (projected.shape[-1] // 3,) * 3 if sizes is None else sizes
        if len(sizes) != 3 or sum(sizes) != projected.shape[-1]:
            text = f"its qkv_hidden_sizes are {list(sizes)} of {projected.shape[-1]}"
            raise UnsupportedError(text)
        parts = jnp.split(projected, (sizes[0], sizes[0] + sizes[1]), axis=-1)
        heads = [split_heads(part, self.num_heads) for part in parts]
        pair = (None, None) if past is None else (past[0], past[1])
        y, k, v, _ = self.attend(heads, mask, attention_bias, pair)
        return y, jnp.stack([k, v]) if sizes[1] == sizes[2] else None


@operator("Attention", 1, domain=MICROSOFT, ignores=["rotary_embedding_dim"])
def attention_of_projection(
    x: Array,
    w: Array,
    bias: Array | None = None,
    mask: Array | None = None,
    past: Array | None = None,
    attention_bias: Array | None = None,
    past_sequence_length: Parameter | None = None,
    *,
    heads: MaskedHeads,
    qkv_hidden_sizes: tuple[int, ...] | None = None,
) -> tuple[Array, Array | None]:
    """Projects x to queries, keys and values, and attends."""
    projected = floats.matrix_product(x, w)
    projected = projected if bias is None else projected + bias
    return heads.attend_merged(projected, qkv_hidden_sizes, mask, attention_bias, past)


@operator("QAttention", 1, domain=MICROSOFT)
def quantized_attention(
    x: Array,
    w: Array,
    bias: Array,
    x_scale: Parameter,
    w_scale: Parameter,
    mask: Array | None = None,
    x_zero_point: Parameter | None = None,
    w_zero_point: Parameter | None = None,
    past: Array | None = None,
    *,
    heads: MaskedHeads,
    arithmetic: Arithmetic,
) -> tuple[Array, Array | None]:
    """Projects 8-bit x to floats, and attends."""
    operands = (x, w, x_scale, w_scale, x_zero_point, w_zero_point, bias)
    projected = quantized.integer_matrix_product_to_float(*operands, arithmetic=arithmetic)
    return heads.attend_merged(projected, None, mask, None, past)


def unpack_rows(x: Array) -> list[Array]:
    """Rows of queries, keys or values of [batch, length, heads, parts, size]."""
    parts = jnp.moveaxis(x, 3, 0)
    return [part.reshape((*part.shape[:2], part.shape[2] * part.shape[3])) for part in parts]


@operator("Attention", 23, 24, 25, ignores=["softmax_precision"])
def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    valid_counts: Array | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: Annotated[int, range(4)] = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
) -> tuple[Array, Array, Array, Array]:
    """Attends with ONNX's masks; returns keys, values and the scores of a step too."""
    has_rows = q.ndim == 3
    if has_rows:
        q = split_heads(q, q_num_heads)
        k, v = (split_heads(x, kv_num_heads) for x in (k, v))
    offset: int | Array = 0 if past_key is None else past_key.shape[2]
    k, v = _before(past_key, k), _before(past_value, v)
    length, total = q.shape[2], k.shape[2]
    bias, allowed = None, jnp.ones((1, 1, 1, 1), bool)
    if mask is not None:
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, total - mask.shape[-1])]
        is_boolean = mask.dtype == bool
        mask = jnp.pad(mask, missing, constant_values=False if is_boolean else -np.inf)
        bias, allowed = (None, allowed & mask) if is_boolean else (mask, allowed)
    if valid_counts is not None:
        counted = valid_counts[:, None, None, None]
        allowed = allowed & (jnp.arange(total) < counted)
        offset = counted - length
    # The distance from a query to a key.
    distance = jnp.arange(total) - jnp.arange(length)[:, None] - offset
    right = 0 if is_causal and right_window_size < 0 else right_window_size
    right = min(right, 0) if is_causal else right
    if right >= 0:
        allowed = allowed & (distance <= right)
    if left_window_size >= 0:
        allowed = allowed & (distance >= -left_window_size)
    attended = attend(q, k, v, bias, allowed, scale=scale, softcap=softcap)
    y = merge_heads(attended.result) if has_rows else attended.result
    return y, k, v, attended[1 + qk_matmul_output_mode]


def rotate(x: Array, caches: Sequence[Array], is_interleaved: int) -> Array:
    """Rotates pairs of the first elements of every head.

    Args:
      x: [batch, heads, length, size].
      caches: the cosines and the sines of `half` pairs, [batch or 1, length, half].
      is_interleaved: 1 for pairs of neighbours, 0 for halves.
    """
    dtype, (x, cosines, sines) = x.dtype, to_float32(x, *caches)
    cosines, sines = cosines[:, None], sines[:, None]
    half = cosines.shape[-1]
    if 2 * half > x.shape[-1]:
        raise UnsupportedError(f"its caches have {half} pairs of heads of {x.shape[-1]}")
    part, rest = x[..., : 2 * half], x[..., 2 * half :]
    if is_interleaved:
        first, second = part[..., ::2], part[..., 1::2]
    else:
        first, second = part[..., :half], part[..., half:]
    pairs = (first * cosines - second * sines, second * cosines + first * sines)
    rotated = (
        jnp.stack(pairs, -1).reshape(part.shape) if is_interleaved else jnp.concatenate(pairs, -1)
    )
    return jnp.concatenate([rotated, rest], axis=-1).astype(dtype)


class Rotation(NamedTuple):
    """The attributes of a rotary embedding."""

    interleaved: int = 0
    num_heads: int = 0
    rotary_embedding_dim: int = 0

    def of(self, x: Array, cosines: Array, sines: Array, positions: Array | None) -> Array:
        """Rotates a tensor of 3 or 4 axes, by the rows of the caches at some positions if any."""
        caches = [cosines, sines]
        if positions is not None:
            caches = [jnp.take(cache, positions, axis=0) for cache in caches]
        shapes, size = [list(cache.shape) for cache in caches], self.rotary_embedding_dim
        if len(shapes[0]) != 3 or shapes[0] != shapes[1] or (size and 2 * shapes[0][-1] != size):
            text = f"its caches have the shapes {shapes[0]} and {shapes[1]}"
            raise UnsupportedError(
                f"{text}, expected [batch, length, {size // 2 or 'half a head'}]"
            )
        if x.ndim == 4:
            return rotate(x, caches, self.interleaved)
        return merge_heads(rotate(split_heads(x, self.num_heads), caches, self.interleaved))


@operator("RotaryEmbedding", 23)
def rotary_embedding(
    x: Array, cosines: Array, sines: Array, positions: Array | None = None, *, rotation: Rotation
) -> Array:
    """Rotates pairs of elements by the angles of their positions."""
    return rotation.of(x, cosines, sines, positions)


@operator("RotaryEmbedding", 1, domain=MICROSOFT, ignores=["scale"])
def rotary_embedding_of_positions(
    x: Array,
    positions: Array,
    cosines: Array,
    sines: Array,
    *,
    rotation: Rotation,
    is_packed_batching: Zero = 0,
) -> Array:
    """Rotates pairs of elements by the angles of their positions, or of a first position on."""
    if positions.ndim == 1:
        positions = positions[None, :1] + jnp.arange(x.shape[-2] if x.ndim == 4 else x.shape[1])
    if x.ndim != 4 and not rotation.num_heads:  # ONNX Runtime takes the heads from the caches
        rotation = rotation._replace(num_heads=x.shape[-1] // (2 * cosines.shape[-1]))
    return rotation.of(x, cosines, sines, positions)
