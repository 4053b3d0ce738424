"""Rows times columns of blocks in C++ (`blocks.cc`; `level_product.cc` for rows of 8 bits)."""

import math

import jax
import numpy as np
from jax import Array

from dmlax._core import tuning
from dmlax._core.arguments import is_static
from dmlax._cpu import library
from dmlax._fused.block_product.plan import WIDEST_BLOCK, BlockPlan, Blocks

_TARGET, _OF_LEVELS = "dmlax_block_product_v1", "dmlax_level_product_v1"
_LANES = 8  # the lanes of XLA's loop over a row; the kernel adds in its order
_SETS = ("avx", "amx")  # beginnings of the instruction sets where XLA's loop has them


def run(plan: BlockPlan, operands: Blocks) -> Array:
    """Makes one call."""
    a, held, scale, zero_point = operands
    if plan.levels:
        return _multiply_levels(plan, operands)
    output = jax.ShapeDtypeStruct((math.prod(plan.output.shape),), np.float32)
    call = jax.ffi.ffi_call(_TARGET, output, vmap_method="sequential")
    floats = (x.astype(np.float32) for x in (scale, zero_point))
    result: Array = call(a.reshape(-1), held, *floats)
    return result.reshape(plan.output.shape)


def _multiply_levels(plan: BlockPlan, operands: Blocks) -> Array:
    a, held, scale, zero_point = operands
    rows = a.reshape((-1, a.shape[-1]))
    output = jax.ShapeDtypeStruct((rows.shape[0], plan.columns), np.float32)
    call = jax.ffi.ffi_call(_OF_LEVELS, output, vmap_method="sequential")
    sizes = {"bits": plan.bits, "block": min(plan.block_size, WIDEST_BLOCK)}
    attributes = {name: np.int64(value) for name, value in sizes.items()}
    result: Array = call(rows, held, scale.astype(np.float32), zero_point, **attributes)
    return result.reshape(plan.output.shape)


def why_not(plan: BlockPlan, platform: str) -> str | None:
    """The reason why no kernel takes the plan, or None."""
    if why := library.why_not(platform):
        return why
    if plan.levels:
        return None if is_static(plan.input.shape) else "the number of its rows is a symbol"
    if not library.instruction_set().startswith(_SETS):
        return "its kernel is written for AVX2 and its extensions"
    sizes, columns = plan.input.shape[:-1], plan.columns
    rows = math.prod(sizes)
    few = is_static(sizes) and 0 < rows <= tuning.MOST_BLOCK_ROWS
    if not few or columns % _LANES or plan.block_size % (2 * _LANES):
        return f"it has {rows} rows, {columns} columns and blocks of {plan.block_size}, expected 1 \
to {tuning.MOST_BLOCK_ROWS} rows, and multiples of {_LANES} and {2 * _LANES}"
    return None
