"""Calls of float32 convolutions and products."""

import functools

import jax
from jax import Array

from dmlax._core import dispatch
from dmlax._fused.float_convolution import xla
from dmlax._fused.float_convolution.cpu import lowering as native_cpu
from dmlax._fused.float_convolution.plan import (
    FloatPlan,
    Operands,
    axis_names,
    local_plan,
    output_partition,
    plan,
)

FLOAT_CONVOLUTION: dispatch.Operator[FloatPlan, Operands, Array] = dispatch.Operator(
    "float_convolution",
    plan,
    (
        dispatch.kernel("native_cpu", native_cpu.run, native_cpu.why_not, "cpu"),
        dispatch.Lowering("xla", xla.run),
    ),
    tangent=dispatch.tangent_of(functools.partial(xla.run, by_taps=False)),
    partition=output_partition,
    splitting=dispatch.Splitting(axis_names, local_plan),
    definition=lambda plan: functools.partial(compose, plan),
)


def compose(plan: FloatPlan, operands: Operands) -> Array:
    """Computes a call in plain JAX."""
    return xla.run(plan, operands, by_taps=False)


def packs_filters() -> bool:
    """True if programs run on a CPU whose kernels read packed filters."""
    return jax.default_backend() == "cpu" and native_cpu.is_there()
