"""Float32 products and sums in one order, and functions as fixed sequences, in C++."""

from collections.abc import Callable

import jax
import numpy as np
from jax import Array

from dmlax._core import float_functions
from dmlax._core.arguments import is_static
from dmlax._cpu import library

_FUNCTIONS = (  # in the order of functions_kernels.cc
    float_functions.exp,
    float_functions.exp2,
    float_functions.expm1,
    float_functions.log,
    float_functions.log1p,
    float_functions.softplus,
    float_functions.sigmoid,
    float_functions.tanh,
    float_functions.erf,
    float_functions.gelu,
    float_functions.gelu_tanh,
    float_functions.rsqrt,
)


def multiply(operands: tuple[Array, Array]) -> Array:
    """The products of [B, M, K] and [B, K, N]; `vmap` puts its axes before those of both."""
    x, y = operands
    return _call("ordered_product", (*x.shape[:2], y.shape[2]), x, y)


def total(x: Array) -> Array:
    """The sums along the middle axis of [B, K, N]."""
    return _call("ordered_sum", (x.shape[0], x.shape[2]), x)


def apply(function: Callable[..., Array], x: Array) -> Array:
    """A function of every element."""
    return _call("exact_function", x.shape, x, function=np.int64(_FUNCTIONS.index(function)))


def takes(*operands: Array) -> bool:
    """True if kernels multiply and sum arrays of these shapes."""
    return library.why_not("cpu") is None and all(is_static(x.shape) for x in operands)


def has(function: Callable[..., Array], *operands: Array) -> bool:
    """True if a kernel computes a function of such operands."""
    return function in _FUNCTIONS and takes(*operands)


def _call(name: str, shape: tuple[int, ...], *operands: Array, **attributes: object) -> Array:
    output = jax.ShapeDtypeStruct(shape, operands[0].dtype)
    call = jax.ffi.ffi_call(f"dmlax_{name}_v1", output, vmap_method="expand_dims")
    result: Array = call(*operands, **attributes)
    return result
