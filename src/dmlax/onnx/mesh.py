"""Models on a mesh whose axes are explicit."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from dmlax._core import compat

Tensors = dict[str, Any]


def run_on_any_mesh(
    compute: Callable[[Tensors], Tensors], operands: Tensors, inputs: Mapping[str, Any]
) -> Tensors:
    """Runs compute(operands), whose gathers need not say how results are split over a mesh.

    An output of the batch of the inputs is split as they are.

    Args:
      compute: returns tensors by name.
      operands: the params and the inputs.
      inputs: the inputs alone, whose first axis is the batch.
    """

    def partitions(operands: Tensors) -> Tensors:
        structs = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), operands)
        outputs = jax.eval_shape(compute, structs)
        return {name: _partition(output.shape, inputs) for name, output in outputs.items()}

    found: Tensors = compat.outside_explicit_mesh(compute, operands, partitions)
    return found


def _partition(shape: tuple[Any, ...], inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The mesh axes of each axis of an output."""
    same = (x for x in inputs.values() if x.ndim and shape and x.shape[0] == shape[0])
    split = (compat.partition(x)[0] for x in same)
    first = next((axes for axes in split if axes is not None), None)
    return (first, *(None,) * (len(shape) - 1)) if shape else ()
