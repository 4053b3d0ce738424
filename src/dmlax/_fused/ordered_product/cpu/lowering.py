"""Float32 products in one order of sums, in C++ (`ordered_product.cc`)."""

import jax
from jax import Array

from dmlax._core.arguments import is_static
from dmlax._cpu import library

_TARGET = "dmlax_ordered_product_v1"


def run(operands: tuple[Array, Array]) -> Array:
    """The products of [B, M, K] and [B, K, N]; `vmap` puts its axes before those of both."""
    x, y = operands
    output = jax.ShapeDtypeStruct((*x.shape[:2], y.shape[2]), x.dtype)
    result: Array = jax.ffi.ffi_call(_TARGET, output, vmap_method="expand_dims")(x, y)
    return result


def takes(x: Array, y: Array) -> bool:
    """True if the kernel multiplies matrices of these sizes."""
    return library.why_not("cpu") is None and is_static((*x.shape, *y.shape))
