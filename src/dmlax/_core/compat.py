"""The parts of JAX that are private or change between versions."""

import contextlib
import contextvars
import functools
import importlib
import itertools
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax._src import source_info_util
from jax._src.array import ArrayImpl
from jax._src.lib import xla_client  # type: ignore[attr-defined]
from jax._src.sharding_impls import GSPMDSharding, ShardingContext, SPMDAxisContext
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding

from dmlax._core.axis_names import AxisNames, Grid, Names, ShardingRule, grid, pieces
from dmlax.errors import UnsupportedError

DeviceArray = ArrayImpl  # the class of arrays that are no tracers
Equation: TypeAlias = JaxprEqn
Program: TypeAlias = Jaxpr
ClosedProgram: TypeAlias = ClosedJaxpr
_PACKAGE, _JAX = str(Path(__file__).parents[1]), str(Path(jax.__file__).parent)

_Operands = TypeVar("_Operands")  # a pytree of arrays
_Outputs = TypeVar("_Outputs")  # a pytree of arrays
_AnyFunction = TypeVar("_AnyFunction", bound=Callable[..., Any])
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


def shared(*static: str) -> Callable[[_AnyFunction], _AnyFunction]:
    """Makes a function of arrays one that a program has once for equal shapes, and calls.

    Args:
      *static: the parameters that are no arrays.
    """

    def decorate(function: _AnyFunction) -> _AnyFunction:
        return cast(_AnyFunction, jax.jit(function, static_argnames=static))

    return decorate


@contextlib.contextmanager
def on_cpu_at_once() -> Iterator[None]:
    """Has calls inside a trace compute at once, on a CPU if JAX has one: a GPU compiles longer."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.ensure_compile_time_eval())
        with contextlib.suppress(RuntimeError):
            stack.enter_context(jax.default_device(jax.local_devices(backend="cpu")[0]))
        yield


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


def label(outputs: _Outputs, call: object, operands: object = None) -> _Outputs:
    """Returns `outputs`; a program's jaxpr holds `call` there, and its machine code nothing.

    The label also takes the operands, so that `dmlax.onnx.from_jax` can write the call. Under
    `jax.vmap` it collects the mapped axes of the operands, the innermost map first.
    """
    leaves, tree = jax.tree.flatten(outputs)
    arrays, structure = jax.tree.flatten(operands)
    labelled: _Outputs = jax.tree.unflatten(
        tree, _label.bind(*leaves, *arrays, call=call, operands=structure, maps=())
    )
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
_label.def_impl(lambda *args, operands, **_: _outputs_of(args, operands))
_label.def_abstract_eval(lambda *args, operands, **_: list(_outputs_of(args, operands)))
mlir.register_lowering(_label, lambda context, *args, operands, **_: _outputs_of(args, operands))


def _outputs_of(args: Sequence[Any], operands: Any) -> Sequence[Any]:
    """The arguments of a label that are outputs: they stand before the operands."""
    return args[: len(args) - operands.num_leaves]


def _batch_label(
    args: Sequence[Array], dims: Sequence[int | None], *, operands: Any, maps: Any, **params: Any
) -> tuple[list[Array], Sequence[int | None]]:
    dims_of_outputs = _outputs_of(dims, operands)
    maps = (*maps, tuple(dims[len(dims_of_outputs) :]))
    return _label.bind(*args, operands=operands, maps=maps, **params), dims_of_outputs


batching.primitive_batchers[_label] = _batch_label


def closed(program: object) -> ClosedJaxpr | None:
    """A program with its constants, of one that has none or has them; None of all else."""
    if isinstance(program, Jaxpr):
        return ClosedJaxpr(program, [])
    return program if isinstance(program, ClosedJaxpr) else None


def function_of(program: ClosedJaxpr) -> Callable[..., list[Array]]:
    """The function that a program is of."""
    function: Callable[..., list[Array]] = jaxpr_as_fun(program)
    return function


def scan_of(jaxpr: Any, **params: Any) -> tuple[ClosedJaxpr, int, int]:
    """The step of a scan, and the numbers of its constants and of its carries."""
    step = closed(jaxpr)
    assert step is not None
    if "ft_in" in params:  # from JAX 0.12
        constants, carries, _ = (len(group) for group in params["ft_in"].unpack())
        return step, constants, carries
    return step, params["num_consts"], params["num_carry"]


def outputs_of(equation: JaxprEqn) -> list[tuple[np.dtype, tuple[int, ...]]]:
    """The dtypes and the shapes of an equation's outputs."""
    avals: Any = (var.aval for var in equation.outvars)
    return [(aval.dtype, tuple(aval.shape)) for aval in avals]


def user_position(equation: JaxprEqn) -> str:
    """The line of the user's code that an equation comes from, as "model.py:12 (layer)", or ""."""
    frames = source_info_util.user_frames(equation.source_info.traceback)
    lines = [(frame.file_name, frame.start_line, frame.function_name) for frame in frames]
    return _first_outside(lines)


def user_call(equation: JaxprEqn) -> str:
    """The function of dmlax that the user's code called for an equation, or ""."""
    frames = [*source_info_util.user_frames(equation.source_info.traceback)]
    inside = [*itertools.takewhile(lambda frame: frame.file_name.startswith(_PACKAGE), frames)]
    names = [frame.function_name for frame in inside if not frame.function_name.endswith("call")]
    return names[-1] if names and len(inside) < len(frames) else ""


def user_line(error: Exception) -> str:
    """The innermost line of the user's code in the traceback of an error."""
    steps = traceback.walk_tb(error.__traceback__)
    lines = [(f.f_code.co_filename, line, f.f_code.co_name) for f, line in steps]
    return _first_outside(line for line in reversed(lines) if not line[0].startswith(_JAX))


def _first_outside(lines: Iterable[tuple[str, int, str]]) -> str:
    """The first line that is not of dmlax, as "model.py:12 (layer)"."""
    outside = (line for line in lines if not line[0].startswith(_PACKAGE))
    return next((f"{file}:{number} ({name})" for file, number, name in outside), "")


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
      split: runs there on each device's part, if the platform is in `alone`.
    """

    default: _Function
    alone: tuple[tuple[str, _Function], ...] = ()
    partitioned: _Function | None = None
    split: "Split | None" = None

    def at_once(self) -> _Function:
        """The function that runs where nothing is lowered."""
        return self.default

    def chosen(self, context: Context) -> "_Function | Split":
        """The function that a program runs."""
        module, platforms = context.module_context, _platforms(context)
        is_exported = module.lowering_parameters.for_export
        is_portable = len(platforms) != 1 or (is_exported and not _keeps_kernels.get())
        kernel = None if is_portable else dict(self.alone).get(platforms[0])
        if _is_alone(module.axis_context):
            return kernel or self.default
        if kernel and self.split and _has_shardy() and not is_exported:
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


_keeps_kernels = contextvars.ContextVar("dmlax_keeps_kernels", default=False)
_KERNEL_TARGETS = dict[str, None]()  # of XLA's calls, in order


def register_kernel(name: str, address: Any) -> None:
    """Registers the handler of a call on CPUs."""
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
    _KERNEL_TARGETS[name] = None


def load_gpu_runtime() -> None:
    """Loads the library that kernels of Mosaic GPU call; lowering such a kernel loads it, too."""
    importlib.import_module("jax.experimental.mosaic.gpu")


def export_kernels(
    function: Callable[..., Any], platform: str, *args: Any, **kwargs: Any
) -> jax.export.Exported:
    """Exports a program of one platform with the kernels that it runs there."""
    checks = map(jax.export.DisabledSafetyCheck.custom_call, _KERNEL_TARGETS)
    kept = _keeps_kernels.set(True)
    try:  # a new function: JAX keeps what it lowered of the same one
        program = jax.jit(lambda *args, **kwargs: function(*args, **kwargs))
        export = jax.export.export(program, platforms=[platform], disabled_checks=tuple(checks))
        return export(*args, **kwargs)
    finally:
        _keeps_kernels.reset(kept)


def _has_shardy() -> bool:
    """True unless the user chose the former partitioner, which wants more than a rule."""
    config: Any = jax.config
    return bool(config.jax_use_shardy_partitioner)


class Split(NamedTuple):
    """A function of each device's part of the operands, which gives its part of the outputs."""

    function: _Function
    names: AxisNames

    def map(self, change: Callable[[_Function], _Function]) -> "Split":
        """Changes the function."""
        return self._replace(function=change(self.function))

    def flat(self) -> "Split":
        """The same of flat operands and outputs."""
        operands, outputs = (tuple(jax.tree.leaves(names)) for names in self.names[:2])
        return self._replace(names=AxisNames(operands, outputs, self.names.pieces))

    def mapped(self, dims: Sequence[int | None]) -> "Split":
        """The same of operands with one more axis."""
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
        call = custom_partitioning(whole)
        call.def_partition(
            functools.partial(self._partition, self._on_one_device(_platforms(context)[0])),
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


def _shape_of(aval: Any) -> tuple[int, ...]:
    return tuple(aval.shape)


def _for_some_devices(context: Context) -> Context:
    """A context that names devices: JAX asks for some, but neither which nor how many matters."""
    module = context.module_context.replace(axis_context=ShardingContext(2, _some_devices()))
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


def _sharding(devices: Grid, names: Names) -> GSPMDSharding:
    """The sharding of an array with these names."""
    tiles = devices.tiles(names)
    if tiles.shape[-1] == tiles.size:
        return GSPMDSharding(_some_devices(), xla_client.HloSharding.replicate())
    replicated = xla_client.OpSharding.Type.REPLICATED
    return GSPMDSharding(
        _some_devices(),
        xla_client.HloSharding.subgroup_with_device_ordering(tiles, subgroup_types=[replicated]),
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

    def batched(
        self, change: Callable[[_Function], _Function], dims: Sequence[int | None]
    ) -> "_ByPlatform":
        """Changes every function to its map over axes of flat operands."""
        return self.map(change)


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
    if isinstance(chosen, Split):
        return chosen.lower(context, args, shapes)
    return mlir.lower_fun(chosen)(context, *args)


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
