"""Merged groups: a convolution of many groups of few channels as one of few groups of many.

A filter's row gets places for the channels of all merged groups. Those of other groups hold its
zero point, which adds nothing to a sum. The added products cost a GPU less than narrow ones.
"""

from dataclasses import replace

import jax.numpy as jnp
from jax import Array

from dmlax._core import tuning
from dmlax._core.byte_packing import round_up_to_word
from dmlax._core.prepared_weights import Prepared
from dmlax._operators.convolution.plan import ConvolutionPlan, FilterShape
from dmlax._operators.convolution.prepare import zero_of


def choose_merged_groups(shape: FilterShape) -> int:
    """A divisor of the groups, of so many channels as is worth merging; channels are words."""
    outputs = shape.outputs // shape.group_count
    most = max(tuning.MOST_MERGED_CHANNELS // max(round_up_to_word(shape.channels), outputs), 1)
    return max(n for n in range(1, most + 1) if shape.group_count % n == 0)


def merge_filter(shape: FilterShape, filter: Prepared, merged: int) -> Prepared:
    """The filter of merged groups. Its channels may be padded."""
    zeros = jnp.broadcast_to(zero_of(shape, filter), filter.sums.shape)
    outputs, length = filter.packed.shape
    rows = filter.packed.reshape(
        -1, merged, outputs // shape.group_count, shape.taps, 1, length // shape.taps
    )
    places = _place_rows(rows, zeros.astype(jnp.int8).reshape(*rows.shape[:3], 1, 1, 1))
    return filter._replace(
        packed=places.reshape(outputs, merged * length),
        sums=filter.sums + (merged - 1) * length * zeros,
    )


def _place_rows(rows: Array, zeros: Array) -> Array:
    """(groups, merged, outputs, taps, 1, channels), with merged groups' channels side by side."""
    merged = rows.shape[1]
    is_same_group = jnp.eye(merged, dtype=bool).reshape(merged, 1, 1, merged, 1)
    return jnp.where(is_same_group, rows, zeros)


def merge_groups(plan: ConvolutionPlan, filter: Prepared) -> tuple[ConvolutionPlan, Prepared]:
    """The plan and the filter of merged groups."""
    shape, merged = plan.filter, choose_merged_groups(plan.filter)
    if merged == 1:
        return plan, filter
    sizes = list(shape.filter.shape)
    sizes[shape.specification[1]] *= merged
    larger = shape._replace(
        filter=shape.filter._replace(shape=tuple(sizes)), group_count=shape.group_count // merged
    )
    return replace(plan, filter=larger), merge_filter(shape, filter, merged)
