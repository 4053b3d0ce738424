"""The operator of an attention of rows to a cache."""

import functools
from collections.abc import Callable

from jax import Array

from dmlax._core import dispatch
from dmlax._fused.cache_attention.cpu import lowering as native_cpu
from dmlax._fused.cache_attention.plan import CachePlan, Caches, axis_names, local_plan, plan

Attend = Callable[[CachePlan, Caches], Array]


def operator(xla: Attend) -> dispatch.Operator[CachePlan, Caches, Array]:
    """Makes the operator, which runs `xla` where no kernel runs."""
    kernel = dispatch.kernel("native_cpu", native_cpu.run, native_cpu.why_not, "cpu")
    lowerings = (kernel, dispatch.Lowering("xla", xla))
    splitting = dispatch.Splitting(axis_names, local_plan)
    return dispatch.Operator(
        "cache_attention",
        plan,
        lowerings,
        tangent=dispatch.tangent_of(xla),
        splitting=splitting,
        definition=lambda plan: functools.partial(xla, plan),
    )
