"""Plans a self-attention: a product makes queries, keys and values at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._attention.plan import Attention, AttentionPlan
from dmlax._core.arguments import Aval
from dmlax._matmul.plan import Operands as ProductOperands
from dmlax._matmul.plan import ProductPlan

Tables = Sequence[Array | np.ndarray]  # for the bytes of the queries, the keys and the values


class Layout(NamedTuple):
    """The layout of queries, keys and values in the product's output."""

    rows: int  # of an image
    heads: int
    columns: int  # of a head
    row: int  # of the only query; -1: all are queries

    def split(self, y: Array) -> list[Array]:
        """The queries, the keys and the values: (images, heads, rows, columns)."""
        parts = y.reshape(-1, self.rows, 3, self.heads, self.columns).transpose(2, 0, 3, 1, 4)
        queries = parts[0] if self.row < 0 else parts[0][:, :, self.row : self.row + 1]
        return [queries, parts[1], parts[2]]

    def placeholders(self, product: Aval, tables: Tables) -> list[Array]:
        """Zeros of the shapes of queries, transposed keys and values, to plan an attention with."""
        images = product.shape[0] // self.rows
        queries = self.rows if self.row < 0 else 1
        q, k, v = (
            jnp.zeros((images, self.heads, rows, self.columns), table.dtype)
            for rows, table in zip((queries, self.rows, self.rows), tables, strict=True)
        )
        return [q, jnp.swapaxes(k, -1, -2), v]  # not NumPy's, which a plan packs as constants


class SelfAttention(NamedTuple):
    """The operands; the queries, keys and values of the attention are absent."""

    product: ProductOperands
    tables: tuple[Array | np.ndarray, ...]
    attention: Attention


@dataclass(frozen=True)
class SelfAttentionPlan:
    """Everything static that a lowering reads."""

    product: ProductPlan
    attention: AttentionPlan
    layout: Layout

    @property
    def input(self) -> Aval:
        """The dtype and shape of the left matrix."""
        return self.product.input

    @property
    def output(self) -> Aval:
        """The dtype and shape of the output."""
        return self.attention.output

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return self.product.notes()

    def __str__(self) -> str:
        return f"{self.product}; {self.attention}"


def with_parts(operands: SelfAttention, parts: Sequence[Array]) -> Attention:
    """The attention's operands, of queries, keys and values: (images, heads, rows, columns)."""
    q, k, v = parts
    attention = operands.attention
    return attention._replace(
        scores=attention.scores._replace(a=q, b=jnp.swapaxes(k, -1, -2)),
        values=attention.values._replace(b=v),
    )
