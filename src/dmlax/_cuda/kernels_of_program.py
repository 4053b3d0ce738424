"""Kernels of a lowered program, compiled side by side before it is.

XLA compiles a program's kernels one after another, and keeps each in the process by a hash. One
that a thread has compiled as a program of its own is found there.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jaxlib.mlir import ir as mlir

_TARGET = "mosaic_gpu_v2"  # of the custom calls that Pallas makes of kernels
_ATTRIBUTES = "mhlo.backend_config"
_HASH = "kernel_hash"
_DTYPES = {
    **{f"i{8 * size}": np.dtype(f"i{size}") for size in (1, 2, 4, 8)},
    **{f"ui{8 * size}": np.dtype(f"u{size}") for size in (1, 2, 4, 8)},
    **{f"f{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)},
}


class Kernel(NamedTuple):
    """A kernel of a program: what is called, as `jax.ffi.ffi_call` takes it."""

    operands: list[jax.ShapeDtypeStruct]
    outputs: list[jax.ShapeDtypeStruct]
    attributes: dict[str, Any]

    def call(self, *operands: Array) -> Any:
        """Calls the kernel by itself."""
        return jax.ffi.ffi_call(_TARGET, self.outputs)(*operands, **self.attributes)


def compile_kernels(lowered: jax.stages.Lowered) -> None:
    """Compiles the kernels of a program, which is lowered for the attached GPU, by threads.

    With a persistent cache nothing is done: it may hold the program, and then no kernel is needed.
    """
    kernels = find_kernels(lowered)
    if len(kernels) < 2 or jax.config.jax_compilation_cache_dir:
        return
    with jax.default_device(jax.local_devices(backend="cuda")[0]):
        programs = [jax.jit(kernel.call).lower(*kernel.operands) for kernel in kernels]
    with ThreadPoolExecutor() as threads:
        list(threads.map(jax.stages.Lowered.compile, programs))


def find_kernels(lowered: jax.stages.Lowered) -> list[Kernel]:
    """The kernels of a program, equal ones once; none where JAX writes them in another way."""
    module: Any = lowered.compiler_ir("stablehlo")
    try:
        found = {kernel.attributes[_HASH]: kernel for kernel in _walk(module.operation)}
    except KeyError:
        return []
    return list(found.values())


def _walk(operation: Any) -> Iterator[Kernel]:
    """The kernels inside an operation."""
    for region in operation.regions:
        for block in region:
            for each in block:
                yield from _walk(each.operation)
                if _is_kernel(each):
                    yield _kernel_of(each)


def _is_kernel(operation: Any) -> bool:
    is_call = operation.operation.name == "stablehlo.custom_call"
    return is_call and mlir.StringAttr(operation.attributes["call_target_name"]).value == _TARGET


def _kernel_of(operation: Any) -> Kernel:
    """The kernel of a custom call. KeyError: it has a type or an attribute of another kind."""
    attributes = mlir.DictAttr(operation.attributes[_ATTRIBUTES])
    return Kernel(
        [_struct(value.type) for value in operation.operands],
        [_struct(value.type) for value in operation.results],
        {each.name: _value(each.attr) for each in attributes},
    )


def _struct(type: Any) -> jax.ShapeDtypeStruct:
    array = mlir.RankedTensorType(type)
    return jax.ShapeDtypeStruct(tuple(array.shape), _DTYPES[str(array.element_type)])


def _value(attribute: Any) -> Any:
    """The value that `jax.ffi.ffi_call` makes an equal attribute of."""
    if isinstance(attribute, mlir.StringAttr):
        return attribute.value_bytes
    if isinstance(attribute, mlir.BoolAttr):
        return attribute.value
    if isinstance(attribute, mlir.IntegerAttr):
        return _DTYPES[str(attribute.type)].type(attribute.value)
    raise KeyError(str(type(attribute)))
