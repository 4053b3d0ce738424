"""Programs that are split over the devices of a mesh: kernels on each device's part."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.interpreters import mlir
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding

from dmlax._core.axis_names import AxisNames, Grid, Names, ShardingRule, grid, pieces
from dmlax._core.compat import Context, Value, export_kernels, platforms, private

_Operands = TypeVar("_Operands")  # a pytree of arrays
_Outputs = TypeVar("_Outputs")  # a pytree of arrays
_Function = Callable[[Any], Any]  # maps a pytree of arrays to another
_Flat = Callable[..., Sequence[Array]]
_Shapes = tuple[tuple[tuple[int, ...], np.dtype], ...]  # shapes and dtypes of outputs


class _Private(NamedTuple):
    """JAX's classes without which no kernel runs on a part of a split program."""

    custom_partitioning: Any
    GSPMDSharding: Any
    ShardingContext: Any
    HloSharding: Any
    OpSharding: Any


@functools.cache
def _private() -> _Private | None:
    parts = (
        private("jax.experimental.custom_partitioning", "custom_partitioning"),
        private("jax._src.sharding_impls", "GSPMDSharding", "ShardingContext"),
        private("jax._src.lib", "xla_client.HloSharding", "xla_client.OpSharding"),
    )
    return _Private(*(found for part in parts for found in part or ())) if all(parts) else None


def why_not() -> str | None:
    """The sentence that says why programs split over devices run without kernels, or None."""
    config: Any = jax.config
    if not config.jax_use_shardy_partitioner:  # the former partitioner wants more than a rule
        return "kernels run on parts only with jax_use_shardy_partitioner on"
    if _private() is None:
        return f"JAX {jax.__version__} lacks a class by which kernels run on parts"
    return None


Partition = tuple[Any, ...]  # the mesh axes that split each axis of an array


def partition(array: Array) -> Partition:
    """The mesh axes that split each axis of an array, where a mesh's axes are explicit."""
    return tuple(jax.typeof(array).sharding.spec)


def mesh_axes(partition: object) -> tuple[Any, ...]:
    """The names of the mesh axes in one entry of a `partition`."""
    return partition if isinstance(partition, tuple) else (partition,) if partition else ()


def outside_explicit_mesh(
    function: Callable[[_Operands], _Outputs],
    partitions: Callable[[_Operands], Any],
    operands: _Operands,
) -> _Outputs:
    """Runs function(operands), which need not say how intermediates are split over a mesh.

    Args:
      function: reshapes and loops, for which a mesh with explicit axes asks a sharding every time.
      partitions: gives, for the operands, a partition for every output.
      operands: a pytree of arrays.
    """
    mesh = _explicit_mesh(operands)
    if mesh is None:
        return function(operands)
    shardings = jax.tree.map(
        lambda axes: NamedSharding(mesh, PartitionSpec(*axes)),
        partitions(operands),
        is_leaf=lambda x: type(x) is tuple,
    )
    outputs: _Outputs = jax.sharding.auto_axes(function, out_sharding=shardings)(operands)
    return outputs


def gather_axis(x: Array, axis: int) -> Array:
    """Returns `x`, which a program for the devices of a mesh gathers along an axis, here and once.

    The compiler would split the values made of `x` in the same way, and gather every piece.
    """
    mesh = jax.typeof(x).sharding.mesh
    if mesh.empty or set(mesh.axis_types) != {jax.sharding.AxisType.Auto}:
        return x
    axes: list[Any] = [PartitionSpec.UNCONSTRAINED] * x.ndim
    axes[axis] = None
    gathered: Array = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*axes)))
    return gathered


def _explicit_mesh(operands: object) -> Mesh | None:
    """The mesh whose explicit axes split an operand, if there is one."""
    shardings = (jax.typeof(leaf).sharding for leaf in jax.tree.leaves(operands))
    split = (sharding for sharding in shardings if any(axis is not None for axis in sharding.spec))
    return next((sharding.mesh for sharding in split), None)


class Split(NamedTuple):
    """A function of each device's part of the operands, which gives its part of the outputs."""

    function: _Function
    names: AxisNames

    def map(self, change: Callable[[_Function], _Function]) -> "Split":
        """Changes the function."""
        return self._replace(function=change(self.function))

    def flat(self) -> "Split":
        """Names the axes of flat operands and outputs."""
        operands, outputs = (tuple(jax.tree.leaves(names)) for names in self.names[:2])
        return self._replace(names=AxisNames(operands, outputs, self.names.pieces))

    def mapped(self, dims: Sequence[int | None]) -> "Split":
        """Names the axes of operands with one more axis, which `vmap` adds."""
        return self._replace(names=self.names.mapped(dims))

    def partitions(self, operands: Sequence[Any]) -> list[Partition]:
        """The explicit mesh axes of each output: those of the first operand with the name."""
        axes: dict[str, Any] = {"-": None}
        taken: set[Any] = set()
        for names, aval in zip(self.names.operands, operands, strict=True):
            for name, axis in zip(names.split(), aval.sharding.spec, strict=True):
                if name not in axes and axis and not taken & {*mesh_axes(axis)}:
                    axes[name] = axis
                    taken |= {*mesh_axes(axis)}
        return [tuple(map(axes.get, names.split())) for names in self.names.outputs]

    def lower(self, context: Context, args: Sequence[Value], shapes: _Shapes) -> Any:
        """Lowers to a call whose parts the compiler asks for once it knows how it is split."""

        def whole(*operands: Array) -> list[Array]:  # gives shapes only
            return [jnp.zeros(shape, dtype) for shape, dtype in shapes]

        operands = [_shape_of(aval) for aval in context.avals_in]
        outputs = [shape for shape, _ in shapes]
        rule = ShardingRule(pieces(self.names, outputs[0]))
        sides = rule.write(self.names.operands, operands), rule.write(self.names.outputs, outputs)
        call = _found().custom_partitioning(whole)
        call.def_partition(
            functools.partial(self._partition, self._on_one_device(platforms(context)[0])),
            decode_shardings=False,
            sharding_rule=" -> ".join(sides),
            **rule.options,
        )
        return mlir.lower_fun(call)(_for_some_devices(context), *args)

    def _partition(self, part: _Flat, mesh: Mesh, operands: Any, outputs: Any) -> tuple[Any, ...]:
        """The function of each device, and how the outputs and the operands are split."""
        first = outputs[0]
        devices = grid(self.names, _tiles(first.sharding, len(first.shape)))
        of_outputs = [_sharding(devices, names) for names in self.names.outputs]
        of_operands = tuple(_sharding(devices, names) for names in self.names.operands)
        return mesh, part, of_outputs, of_operands

    def _on_one_device(self, platform: str) -> _Flat:
        """The function of a part: a GPU's kernel, slow to lower, is so once for equal calls."""

        @functools.cache
        def lowered(*operands: jax.ShapeDtypeStruct) -> jax.export.Exported:
            return export_kernels(self.function, platform, *operands)

        def run(*operands: Array) -> Sequence[Array]:
            # Outside of the mesh where the program is compiled.
            with jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
                structs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
                function = self.function if platform == "cpu" else lowered(*structs).call
                parts: Sequence[Array] = function(*operands)
                return parts

        return run


def _found() -> _Private:
    found = _private()
    assert found is not None  # else `why_not` says so
    return found


def _shape_of(aval: Any) -> tuple[int, ...]:
    return tuple(aval.shape)


def _for_some_devices(context: Context) -> Context:
    """A context that names devices: JAX asks for some, but neither which nor how many matters."""
    module = context.module_context.replace(
        axis_context=_found().ShardingContext(2, _some_devices())
    )
    changed: Context = context.replace(module_context=module)
    return changed


def _some_devices() -> tuple[jax.Device, ...]:
    return (jax.local_devices()[0],) * 2


def _tiles(sharding: Sharding, rank: int) -> np.ndarray:
    """The devices by the tiles of an array, and along a last axis those of the same tile."""
    found = sharding._to_xla_hlo_sharding(rank)
    if found.is_replicated():
        return np.zeros((1,) * (rank + 1), np.int64)
    devices = np.asarray(found.tile_assignment_devices())
    return devices.reshape(*found.tile_assignment_dimensions()[:rank], -1)


def _sharding(devices: Grid, names: Names) -> Any:
    """The sharding of an array with these names."""
    found, tiles = _found(), devices.tiles(names)
    if tiles.shape[-1] == tiles.size:
        return found.GSPMDSharding(_some_devices(), found.HloSharding.replicate())
    replicated = [found.OpSharding.Type.REPLICATED]
    of_tiles = found.HloSharding.subgroup_with_device_ordering(tiles, subgroup_types=replicated)
    return found.GSPMDSharding(_some_devices(), of_tiles)
