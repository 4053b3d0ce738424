"""The split of an output over a mesh with explicit axes, from the names of axes."""

from collections.abc import Callable, Iterator

import jax

from dmlax._core import splitting
from dmlax._core.arguments import structs
from dmlax._core.axis_names import WHOLE, AxisNames
from dmlax._core.dispatch import OperandsT, PlanT


def partition_by_names(
    axis_names: Callable[[PlanT, OperandsT], AxisNames],
) -> Callable[[PlanT, OperandsT], splitting.Partition]:
    """Makes the `partition` of an operator with one output from the names of its axes.

    An axis of the output is split as the first operand that is split along an axis of its name and
    size. A mesh axis splits at most one axis of the output.
    """

    def partition(plan: PlanT, operands: OperandsT) -> splitting.Partition:
        names = axis_names(plan, operands)
        sizes = dict(zip(names.outputs.split(), structs(plan.output).shape, strict=True))
        splits: dict[str, object] = {WHOLE: None}
        for name, size, mesh_axis in _split_axes(names, operands):
            taken = {of for split in splits.values() for of in splitting.mesh_axes(split)}
            if sizes.get(name) == size and not taken & set(splitting.mesh_axes(mesh_axis)):
                splits.setdefault(name, mesh_axis)
        return tuple(map(splits.get, names.outputs.split()))

    return partition


def _split_axes(names: AxisNames, operands: object) -> Iterator[tuple[str, int, object]]:
    """The name, the size and the mesh axes of every axis of an operand that a mesh splits."""
    pairs = zip(jax.tree.leaves(names.operands), jax.tree.leaves(operands), strict=True)
    for of_array, array in pairs:
        axes = zip(of_array.split(), array.shape, splitting.partition(array), strict=True)
        yield from (axis for axis in axes if axis[2] is not None)
