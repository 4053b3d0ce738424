"""Plans a product and the attention of its parts as one call."""

from dmlax._attention.plan import Attention, AttentionPlan
from dmlax._matmul.plan import Operands as ProductOperands
from dmlax._matmul.plan import ProductPlan
from dmlax._self_attention.plan import Layout, SelfAttention, SelfAttentionPlan, Tables


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
