"""Models on a mesh whose axes are explicit."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import Array

from dmlax._core import compat

Arrays = dict[str, Array]


def run_on_any_mesh(
    compute: Callable[[dict[str, Any]], Arrays],
    operands: dict[str, Any],
    inputs: Mapping[str, Array],
) -> Arrays:
    """Runs compute(operands), whose gathers need not say how results are split over a mesh.

    An output of the batch of the inputs is split as they are.

    Args:
      compute: returns tensors by name.
      operands: the params and the inputs.
      inputs: the inputs alone, whose first axis is the batch.
    """

    def partitions(operands: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        structs = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), operands)
        outputs = jax.eval_shape(compute, structs)
        return {name: _partition(output.shape, inputs) for name, output in outputs.items()}

    return compat.outside_explicit_mesh(compute, partitions, operands)


def _partition(shape: tuple[int, ...], inputs: Mapping[str, Array]) -> tuple[Any, ...]:
    """The mesh axes over which the axes of an output are split."""
    batches = (x for x in inputs.values() if x.ndim and shape and x.shape[0] == shape[0])
    axes = (compat.partition(x)[0] for x in batches)
    first = next((names for names in axes if names is not None), None)
    return (first, *(None,) * (len(shape) - 1)) if shape else ()
