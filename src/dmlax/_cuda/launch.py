"""Launch of a CUDA kernel by Pallas; `ir` writes what its threads do."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from dmlax._cuda import ir
from dmlax._cuda.ir import Memory, Pointer, Value

_Caller: TypeAlias = Callable[[Callable[..., list[Array]], Sequence[Array]], list[Array]]


def _call(kernel: Callable[..., list[Array]], operands: Sequence[Array]) -> list[Array]:
    return list(kernel(*operands))


_caller = contextvars.ContextVar[_Caller]("dmlax_caller", default=_call)


@contextlib.contextmanager
def calling(caller: _Caller) -> Iterator[None]:
    """Has `caller(kernel, operands)` call the kernels that are launched inside."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


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
    body: Callable[[Memory], None],
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
        `zeroed` words that all blocks share, if any.
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
            with ir.kernel(name):
                body(dict(zip(names, map(Pointer, refs), strict=True)))

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
    return _caller.get()(kernel, list(operands.values()))
