"""Mixtures of experts. Few tokens read the weights of their experts only."""

from collections.abc import Callable
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core.arguments import is_static
from dmlax._core.byte_packing import unpack_bits
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import MICROSOFT
from dmlax.onnx.operators.n_bits import quantize_rows
from dmlax.onnx.operators.quantized import expand_blocks
from dmlax.onnx.operators.table import Parameter, Tensor, operator
from dmlax.onnx.operators.transformer import fast_gelu
from dmlax.onnx.operators.values import to_device

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": fast_gelu,
    "silu": jax.nn.silu,
    "identity": lambda x: x,
}


class Experts(NamedTuple):
    """The matrices of all experts, [experts, rows, depth], in integers or floats.

    Attributes:
      held: floats, or bytes of `bits` an integer.
      bias: [experts, rows], or None.
      scale: [experts, rows] or [experts, rows, blocks] of integers; None for floats.
      zero_point: packed as the integers are, or None.
      bits: of an integer.
      block_size: the integers that share a scale, 0 for all of a row.
      is_int8: True if the rows that it multiplies are rounded to 8 bits in blocks.
    """

    held: Tensor
    bias: Array | None
    scale: Array | None = None
    zero_point: Array | None = None
    bits: int = 4
    block_size: int = 0
    is_int8: bool = False

    def multiply(self, rows: Array, expert: Array) -> Array:
        """Multiplies rows by the transpose of an expert's matrix."""
        if self.is_int8:
            rows = quantize_rows(rows, self.block_size)
        matrix = self._matrix(expert)
        y = jnp.dot(rows, matrix.T, precision=lax.Precision.HIGHEST)
        return y if self.bias is None else y + _take(self.bias, expert).astype(np.float32)

    def _matrix(self, expert: Array) -> Array:
        """The floats of an expert's matrix."""
        held = _take(to_device(self.held), expert)
        if self.scale is None:
            return held.astype(np.float32)
        scale, depth = _take(self.scale, expert).astype(np.float32), held.shape[1] * 8 // self.bits
        levels = unpack_bits(held, self.bits, depth).astype(np.float32)
        if self.zero_point is None:
            levels = levels - np.float32(1 << (self.bits - 1))
        else:
            points = _take(self.zero_point, expert)
            points = unpack_bits(points, self.bits, scale.shape[-1]).astype(np.float32)
            levels = levels - self._spread(points, levels.shape)
        return levels * self._spread(scale, levels.shape)

    def _spread(self, parameter: Array, shape: tuple[int, ...]) -> Array:
        """A parameter of every row or block, which broadcasts to the matrix."""
        if not self.block_size:
            return parameter[:, None]
        return expand_blocks(parameter, 1, self.block_size, shape)


def _take(x: Array, expert: Array) -> Array:
    taken: Array = lax.dynamic_index_in_dim(x, expert, keepdims=False)
    return taken


class Mixture(NamedTuple):
    """The attributes of both mixtures."""

    k: int = 1
    activation_type: Annotated[str, (*_ACTIVATIONS, "swiglu")] = "relu"
    activation_alpha: float = 1.0
    activation_beta: float = 0.0
    normalize_routing_weights: int = 0
    swiglu_fusion: Annotated[int, range(3)] = 0
    swiglu_limit: float | None = None
    swiglu_limit_after_activation: Annotated[int, (0,)] = 0

    def choose(
        self, scores: Array, weights: Array | None = None, is_normalized: bool = False
    ) -> tuple[Array, Array]:
        """The experts of every token and their weights; of equal scores the last experts win."""
        count = scores.shape[1]
        if not 1 <= self.k <= count:
            raise UnsupportedError(f"its k is {self.k}, expected 1 to {count} experts")
        scores = jnp.where(scores == 0, 0, scores).astype(np.float32)  # -0 and 0 are equal
        experts = count - 1 - lax.top_k(scores[:, ::-1], self.k)[1]
        weights = jax.nn.softmax(scores) if weights is None else weights.astype(np.float32)
        chosen = jnp.take_along_axis(weights, experts, axis=1)
        if is_normalized or self.normalize_routing_weights:
            chosen = chosen / chosen.sum(1, keepdims=True)
        return experts, chosen

    def run(
        self, x: Array, routes: tuple[Array, Array], layers: list[Experts], count: int
    ) -> Array:
        """Adds up what the chosen experts compute.

        Args:
          x: [tokens, size], or [batch, length, size].
          routes: the chosen experts of every token, and their weights: [tokens, k] both.
          layers: the first, the last, and perhaps the linear one beside the first.
          count: the number of experts.
        """
        rows = x.reshape((-1, x.shape[-1])).astype(np.float32)
        experts, weights = routes
        if is_static(rows.shape) and experts.size <= count:
            pairs = (jnp.repeat(rows, self.k, axis=0), experts.ravel())
            parts = lax.map(lambda pair: self._compute(pair[0][None], pair[1], layers)[0], pairs)
            y = (parts.reshape((*experts.shape, -1)) * weights[..., None]).sum(1)
        else:

            def add(total: Array, expert: Array) -> tuple[Array, None]:
                share = jnp.where(experts == expert, weights, 0).sum(1, keepdims=True)
                part = self._compute(rows, expert, layers)  # a token takes nothing of some
                return total + jnp.where(share != 0, part * share, 0), None

            y, _ = lax.scan(add, jnp.zeros_like(rows), jnp.arange(count, dtype=np.int32))
        return jnp.asarray(y).reshape((*x.shape[:-1], y.shape[-1])).astype(x.dtype)

    def _compute(self, rows: Array, expert: Array, layers: list[Experts]) -> Array:
        """The layers of one expert."""
        hidden = layers[0].multiply(rows, expert)
        if self.activation_type != "swiglu":
            return layers[1].multiply(_ACTIVATIONS[self.activation_type](hidden), expert)
        if self.swiglu_fusion == 0:
            gate, linear = hidden, layers[2].multiply(rows, expert)
        elif self.swiglu_fusion == 1:
            gate, linear = hidden[..., ::2], hidden[..., 1::2]
        else:
            gate, linear = jnp.split(hidden, 2, axis=-1)
        if self.swiglu_limit is not None:
            gate = jnp.minimum(gate, self.swiglu_limit)
            linear = jnp.clip(linear, -self.swiglu_limit, self.swiglu_limit)
        gate = gate * jax.nn.sigmoid(self.activation_alpha * gate)
        return layers[1].multiply(gate * (linear + self.activation_beta), expert)

    def expect_layers(self, has_third: bool) -> None:
        """Refuses a third matrix that no activation reads, and its absence."""
        if has_third != (self.activation_type == "swiglu" and self.swiglu_fusion == 0):
            found = f"its activation is {self.activation_type}, swiglu_fusion is"
            raise UnsupportedError(
                f"{found} {self.swiglu_fusion}: fc3 is for swiglu without fusion"
            )


@operator("MoE", 1, domain=MICROSOFT, ignores=["use_sparse_mixer"])
def mixture_of_experts(
    x: Array,
    scores: Array,
    first: Array,
    first_bias: Array | None,
    last: Array,
    last_bias: Array | None = None,
    linear: Array | None = None,
    linear_bias: Array | None = None,
    *,
    mixture: Mixture,
) -> Array:
    """Adds up what the best experts of every token compute, by their probabilities."""
    mixture.expect_layers(linear is not None)
    layers: list[Experts] = [Experts(first, first_bias), Experts(last, last_bias)]
    if linear is not None:
        layers.append(Experts(linear, linear_bias))
    return mixture.run(x, mixture.choose(scores), layers, first.shape[0])


@operator("QMoE", 1, domain=MICROSOFT, ignores=["use_sparse_mixer"])
def quantized_mixture_of_experts(
    x: Array,
    scores: Array,
    first: Tensor,
    first_scales: Array | None,
    first_bias: Array | None,
    last: Tensor,
    last_scales: Array | None,
    last_bias: Array | None = None,
    linear: Tensor | None = None,
    linear_scales: Array | None = None,
    linear_bias: Array | None = None,
    first_zero_points: Array | None = None,
    last_zero_points: Array | None = None,
    linear_zero_points: Array | None = None,
    weights: Array | None = None,
    *unused: Parameter | None,
    mixture: Mixture,
    accuracy_level: int = 0,
    block_size: int = 0,
    expert_weight_bits: Annotated[int, (2, 4, 8)] = 4,
    fc1_expert_weight_bits: int = 0,
    fc2_expert_weight_bits: int = 0,
    fc3_expert_weight_bits: int = 0,
    quant_type: Annotated[str, ("int",)] = "int",
    weights_prepacked: Annotated[int, (-1, 0)] = -1,
) -> Array:
    """Adds up what the best experts of every token compute, with matrices of few bits."""
    if any(x is not None for x in unused):
        raise UnsupportedError("its global or activation scales are given, expected none")
    mixture.expect_layers(linear is not None)

    def layer(
        held: Tensor, scale: Array | None, bias: Array | None, points: Array | None, bits: int
    ) -> Experts:
        bits = bits or expert_weight_bits
        if scale is None or bits not in (2, 4, 8):
            text = f"its bits are {bits}, and a scale may be absent"
            raise UnsupportedError(f"{text}, expected 2, 4 or 8 bits and scales")
        blocks = block_size if scale.ndim == 3 else 0
        is_int8 = blocks > 0 and (bits == 8 or (bits == 4 and accuracy_level == 4))
        return Experts(held, bias, scale, points, bits, blocks, is_int8)

    layers: list[Experts] = [
        layer(first, first_scales, first_bias, first_zero_points, fc1_expert_weight_bits),
        layer(last, last_scales, last_bias, last_zero_points, fc2_expert_weight_bits),
    ]
    if linear is not None:
        points, bits = linear_zero_points, fc3_expert_weight_bits
        layers.append(layer(linear, linear_scales, linear_bias, points, bits))
    routes = mixture.choose(scores, weights, is_normalized=weights is None)
    return mixture.run(x, routes, layers, first.shape[0])
