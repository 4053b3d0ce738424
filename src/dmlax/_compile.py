"""Kernels of a lowered program, compiled side by side before the program is.

XLA compiles a program's kernels one after another, and keeps them in the process by a hash. It
reuses a kernel that a thread has compiled in another program.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from dmlax._cuda import capability

# Names and types that JAX 0.11 writes. A version that writes others has no kernels here.
_TARGET = "mosaic_gpu_v2"
_ATTRIBUTES = "mhlo.backend_config"
_SIZES = (1, 2, 4, 8)
_DTYPES = {
    **{f"i{8 * size}": np.dtype(f"i{size}") for size in _SIZES},
    **{f"ui{8 * size}": np.dtype(f"u{size}") for size in _SIZES},
    **{f"f{8 * size}": np.dtype(f"f{size}") for size in _SIZES[1:]},
}


class Kernel(NamedTuple):
    """A kernel of a program: what is called, as `jax.ffi.ffi_call` takes it."""

    operands: list[jax.ShapeDtypeStruct]
    outputs: list[jax.ShapeDtypeStruct]
    attributes: dict[str, Any]

    def call(self, *operands: Array) -> Any:
        """Calls the kernel by itself."""
        return jax.ffi.ffi_call(_TARGET, self.outputs)(*operands, **self.attributes)


def has_kernels() -> bool:
    """True if a GPU is attached that the kernels are written for."""
    return capability.why_not("cuda") is None


def compile_kernels(lowered: jax.stages.Lowered) -> None:
    """Compiles the kernels of a program, which is lowered for the attached GPU, by threads.

    With a persistent cache nothing is done: it may hold the program, and then no kernel is needed.
    An error is not raised here: the program has the same kernel, and raises it.
    """
    config: Any = jax.config
    kernels = find_kernels(lowered)
    if len(kernels) < 2 or config.jax_compilation_cache_dir:
        return
    with jax.default_device(jax.local_devices(backend="cuda")[0]):
        programs = [jax.jit(kernel.call).lower(*kernel.operands) for kernel in kernels]
    with ThreadPoolExecutor() as threads:
        for program in programs:
            threads.submit(program.compile)


def find_kernels(lowered: jax.stages.Lowered) -> list[Kernel]:
    """The kernels of a program, none where JAX writes them in another way.

    Equal calls are one function of the program.
    """
    module: Any = lowered.compiler_ir("stablehlo")
    try:
        return list(_walk(module.operation))
    except (AttributeError, KeyError):
        return []


def _walk(operation: Any) -> Iterator[Kernel]:
    """The kernels inside an operation."""
    for region in operation.regions:
        for block in region:
            for nested in block:
                yield from _walk(nested.operation)
                if _is_kernel(nested.operation):
                    yield _kernel_of(nested.operation)


def _is_kernel(operation: Any) -> bool:
    is_call: bool = operation.name == "stablehlo.custom_call"
    return is_call and bool(operation.attributes["call_target_name"].value == _TARGET)


def _kernel_of(operation: Any) -> Kernel:
    """The kernel of a custom call.

    Raises:
      AttributeError: it has a type or an attribute of another kind.
      KeyError: it has an unknown dtype.
    """
    return Kernel(
        [_struct(value.type) for value in operation.operands],
        [_struct(value.type) for value in operation.results],
        {item.name: _value(item.attr) for item in operation.attributes[_ATTRIBUTES]},
    )


def _struct(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(tuple(array.shape), _DTYPES[str(array.element_type)])


def _value(attribute: Any) -> Any:
    """The value that `jax.ffi.ffi_call` makes an equal attribute of."""
    if hasattr(attribute, "value_bytes"):
        return attribute.value_bytes
    if isinstance(attribute.value, bool):
        return attribute.value
    return _DTYPES[str(attribute.type)].type(attribute.value)
