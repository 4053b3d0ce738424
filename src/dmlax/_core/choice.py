"""The choice of a lowering, made when a program is lowered."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from dmlax._core import splitting
from dmlax._core.compat import Context, Value, keeps_kernels, platforms

_Operands = TypeVar("_Operands")  # a pytree of arrays
_Outputs = TypeVar("_Outputs")  # a pytree of arrays
_Function = Callable[[Any], Any]  # maps a pytree of arrays to another
_Flat = Callable[..., Sequence[Array]]
_Shapes = tuple[tuple[tuple[int, ...], np.dtype], ...]  # shapes and dtypes of outputs


class Alternatives(NamedTuple):
    """Functions of the same operands that give the same outputs, bit for bit.

    Attributes:
      default: runs where no other does: exported, for several platforms, or for one not in `alone`.
      alone: pairs of a platform and the function where a program is for that platform and one
        device, or inside `jax.shard_map`, where every device runs a separate program.
      partitioned: runs where the compiler splits the program over devices; default `default`.
      split: runs there on each device's part, if the platform is in `alone`.
    """

    default: _Function
    alone: tuple[tuple[str, _Function], ...] = ()
    partitioned: _Function | None = None
    split: splitting.Split | None = None

    def at_once(self) -> _Function:
        """The function that runs where nothing is lowered."""
        return self.default

    def chosen(self, context: Context) -> "_Function | splitting.Split":
        """The function that a program runs."""
        module, names = context.module_context, platforms(context)
        is_exported = module.lowering_parameters.for_export
        is_portable = len(names) != 1 or (is_exported and not keeps_kernels.get())
        kernel = None if is_portable else dict(self.alone).get(names[0])
        if _is_alone(module.axis_context):
            return kernel or self.default
        if kernel and self.split and not is_exported and not splitting.why_not():
            return self.split
        return self.partitioned or self.default

    def map(self, change: Callable[[_Function], _Function]) -> "Alternatives":
        """Changes every function."""
        alone = tuple((platform, change(function)) for platform, function in self.alone)
        partitioned = self.partitioned and change(self.partitioned)
        return Alternatives(
            change(self.default), alone, partitioned, self.split and self.split.map(change)
        )

    def batched(
        self, change: Callable[[_Function], _Function], dims: Sequence[int | None]
    ) -> "Alternatives":
        """Changes every function to its map over axes of flat operands."""
        changed = self.map(change)
        return changed._replace(split=changed.split and changed.split.mapped(dims))


class _ByPlatform(NamedTuple):
    """A default function and those of platforms, which give the same outputs, bit for bit."""

    default: _Function
    others: tuple[tuple[str, _Function], ...]

    def at_once(self) -> _Function:
        """A function that runs on any platform."""
        return functools.partial(
            jax.lax.platform_dependent, **dict(self.others), default=self.default
        )

    def chosen(self, context: Context) -> _Function:
        """The function that a program runs: a program for several platforms keeps them all."""
        first, *others = platforms(context)
        return self.at_once() if others else dict(self.others).get(first, self.default)

    def map(self, change: Callable[[_Function], _Function]) -> "_ByPlatform":
        """Changes every function."""
        others = tuple((platform, change(function)) for platform, function in self.others)
        return _ByPlatform(change(self.default), others)

    def batched(
        self, change: Callable[[_Function], _Function], dims: Sequence[int | None]
    ) -> "_ByPlatform":
        """Changes every function to its map over axes of flat operands."""
        return self.map(change)


def by_platform(
    operands: _Operands,
    outputs: object,
    default: Callable[[_Operands], _Outputs],
    others: Mapping[str, Callable[[_Operands], _Outputs]],
) -> _Outputs:
    """Runs the function of a platform or the default, which give the same bits.

    `lax.platform_dependent` would trace them all for any platform.

    Args:
      operands: a pytree of arrays.
      outputs: a pytree of `jax.ShapeDtypeStruct`: the result of every function.
      default: runs on every platform not in `others`.
      others: functions by platform.
    """
    result: _Outputs = choose(_ByPlatform(default, tuple(others.items())), outputs, operands)
    return result


def choose(functions: Alternatives | _ByPlatform, outputs: object, operands: object) -> Any:
    """Runs one of several functions that give the same bits, chosen when lowering.

    `lax.platform_dependent` cannot choose by anything but the platform: it keeps every branch, and
    `jax.export` refuses a kernel in any of them.

    Args:
      functions: of one operand.
      outputs: a pytree of `jax.ShapeDtypeStruct`: the result of every function.
      operands: a pytree of arrays.
    """
    leaves, tree = jax.tree.flatten(operands)
    avals, structure = jax.tree.flatten(outputs)

    def flat(function: _Function) -> _Flat:
        # Jitted, so that lowering it again does not trace it again.
        return jax.jit(lambda *leaves: jax.tree.leaves(function(jax.tree.unflatten(tree, leaves))))

    if isinstance(functions, Alternatives) and functions.split:
        functions = functions._replace(split=functions.split.flat())
    shapes = tuple((tuple(aval.shape), np.dtype(aval.dtype)) for aval in avals)
    leaves = _choose.bind(*_varying_alike(leaves), functions=functions.map(flat), shapes=shapes)
    return jax.tree.unflatten(structure, leaves)


def _varying_alike(arrays: Sequence[Array]) -> list[Array]:
    """Makes arrays inside `jax.shard_map` vary over devices along the same mesh axes."""
    axes = [_varying(array) for array in arrays]
    union = frozenset[Any]().union(*axes)
    return [
        jax.lax.pcast(array, tuple(sorted(missing)), to="varying") if missing else array
        for array, missing in zip(arrays, (union - varying for varying in axes), strict=True)
    ]


def _varying(array: Array) -> frozenset[Any]:
    aval = jax.typeof(array)
    return frozenset(aval.mat.varying if hasattr(aval, "mat") else aval.vma)


def _output_avals(*operands: Any, functions: object, shapes: _Shapes) -> list[Any]:
    """The outputs differ from device to device as the operands do; explicit axes split names."""
    split = functions.split if isinstance(functions, Alternatives) else None
    whole = [(None,) * len(shape) for shape, _ in shapes]
    partitions = split.partitions(operands) if split else whole
    first = operands[0]
    shardings = (
        NamedSharding(first.sharding.mesh, PartitionSpec(*partition)) for partition in partitions
    )
    return [
        first.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)
        for (shape, dtype), sharding in zip(shapes, shardings, strict=True)
    ]


_choose = Primitive("dmlax_choose")
_choose.multiple_results = True
_choose.def_impl(lambda *args, functions, shapes: functions.at_once()(*args))
_choose.def_abstract_eval(_output_avals)


def _batch_choose(
    args: Sequence[Array],
    dims: Sequence[int | None],
    *,
    functions: Alternatives | _ByPlatform,
    shapes: _Shapes,
) -> tuple[list[Array], tuple[int, ...]]:
    def batched(function: Callable[..., Sequence[Array]]) -> Callable[..., Sequence[Array]]:
        return jax.jit(jax.vmap(function, in_axes=dims))

    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    shapes = tuple(((size, *shape), dtype) for shape, dtype in shapes)
    functions = functions.batched(batched, dims)
    outputs = _choose.bind(*args, functions=functions, shapes=shapes)
    return outputs, (0,) * len(shapes)


batching.primitive_batchers[_choose] = _batch_choose


def _lower_choose(
    context: Context, *args: Value, functions: Alternatives | _ByPlatform, shapes: _Shapes
) -> Any:
    chosen = functions.chosen(context)
    if isinstance(chosen, splitting.Split):
        return chosen.lower(context, args, shapes)
    return mlir.lower_fun(chosen)(context, *args)


def _is_alone(axis_context: Any) -> bool:
    """True if a program is for one device, or is written for each device by `shard_map`."""
    manual = getattr(axis_context, "manual_axes", None)
    if manual is not None:
        return bool(manual == frozenset(axis_context.mesh.axis_names))
    return bool(axis_context.num_devices == 1)


mlir.register_lowering(_choose, _lower_choose)
