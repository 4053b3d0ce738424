"""Launch of a CUDA kernel by Pallas; `ir` writes what each of its threads does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from dmlax._cuda.ir import Pointer


@dataclass(frozen=True)
class ThreadBlock:
    """The size of a thread block."""

    warpgroups: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * self.warpgroups


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
      body: takes a `Pointer` to each operand and output by name, to `shared` memory, and to
        `zeroed` words that all blocks share, where there are any.
      operands: read only.
      outputs: none of size 0.
      blocks: thread blocks of the grid.
      warpgroups: of a block, 128 threads each.
      shared_words: 32-bit words of a block's shared memory.
      zeroed_words: 32-bit words of global memory, all 0 at first.
    """
    names = [*operands, *outputs, "shared", *(["zeroed"] if zeroed_words else [])]

    def frame(*refs: Any) -> None:
        if zeroed_words:  # semaphores are words that start at zero
            refs = (*refs, pl.get_global(plgpu.SemaphoreType.REGULAR((zeroed_words,))))

        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(),) * len(refs))  # type: ignore[untyped-decorator]
        def threads(context: Any, *refs: Any) -> None:
            body(**{name: Pointer(ref) for name, ref in zip(names, refs, strict=True)})

        threads(*refs)

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


def call_on_rows(function: Callable[..., Array], x: Array, *shared: Array) -> Array:
    """Calls a function of rows and what all rows share; rows that are mapped over are more rows."""
    call = jax.custom_batching.custom_vmap(function)

    @call.def_vmap
    def batched(size: int, mapped: list[bool], *operands: Array) -> tuple[Array, bool]:
        if any(mapped[1:]):
            axes = [0 if each else None for each in mapped]
            one_by_one = jax.custom_batching.sequential_vmap(function)
            return jax.vmap(one_by_one, axes)(*operands), True
        return call_on_rows(function, *operands), True

    found: Array = call(x, *shared)
    return found
