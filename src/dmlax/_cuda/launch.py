"""Launch of a CUDA kernel by Pallas; `ir` writes what its threads do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from dmlax._cuda import ir
from dmlax._cuda.ir import Pointer, Value

OutputT = TypeVar("OutputT")  # an array, or a pytree of arrays


@dataclass(frozen=True)
class ThreadBlock:
    """The size of a thread block."""

    warpgroups: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * self.warpgroups

    def visit(self, count: int, visit: Callable[[Value], None]) -> None:
        """Visits the numbers below `count`, a thread's share in every thread."""
        for first in range(0, count, self.threads):
            number = ir.thread() + first
            with ir.when(number < count):
                visit(number)


def launch(
    name: str,
    body: Callable[..., None],
    operands: Mapping[str, Array],
    outputs: Mapping[str, jax.ShapeDtypeStruct],
    *,
    blocks: int,
    warpgroups: int,
    shared_words: int,
    zeroed_words: int = 0,
) -> list[Array]:
    """Runs `body` in every thread of a kernel; gives the outputs.

    Args:
      name: what profilers show.
      body: takes a `Pointer` to every operand and output by name, to `shared` memory, and to
        `zeroed` words that all blocks share, where there are any.
      operands: read only.
      outputs: none of size 0.
      blocks: thread blocks of the grid.
      warpgroups: of a block; a warpgroup has 128 threads.
      shared_words: 32-bit words of a block's shared memory.
      zeroed_words: 32-bit words of global memory, all 0 at first.
    """
    names = [*operands, *outputs, "shared", *(["zeroed"] if zeroed_words else [])]

    def frame(*refs: object) -> None:
        if zeroed_words:  # semaphores are words that start at zero
            refs = (*refs, pl.get_global(plgpu.SemaphoreType.REGULAR((zeroed_words,))))

        def threads(context: object, *refs: object) -> None:
            body(**{name: Pointer(ref) for name, ref in zip(names, refs, strict=True)})

        plgpu.inline_mgpu(arg_types=(plgpu.RefType(),) * len(refs))(threads)(*refs)

    kernel = plgpu.kernel(
        frame,
        out_type=tuple(outputs.values()),
        scratch_types=[plgpu.SMEM((shared_words,), jnp.uint32)],
        grid=(blocks,),
        grid_names=("block",),
        num_threads=warpgroups,
        thread_name="warpgroup",
        compiler_params=plgpu.CompilerParams(
            lowering_semantics=plgpu.LoweringSemantics.Lane, unsafe_no_auto_barriers=True
        ),
        kernel_name=name,
    )
    results: list[Array] = list(kernel(*operands.values()))
    return results


def call_merged(
    function: Callable[..., OutputT],
    merge: Callable[[int, Sequence[Any], tuple[Any, ...]], OutputT | None],
    *operands: object,
) -> OutputT:
    """Calls a function whose calls `jax.vmap` merges into one.

    Args:
      function: takes the operands.
      merge: takes the mapped axis's size, which operands are mapped, and the operands; returns the
        outputs of one call, or None where a loop calls `function`.
      operands: pytrees of arrays.
    """
    call = jax.custom_batching.custom_vmap(function)

    @call.def_vmap
    def batched(size: int, mapped: Sequence[Any], *operands: Any) -> tuple[OutputT, Any]:
        outputs = merge(size, mapped, operands)
        if outputs is None:
            axes = jax.tree.map(lambda is_mapped: 0 if is_mapped else None, tuple(mapped))
            outputs = jax.vmap(jax.custom_batching.sequential_vmap(function), axes)(*operands)
        return outputs, jax.tree.map(lambda output: True, outputs)

    output: OutputT = call(*operands)
    return output


def call_on_rows(function: Callable[..., Array], x: Array, *shared: Array) -> Array:
    """Calls a function of rows and of operands that all rows share; mapped rows are more rows."""

    def merge(size: int, mapped: Sequence[bool], operands: tuple[Array, ...]) -> Array | None:
        return None if any(mapped[1:]) else call_on_rows(function, *operands)

    return call_merged(function, merge, x, *shared)
