"""The kernels on two quantized tensors in C++ (`binary.cc`), which broadcasts them itself."""

import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from dmlax._core.arguments import expand_rank
from dmlax._core.quantized_sum import Quantized
from dmlax._core.requantize import Arithmetic


def combine(
    kind: Literal["add", "multiply"],
    a: Quantized,
    b: Quantized,
    scale: Array,
    zero_point: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
    overwritten: int | None = None,
) -> Array:
    """The quantized sum or product in one call; `vmap` puts its axes before those of every operand.

    The result may take the memory of one operand, `overwritten`, which nothing else reads.
    """
    shape = jnp.broadcast_shapes(a.values.shape, b.values.shape)
    rank = len(shape)
    points = (a.zero_point, a.values.dtype), (b.zero_point, b.values.dtype), (zero_point, dtype)
    zero_points = [jnp.zeros((), of) if point is None else point for point, of in points]
    parameters = a.scale, b.scale, scale, *zero_points
    tensors = [expand_rank(x.values, rank, scalars=True) for x in (a, b)]
    operands = *tensors, *(x.reshape((1,) * rank) for x in parameters)

    def run(*operands: Array, aliases: dict[int, int] | None = None) -> Array:
        output = jax.ShapeDtypeStruct(shape, dtype)
        options: dict[str, Any] = {"vmap_method": "expand_dims", "input_output_aliases": aliases}
        call = jax.ffi.ffi_call(f"dmlax_quantized_{kind}_v1", output, **options)
        return call(*operands, exact=arithmetic == "exact")

    # An exact kernel reads the operands of near ties again, after it has stored estimates.
    if overwritten is None or arithmetic == "exact":
        return run(*operands)
    memory = operands[overwritten]
    if (memory.shape, memory.dtype) != (shape, dtype):
        return run(*operands)
    result: Array = _unless_mapped(functools.partial(run, aliases={overwritten: 0}), run)(*operands)
    return result


def _unless_mapped(call: Callable[..., Array], mapped: Callable[..., Array]) -> Callable[..., Any]:
    """A call, and another under `vmap`, where one operand may be mapped and another not."""
    function = jax.custom_batching.custom_vmap(call)

    def map_over(_: int, is_mapped: list[bool], *operands: Array) -> tuple[Array, bool]:
        axes = tuple(0 if mapped else None for mapped in is_mapped)
        return jax.vmap(mapped, in_axes=axes)(*operands), True

    function.def_vmap(map_over)
    return function
