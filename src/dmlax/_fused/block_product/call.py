"""The operator of a product with blocks of 4 or 8 bits."""

import functools
from collections.abc import Callable

from jax import Array

from dmlax._core import dispatch
from dmlax._fused.block_product.cpu import lowering as native_cpu
from dmlax._fused.block_product.plan import BlockPlan, Blocks, axis_names, local_plan, plan

Product = Callable[[BlockPlan, Blocks], Array]


def operator(xla: Product, of_floats: Product) -> dispatch.Operator[BlockPlan, Blocks, Array]:
    """Makes the operator, which runs `xla` where no kernel runs; `of_floats` defines its floats."""
    kernel = dispatch.kernel("native_cpu", native_cpu.run, native_cpu.why_not, "cpu")
    lowerings = (kernel, dispatch.Lowering("xla", xla))
    splitting = dispatch.Splitting(axis_names, local_plan)
    return dispatch.Operator(
        "block_product",
        plan,
        lowerings,
        tangent=dispatch.tangent_of(xla),
        splitting=splitting,
        definition=lambda plan: None if plan.levels else functools.partial(of_floats, plan),
    )
