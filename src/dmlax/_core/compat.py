"""The parts of JAX that are private or change between versions."""

import contextlib
import contextvars
import functools
import importlib
import itertools
import operator
import os
import traceback
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend import core
from jax.extend.core import Jaxpr, JaxprEqn, Primitive, jaxpr_as_fun
from jax.extend.core import primitives as named_primitives
from jax.interpreters import ad, batching, mlir

from dmlax.errors import UnsupportedError

NEWEST_TESTED = "0.12"  # release of JAX


@functools.cache
def private(module: str, *names: str) -> tuple[Any, ...] | None:
    """Imports names that JAX does not promise to keep; warns and returns None if one is gone."""
    try:
        found = importlib.import_module(module)
        return tuple(operator.attrgetter(name)(found) for name in names)
    except (ImportError, AttributeError) as error:
        warnings.warn(
            f"JAX {jax.__version__} has no {module} with {', '.join(names)}; dmlax was tested "
            f"with JAX up to {NEWEST_TESTED}: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


class _NoDeviceArray:
    """Stands for the class of device arrays if it is not known: eager calls are slower then."""


_found = private("jax._src.array", "ArrayImpl")
DeviceArray: Any = (
    _found[0] if _found else _NoDeviceArray
)  # the class of arrays that are no tracers
Equation: TypeAlias = JaxprEqn
Program: TypeAlias = Jaxpr
Constant: TypeAlias = core.Literal
ClosedProgram: Any = getattr(core, "ClosedJaxpr", Jaxpr)  # a Jaxpr since JAX 0.12
_PACKAGE, _JAX = str(Path(__file__).parents[1]), str(Path(jax.__file__).parent)

_AnyFunction = TypeVar("_AnyFunction", bound=Callable[..., Any])
Context: TypeAlias = mlir.LoweringRuleContext
Value = Any  # an MLIR value; MLIR's package has no types


def is_weak(array: Array) -> bool:
    """True for a JAX array or tracer that is weakly typed."""
    return bool(jax.typeof(array).weak_type)


def is_constant_of_trace(value: object, operand: object) -> bool:
    """True for an array that a program of a traced operand holds; not if devices share it."""
    if not isinstance(operand, jax.core.Tracer):
        return False
    return type(value) is np.ndarray or (isinstance(value, DeviceArray) and not value.committed)


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


def in_64_bits(function: Callable[[Any], Any], operands: Any) -> Any:
    """Computes function(operands) as with x64 on, inside of any program.

    JAX lowers and batches some operations with the setting of the moment, so a primitive holds the
    program and sets it. The outputs have no tangents.
    """
    leaves, tree = jax.tree.flatten(operands)
    with jax.enable_x64(True):
        if not leaves:
            return function(operands)
        make = jax.make_jaxpr(lambda *x: function(jax.tree.unflatten(tree, x)), return_shape=True)
        program, outputs = make(*leaves)
    structure = jax.tree.structure(outputs)
    return jax.tree.unflatten(structure, _wide.bind(*leaves, program=program))


def _run_wide(*operands: Any, program: ClosedProgram) -> list[Array]:
    with jax.enable_x64(True):
        return function_of(program)(*operands)


def _batch_wide(
    operands: Sequence[Array], dims: Sequence[int | None], *, program: ClosedProgram
) -> tuple[list[Array], Sequence[int]]:
    mapped = jax.vmap(lambda x: function_of(program)(*x), in_axes=(tuple(dims),))
    outputs = in_64_bits(mapped, tuple(operands))
    return outputs, (0,) * len(outputs)


def _jvp_wide(primals: Any, tangents: Any, *, program: ClosedProgram) -> Any:
    outputs = _wide.bind(*primals, program=program)
    return outputs, [ad.Zero.from_primal_value(x) for x in outputs]  # type: ignore[attr-defined]


def _lower_wide(context: Context, *operands: Value, program: ClosedProgram) -> Any:
    # The numbers of a program's symbolic sizes have the width of the setting outside.
    is_symbolic = bool(context.module_context.shape_poly_state.dim_vars)
    with contextlib.nullcontext() if is_symbolic else jax.enable_x64(True):
        lower = mlir.lower_fun(functools.partial(_run_wide, program=program))
        return lower(context, *operands)


_wide = Primitive("dmlax_wide")
_wide.multiple_results = True
_wide.def_impl(_run_wide)
_wide.def_abstract_eval(lambda *_, program: program.out_avals)
batching.primitive_batchers[_wide] = _batch_wide
ad.primitive_jvps[_wide] = _jvp_wide
mlir.register_lowering(_wide, _lower_wide)


def canonical_dtype(dtype: Any) -> Any:
    """The dtype an array has inside JAX: 64-bit ones narrow unless x64 is on."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return np.dtype(object)
    return jax.dtypes.canonicalize_dtype(dtype)


def axis_size(axis_name: Hashable) -> int:
    """The number of devices along a mapped axis."""
    return int(jax.lax.axis_size(axis_name))


def closed(program: object) -> ClosedProgram | None:
    """A program with its constants, of one that has none or has them; None of all else."""
    if isinstance(program, ClosedProgram):
        return program
    return ClosedProgram(program, []) if isinstance(program, Jaxpr) else None


_CALLS = (
    *("jit", "closed_call", "core_call", "composite", "checkpoint", "remat2"),
    *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call"),
)


def called(equation: Equation) -> ClosedProgram | None:
    """The program that an equation calls: of `jit`, a custom derivative or `checkpoint`."""
    if equation.primitive.name not in _CALLS:
        return None
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr", "call")
    programs = (closed(equation.params.get(name)) for name in names)
    return next(filter(None, programs), None)


def function_of(program: ClosedProgram) -> Callable[..., list[Array]]:
    """The function that a program is of."""
    function: Callable[..., list[Array]] = jaxpr_as_fun(program)
    return function


def scan_of(jaxpr: Any, **params: Any) -> tuple[ClosedProgram, int, int]:
    """The step of a scan, and the numbers of its constants and of its carries."""
    step = closed(jaxpr)
    assert step is not None
    if "ft_in" in params:  # JAX 0.12 and newer have it
        constants, carries, _ = (len(group) for group in params["ft_in"].unpack())
        return step, constants, carries
    return step, params["num_consts"], params["num_carry"]


def expand(*args: Array, _prim: Any) -> Any:
    """Computes a primitive that is made of others, from JAX 0.12."""
    return _prim.expand(*args)


@functools.cache
def primitives() -> dict[str, Primitive]:
    """JAX's primitives, by name."""
    named = [x for module in (named_primitives, jax.lax) for x in vars(module).values()]
    return {x.name: x for x in named if isinstance(x, Primitive)}


def outputs_of(equation: JaxprEqn) -> list[tuple[np.dtype, tuple[int, ...]]]:
    """The dtypes and the shapes of an equation's outputs."""
    avals: Any = (var.aval for var in equation.outvars)
    return [(aval.dtype, tuple(aval.shape)) for aval in avals]


def user_position(equation: JaxprEqn) -> str:
    """The line of the user's code that an equation comes from, as "model.py:12 (layer)", or ""."""
    frames = _user_frames(equation)
    lines = [(frame.file_name, frame.start_line, frame.function_name) for frame in frames]
    return _first_outside(lines)


def user_call(equation: JaxprEqn) -> str:
    """The function of dmlax that the user's code called for an equation, or ""."""
    frames = _user_frames(equation)
    inside = [*itertools.takewhile(lambda frame: frame.file_name.startswith(_PACKAGE), frames)]
    names = [frame.function_name for frame in inside if not frame.function_name.endswith("call")]
    return names[-1] if names and len(inside) < len(frames) else ""


def _user_frames(equation: JaxprEqn) -> list[Any]:
    """The calls that made an equation, the innermost first; none if JAX hides them."""
    (user_frames,) = private("jax._src.source_info_util", "user_frames") or (lambda traceback: (),)
    return [*user_frames(equation.source_info.traceback)]


def user_line(error: Exception) -> str:
    """The innermost line of the user's code in the traceback of an error."""
    steps = traceback.walk_tb(error.__traceback__)
    lines = [(f.f_code.co_filename, line, f.f_code.co_name) for f, line in steps]
    return _first_outside(line for line in reversed(lines) if not line[0].startswith(_JAX))


def untraceable(
    operator: str, problem: str, error: Exception, remedy: str = ""
) -> UnsupportedError:
    """The error of a function that JAX does not trace, which names the user's line."""
    reason = str(error).strip().splitlines()[0]
    text = f"{operator}: function {problem} at {user_line(error)}: {reason}{remedy}"
    return UnsupportedError(text, "option", "function")


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
    names = platforms(context)
    for platform, sentence in refusals:
        if platform in names:
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


def _lower_hide_constant(context: Context, x: Value) -> Any:
    def select(x: Array) -> Array:  # a barrier for `x` would end a fusion; a scalar's does not
        true = jax.lax.optimization_barrier(jnp.bool_(True))
        return jax.lax.select(true, x, jnp.zeros_like(x))

    aval: Any = context.avals_in[0]
    is_flat = sum(size != 1 for size in aval.shape) < 2
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


def with_nan(x: Array, is_nan: Array) -> Array:
    """Returns `x`, and NaN where a mask of its shape is true; an ONNX file holds `x` alone."""
    return cast(Array, _with_nan.bind(x, is_nan))


def _put_nan(x: Array, is_nan: Array) -> Array:
    return jnp.where(is_nan, x.dtype.type(np.nan), x)


_with_nan = Primitive("dmlax_with_nan")
_with_nan.def_impl(_put_nan)
_with_nan.def_abstract_eval(lambda x, is_nan: x)
batching.defbroadcasting(_with_nan)
mlir.register_lowering(_with_nan, mlir.lower_fun(_put_nan, multiple_results=False))


# True while a program is lowered that keeps its kernels, although it is exported.
keeps_kernels = contextvars.ContextVar("dmlaxkeeps_kernels", default=False)
_KERNEL_TARGETS = dict[str, None]()  # the targets of XLA's calls, an ordered set


def register_kernel(name: str, address: Any) -> None:
    """Registers the handler of a call on CPUs."""
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
    _KERNEL_TARGETS[name] = None


@functools.cache
def warn_without_autotuning() -> None:
    """Warns once if a flag is set with which XLA multiplies int8 matrices wrongly on a GPU."""
    flag = "--xla_gpu_autotune_level=0"
    if flag in os.environ.get("XLA_FLAGS", "").split():
        warnings.warn(
            f"XLA_FLAGS has {flag}, with which JAX 0.11.2 multiplied int8 matrices wrongly on a "
            "GPU: leave it out, or run mosaic_gpu",
            RuntimeWarning,
            stacklevel=2,
        )


def load_gpu_runtime() -> None:
    """Loads the library that kernels of Mosaic GPU call; lowering such a kernel loads it, too."""
    importlib.import_module("jax.experimental.mosaic.gpu")


def export_kernels(
    function: Callable[..., Any], platform: str, *args: Any, **kwargs: Any
) -> jax.export.Exported:
    """Exports a program of one platform with the kernels that it runs there."""
    checks = map(jax.export.DisabledSafetyCheck.custom_call, _KERNEL_TARGETS)
    kept = keeps_kernels.set(True)
    try:  # a new function: JAX keeps what it lowered of the same one
        program = jax.jit(lambda *args, **kwargs: function(*args, **kwargs))
        export = jax.export.export(program, platforms=[platform], disabled_checks=tuple(checks))
        return export(*args, **kwargs)
    finally:
        keeps_kernels.reset(kept)


def platforms(context: Context) -> Sequence[str]:
    """The platforms that a program is lowered for."""
    names: Sequence[str] = context.platforms or context.module_context.platforms
    return names


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
