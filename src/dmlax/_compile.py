"""Kernels of a program, compiled by threads while the program is lowered.

XLA compiles a program's kernels one after another, and keeps them in the process by a hash. It
reuses a kernel that a thread has compiled in another program.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax.sharding import AbstractMesh

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
    """A kernel of a program: the arguments of `jax.ffi.ffi_call`."""

    operands: list[jax.ShapeDtypeStruct]
    outputs: list[jax.ShapeDtypeStruct]
    attributes: dict[str, Any]

    @property
    def hash(self) -> bytes:
        """The name by which XLA finds it compiled."""
        name: bytes = self.attributes["kernel_hash"]
        return name

    def call(self, *operands: Array) -> Any:
        """Calls the kernel by itself."""
        return jax.ffi.ffi_call(_TARGET, self.outputs)(*operands, **self.attributes)


def has_kernels() -> bool:
    """True if a GPU is attached that the kernels are written for."""
    return capability.why_not("cuda") is None


@functools.cache
def compiler_options() -> dict[str, bool] | None:
    """XLA's options of a program for a GPU; None elsewhere, or if XLA knows no such option.

    With kernels it tries no variants of its few other fusions, which take longer to compile than to
    run. Without them it multiplies by cuBLAS alone: it would compile many variants of each product.
    """
    options = {"xla_gpu_enable_triton_gemm": False}
    if has_kernels():
        options = {"xla_gpu_experimental_enable_fusion_autotuner": False}
    elif jax.default_backend() != "gpu":
        return None
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except RuntimeError:
        return None
    return options


@contextlib.contextmanager
def compiling_kernels(lower: Callable[[], jax.stages.Lowered]) -> Iterator[None]:
    """Runs `lower`, which lowers a program for the attached GPU; threads compile its kernels.

    The program inside finds them compiled. A persistent cache may hold the program, so that no
    kernel is needed: then the program runs while threads compile, the last kernel first.

    An error is not raised here: the program has the same kernel, and raises it.
    """
    config: Any = jax.config
    if config.jax_compilation_cache_dir:
        kernels = find_kernels(lower())
        threads = ThreadPoolExecutor()
        for kernel in reversed(kernels):
            threads.submit(_compile, kernel)
        try:
            yield
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
    else:
        _compile_while(lower)
        yield


def _compile_while(lower: Callable[[], jax.stages.Lowered]) -> None:
    """Compiles the kernels of a program from when each is lowered, and waits for them."""
    from dmlax._cuda import launch

    with ThreadPoolExecutor() as threads:
        begun = set[bytes]()
        with launch.calling(functools.partial(_call, threads, begun)):
            program = lower()
        for kernel in find_kernels(program):  # JAX lowered their functions before
            if kernel.hash not in begun:
                threads.submit(_compile, kernel)


def _compile(kernel: Kernel) -> None:
    """Compiles a kernel as a separate program."""
    _lower(kernel.call, kernel.operands).compile()


def _call(
    threads: ThreadPoolExecutor,
    begun: set[bytes],
    function: Callable[..., list[Array]],
    operands: Sequence[Array],
) -> list[Array]:
    """Calls a function that is one kernel; a thread compiles it as a separate program."""
    structs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
    program = _lower(function, structs)
    kernels = find_kernels(program)
    if len(kernels) != 1 or kernels[0].operands != structs:
        return function(*operands)
    (kernel,) = kernels
    if kernel.hash not in begun:
        begun.add(kernel.hash)
        threads.submit(program.compile)
    results: list[Array] = kernel.call(*operands)
    return results


def _lower(
    function: Callable[..., Any], operands: Sequence[jax.ShapeDtypeStruct]
) -> jax.stages.Lowered:
    """Lowers a program for the attached GPU, outside of any mesh."""
    gpu = jax.local_devices(backend="cuda")[0]
    with jax.default_device(gpu), jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
        traced = jax.jit(function).trace(*operands)
        lowered: jax.stages.Lowered = traced.lower(lowering_platforms=("cuda",))
    return lowered


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
