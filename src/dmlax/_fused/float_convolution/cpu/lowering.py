"""Float32 convolutions and products in C++ (`float_convolution.cc`)."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import is_static
from dmlax._cpu import library
from dmlax._fused.float_convolution.plan import ACTIVATIONS, FloatPlan, Operands

_TARGET = "dmlax_float_convolution_v1"
_MOST_SIZE = 2**31  # everything in `windows` is smaller


def run(plan: FloatPlan, operands: Operands) -> Array:
    """One call; `vmap` puts its axes before those of every operand."""
    x, filter, factor, bias, residual = operands
    output = jax.ShapeDtypeStruct(plan.output.shape, plan.output.dtype)
    call = jax.ffi.ffi_call(_TARGET, output, vmap_method="expand_dims")
    name, low, high, fuses = plan.epilogue
    absent = jnp.zeros(0, np.float32)
    if not plan.is_packed:
        filter = filter.reshape(filter.shape[0], math.prod(filter.shape[1:]))
    result: Array = call(
        x,
        filter,
        *(absent if values is None else values for values in (factor, bias, residual)),
        axes=np.int64(len(plan.sizes) - 2),
        windows=np.asarray(_windows(plan), np.int64),
        groups=np.int64(plan.filter.groups),
        input_last=plan.geometry.input_last,
        output_last=plan.geometry.output_last,
        packed=plan.is_packed,
        transposed=plan.is_transposed,
        activation=np.int64(ACTIVATIONS.index(name)),
        low=np.float32(low),
        high=np.float32(high),
        fuses=fuses,
    )
    return result


def why_not(plan: FloatPlan, platform: str) -> str | None:
    """The reason why no kernel takes the plan, or None."""
    if why := library.why_not(platform):
        return why
    if plan.input.dtype != np.float32:
        return f"its input is {plan.input.dtype.name}, expected float32"
    windows = _windows(plan)
    if not is_static((*plan.input.shape[1:], *plan.sizes[1:], *windows)):
        return f"it needs static images, and InputTensor is {plan.input}"
    if len(plan.sizes) > 5 or max(map(abs, windows), default=0) >= _MOST_SIZE:
        return f"it has more than three spatial axes, or a size of {_MOST_SIZE:,} or more"
    return None


def is_there() -> bool:
    """True if this process has the kernels."""
    return library.why_not("cpu") is None


def _windows(plan: FloatPlan) -> tuple[int, ...]:
    """Kernel, strides, dilations and start padding, of every axis."""
    geometry = plan.geometry
    starts = tuple(start for start, _ in geometry.padding)
    return (*plan.filter.sizes[2:], *geometry.strides, *geometry.dilations, *starts)
