"""The parts of JAX that are private or change between versions."""

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax._src.array import ArrayImpl
from jax._src.sharding_impls import SPMDAxisContext
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dmlax.errors import UnsupportedError

DeviceArray = ArrayImpl  # the class of arrays that are no tracers

_Operands = TypeVar("_Operands")  # a pytree of arrays
_Outputs = TypeVar("_Outputs")  # a pytree of arrays
_Function = Callable[[Any], Any]  # of one pytree of arrays to another
_Flat = Callable[..., Sequence[Array]]
_Shapes = tuple[tuple[tuple[int, ...], np.dtype], ...]  # and dtypes, of outputs
Context: TypeAlias = mlir.LoweringRuleContext
Value = Any  # of MLIR, whose package has no types


def is_weak(array: Array) -> bool:
    """True for a JAX array or tracer that is weakly typed."""
    return bool(jax.typeof(array).weak_type)


def is_constant_of_trace(value: object, operand: object) -> bool:
    """True for an array that a program of a traced operand holds; not if devices share it."""
    if not isinstance(operand, jax.core.Tracer):
        return False
    return type(value) is np.ndarray or (type(value) is DeviceArray and not value.committed)


def canonical_dtype(dtype: Any) -> Any:
    """The dtype an array has inside JAX: 64-bit ones narrow unless x64 is on."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return np.dtype(object)
    return jax.dtypes.canonicalize_dtype(dtype)


def axis_size(axis_name: Hashable) -> int:
    """The number of devices along a mapped axis."""
    return int(jax.lax.axis_size(axis_name))


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


def label(outputs: _Outputs, call: object) -> _Outputs:
    """Returns `outputs`; a program's jaxpr holds `call` there, and its machine code nothing."""
    leaves, tree = jax.tree.flatten(outputs)
    labelled: _Outputs = jax.tree.unflatten(tree, _label.bind(*leaves, call=call))
    return labelled


def labels(function: Callable[..., Any], *args: object) -> list[Any]:
    """Every `call` that `label` left in a function, in the order of its program."""
    return list(_labels(jax.make_jaxpr(function)(*args).jaxpr))


def _labels(jaxpr: Jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        if equation.primitive is _label:
            yield equation.params["call"]
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(value):
                yield from _labels(value.jaxpr if isinstance(value, ClosedJaxpr) else value)


def _is_jaxpr(value: object) -> bool:
    return isinstance(value, Jaxpr | ClosedJaxpr)


_label = Primitive("dmlax_label")
_label.multiple_results = True
_label.def_impl(lambda *outputs, call: outputs)
_label.def_abstract_eval(lambda *outputs, call: list(outputs))
batching.primitive_batchers[_label] = lambda args, dims, **params: (
    _label.bind(*args, **params),
    dims,
)
mlir.register_lowering(_label, lambda context, *outputs, call: outputs)


def _identity(name: str) -> Primitive:
    """A primitive that returns its operand; the caller registers a lowering."""
    primitive = Primitive(name)
    primitive.def_impl(lambda x, **_: x)
    primitive.def_abstract_eval(lambda x, **_: x)
    batching.primitive_batchers[primitive] = lambda args, dims, **params: (
        primitive.bind(*args, **params),
        dims[0],
    )
    return primitive


def refuse(x: Array, refusals: tuple[tuple[str, str], ...]) -> Array:
    """Returns `x`; lowering it for one of the platforms raises `UnsupportedError`, which says why.

    The platform is known only when lowering, and `lax.platform_dependent` traces every branch.
    """
    return _refuse.bind(x, refusals=refusals) if refusals else x


_refuse = _identity("dmlax_refuse")


def _lower_refuse(
    context: Context, x: Value, *, refusals: tuple[tuple[str, str], ...]
) -> list[Value]:
    platforms = context.platforms or context.module_context.platforms
    for platform, sentence in refusals:
        if platform in platforms:
            raise UnsupportedError(sentence)
    return [x]


mlir.register_lowering(_refuse, _lower_refuse)


def hide_constant(x: Array) -> Array:
    """Returns `x`; the compiler does not learn that it is a constant of several long axes.

    XLA folds a bitcast of a constant byte by byte, in a wrong order if their layouts differ.
    """
    return cast(Array, _hide_constant.bind(x))


_hide_constant = _identity("dmlax_hide_constant")
ad.primitive_jvps[_hide_constant] = lambda primals, tangents: (hide_constant(*primals), *tangents)


def _shape(context: Context) -> tuple[int, ...]:
    """The shape of the first operand."""
    aval: Any = context.avals_in[0]
    return tuple(aval.shape)


def _lower_hide_constant(context: Context, x: Value) -> Any:
    def select(x: Array) -> Array:  # a barrier for `x` would end a fusion; a scalar's does not
        true = jax.lax.optimization_barrier(jnp.bool_(True))
        return jax.lax.select(true, x, jnp.zeros_like(x))

    is_flat = sum(size != 1 for size in _shape(context)) < 2
    return [x] if is_flat else mlir.lower_fun(select, multiple_results=False)(context, x)


mlir.register_lowering(_hide_constant, _lower_hide_constant)


def opaque(x: Array, lowering: Callable[[Array], Array]) -> Array:
    """Returns `x`, which a program computes by `lowering`: an identity that no compiler sees."""
    return cast(Array, _opaque.bind(x, lowering=lowering))


_opaque = _identity("dmlax_opaque")
ad.deflinear2(_opaque, lambda cotangent, x, *, lowering: [cotangent])


def _lower_opaque(context: Context, x: Value, *, lowering: Callable[[Array], Array]) -> Any:
    return mlir.lower_fun(lowering, multiple_results=False)(context, x)


mlir.register_lowering(_opaque, _lower_opaque)


class Alternatives(NamedTuple):
    """Functions of the same operands that give the same outputs, bit for bit.

    Attributes:
      default: runs where no other does: exported, for several platforms, or for one not in `alone`.
      alone: pairs of a platform and the function where a program is for that platform and one
        device, or inside `jax.shard_map`, where every device runs a separate program.
      partitioned: runs where the compiler splits the program over devices; default `default`.
    """

    default: _Function
    alone: tuple[tuple[str, _Function], ...] = ()
    partitioned: _Function | None = None

    def at_once(self) -> _Function:
        """The function that runs where nothing is lowered."""
        return self.default

    def chosen(self, context: Context) -> _Function:
        """The function that a program runs."""
        module = context.module_context
        if not _is_alone(module.axis_context):
            return self.partitioned or self.default
        platforms = _platforms(context)
        if module.lowering_parameters.for_export or len(platforms) != 1:
            return self.default
        return dict(self.alone).get(platforms[0], self.default)

    def map(self, change: Callable[[_Function], _Function]) -> "Alternatives":
        """Changes every function."""
        alone = tuple((platform, change(function)) for platform, function in self.alone)
        return Alternatives(
            change(self.default), alone, self.partitioned and change(self.partitioned)
        )


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
        first, *others = _platforms(context)
        return self.at_once() if others else dict(self.others).get(first, self.default)

    def map(self, change: Callable[[_Function], _Function]) -> "_ByPlatform":
        """Changes every function."""
        others = tuple((platform, change(function)) for platform, function in self.others)
        return _ByPlatform(change(self.default), others)


def _platforms(context: Context) -> Sequence[str]:
    """The platforms that a program is lowered for."""
    platforms: Sequence[str] = context.platforms or context.module_context.platforms
    return platforms


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


def _output_avals(operand: Any, *_: object, functions: object, shapes: _Shapes) -> list[Any]:
    """The outputs differ from device to device as the operands do, and are split over no axis."""
    mesh = operand.sharding.mesh
    whole = (NamedSharding(mesh, PartitionSpec(*(None,) * len(shape))) for shape, _ in shapes)
    return [
        operand.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)
        for (shape, dtype), sharding in zip(shapes, whole, strict=True)
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
    outputs = _choose.bind(*args, functions=functions.map(batched), shapes=shapes)
    return outputs, (0,) * len(shapes)


batching.primitive_batchers[_choose] = _batch_choose


def _lower_choose(
    context: Context, *args: Value, functions: Alternatives | _ByPlatform, shapes: _Shapes
) -> Any:
    return mlir.lower_fun(functions.chosen(context))(context, *args)


def _is_alone(axis_context: Any) -> bool:
    """True if a program is for one device, or is written for each device by `shard_map`."""
    if isinstance(axis_context, SPMDAxisContext):
        return axis_context.manual_axes == frozenset(axis_context.mesh.axis_names)
    return bool(axis_context.num_devices == 1)


mlir.register_lowering(_choose, _lower_choose)


def serialise_namedtuple(kind: type, name: str) -> None:
    """Lets `jax.export` serialise functions that return this NamedTuple."""
    jax.export.register_namedtuple_serialization(kind, serialized_name=name)


def serialise_pytree(
    kind: type, name: str, encode: Callable[[Any], bytes], decode: Callable[[Any], Any]
) -> None:
    """Lets `jax.export` serialise functions that take or return this pytree."""
    jax.export.register_pytree_node_serialization(
        kind, serialized_name=name, serialize_auxdata=encode, deserialize_auxdata=decode
    )
