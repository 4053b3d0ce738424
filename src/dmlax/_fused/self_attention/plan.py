"""Plans a self-attention: a product makes queries, keys and values at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import Aval
from dmlax._core.axis_names import WHOLE, AxisNames, rename, whole
from dmlax._fused.attention import plan as attention
from dmlax._fused.attention.plan import Attention, AttentionPlan
from dmlax._operators.matmul import plan as product
from dmlax._operators.matmul.plan import FusedPlan, ProductPlan
from dmlax._operators.matmul.plan import Operands as ProductOperands

# Tables for the bytes of the queries, the keys and the values.
Tables = Sequence[Array | np.ndarray]


class Layout(NamedTuple):
    """The layout of queries, keys and values in the product's output."""

    rows: int  # the rows of an image
    heads: int
    columns: int  # the columns of a head
    row: int  # the row of the only query; -1 if all rows are queries

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
class SelfAttentionPlan(FusedPlan):
    """Everything static that a lowering reads."""

    attention: AttentionPlan
    layout: Layout

    @property
    def output(self) -> Aval:
        """The dtype and shape of the output."""
        return self.attention.output

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


def plan(
    product: tuple[ProductPlan, ProductOperands],
    tables: Tables,
    attention: tuple[AttentionPlan, Attention],
    layout: Layout,
) -> tuple[SelfAttentionPlan, SelfAttention]:
    """Plans both as one call.

    Args:
      product: a planned product, whose output has the layout.
      tables: 256 entries for the bytes of the queries, the keys and the values.
      attention: planned for `Layout.placeholders`.
      layout: of the product's output.
    """
    operands = attention[1]._replace(
        scores=attention[1].scores._replace(a=None, b=None),
        values=attention[1].values._replace(b=None),
    )
    both = SelfAttentionPlan(product[0], attention[0], layout)
    return both, SelfAttention(product[1], tuple(tables), operands)


def axis_names(plan: SelfAttentionPlan, operands: SelfAttention) -> AxisNames:
    """The images may be split."""
    names = product.axis_names(plan.product, operands.product).operands
    of_product = rename(names, row=f"image.{WHOLE}", column=WHOLE)
    others = jax.tree.map(whole, operands)
    output = " ".join(["image", *[WHOLE] * (len(plan.output.shape) - 1)])
    return AxisNames(others._replace(product=of_product), output)


def local_plan(
    plan: SelfAttentionPlan, operands: SelfAttention
) -> tuple[SelfAttentionPlan, SelfAttention]:
    """Plans for a part of the images."""
    of_product, parts = product.local_plan(plan.product, operands.product)
    q, transposed, v = plan.layout.placeholders(of_product.output, operands.tables)
    images = with_parts(operands, [q, jnp.swapaxes(transposed, -1, -2), v])
    local, _ = attention.local_plan(plan.attention, images)
    return replace(plan, product=of_product, attention=local), operands._replace(product=parts)
