"""explain: what a call, every call of a function, or this machine would run."""

import dataclasses
import functools
import importlib.metadata
import itertools
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import jax
import jax.export

from dmlax._core import dispatch, float_chains, labels, splitting
from dmlax._core.arguments import Rules
from dmlax._core.keywords import expect_call
from dmlax._cpu import library
from dmlax._cuda import capability
from dmlax._operators.convolution.prepare import prepare_filter
from dmlax._operators.registry import OPERATORS, OperatorRow

_Args = tuple[Any, ...]
_Kwargs = dict[str, Any]
_Call = tuple[Callable[..., Any], _Args, _Kwargs]
_KERNEL = re.compile(r'(?:custom_call_target="|custom_call @)(dmlax_\w+|mosaic_gpu_v2)\b')
_COLLECTIVE = re.compile(
    r"= (?P<shape>[^\s{]+)\S* "
    r"(?P<name>all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\((?P<rest>.*)"
)


@dataclass(frozen=True)
class ProgramExplanation:
    """Every operator's call in a program, in order; printed, a table and the reasons below it.

    `devices` says which kernels the devices of a mesh run and what they exchange, or which kernels
    an export calls. `chains` names the results in bytes that the program computes through floats or
    wider integers, although an operator of dmlax computes them from bytes.
    """

    calls: tuple[dispatch.Explanation, ...]
    devices: tuple[str, ...] = ()
    chains: tuple[str, ...] = ()

    def __str__(self) -> str:
        last = [*self.devices, *self.chains]
        if not self.calls:
            none = [] if self.devices else ["no operator of dmlax is called"]
            return "\n".join([*none, *last])
        numbered = list(enumerate(self.calls, 1))
        rows: list[tuple[str, ...]] = [("", "operator", "call", *dispatch.PLATFORMS, "layer")]
        rows += [
            (str(i), call.operator, call.call, *_chosen(call), call.layer) for i, call in numbered
        ]
        if not any(call.layer for call in self.calls):
            rows = [row[:-1] for row in rows]
        sentences = ((i, line) for i, call in numbered for line in _sentences(call))
        return "\n".join([*table(rows), "", *_by_sentence(sentences), *last])


@dataclass(frozen=True)
class MachineExplanation:
    """The implementations that this machine has; printed, a line for each fact.

    Attributes:
      versions: of dmlax and of the packages that it uses, by name; None if one is not installed.
      instruction_sets: of the C++ kernels, the one in use first; empty if there are no kernels.
      devices: JAX's devices, as text.
      why_not: the reason for which an implementation cannot run here, by its name.
    """

    versions: dict[str, str | None]
    instruction_sets: tuple[str, ...]
    devices: tuple[str, ...]
    why_not: dict[str, str]

    def __str__(self) -> str:
        installed = (f"{name} {version}" for name, version in self.versions.items() if version)
        missing = [name for name, version in self.versions.items() if not version]
        lines = [", ".join(installed), f"devices: {', '.join(self.devices)}"]
        if missing:
            lines.append(f"not installed: {', '.join(missing)}")
        if self.instruction_sets:
            used, *others = self.instruction_sets
            also = f"; DMLAX_NATIVE_ISA can choose {', '.join(others)}" if others else ""
            lines.append(f"native_cpu: runs {used}{also}")
        lines += [f"{name}: cannot run: {why}" for name, why in self.why_not.items()]
        lines += [f"{name}: runs" for name in ("mosaic_gpu", "xla") if name not in self.why_not]
        return "\n".join(lines)


_PACKAGES = ("dmlax", "jax", "jaxlib", "numpy", "onnx", "onnxruntime")


def _explain_machine() -> MachineExplanation:
    versions: dict[str, str | None] = {"Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    used = library.instruction_set()
    others = (name for name in library.instruction_sets() if name != used)
    kinds = Counter(x.device_kind for x in jax.devices())
    reasons = {"native_cpu": library.why_not("cpu"), "mosaic_gpu": capability.why_not("cuda")}
    return MachineExplanation(
        versions,
        (used, *others) if used else (),
        tuple(f"{count} {kind}" for kind, count in kinds.items()),
        {name: why for name, why in reasons.items() if why},
    )


@overload
def explain() -> MachineExplanation: ...
@overload
def explain(
    function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> dispatch.Explanation | ProgramExplanation: ...
def explain(
    function: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any
) -> dispatch.Explanation | ProgramExplanation | MachineExplanation:
    """Explains which implementation of an operator would run where, and why the others would not.

    Nothing is computed. The call is checked, not run; a function of yours is traced. Of a gradient,
    as `jax.grad(f)`, it also says at which calls the gradient is zero. If an argument lies on
    several devices the program is compiled for them, and the explanation names the kernels of every
    device and the arrays that devices exchange in a call. `python -m dmlax` prints the explanation
    of the machine.

    Args:
      function: an operator of dmlax, `prepare_filter`, or a function that calls any of them;
        also as a `functools.partial` or jitted. Or a `jax.export.Exported`, without arguments.
        Default: this machine, its versions, instruction sets and devices.
      *args: its arguments; a `jax.ShapeDtypeStruct` may stand for any array.
      **kwargs: its options.

    Returns:
      An `Explanation` of an operator: print it, or read its `choices` and `notes`. Of another
      function a `ProgramExplanation`: print its table, or read its `calls`. Without a function a
      `MachineExplanation`.

    Raises:
      SpecError: a call breaks a rule; or `function` cannot be called (code `option`).
      UnsupportedError: the named implementation does not exist for this operator.

    Example:
      >>> import dmlax, jax, jax.numpy as jnp
      >>> x = jax.ShapeDtypeStruct((2, 3), jnp.int8)
      >>> print(dmlax.explain(dmlax.nonzero_coordinates, x).choices[-1])
      tpu: xla
        not native_cpu: it runs on cpu only
        not mosaic_gpu: it is for NVIDIA GPUs of compute capability 8.0 or newer
        not reference: slow; it runs only when named
    """
    if function is None and not args and not kwargs:
        return _explain_machine()
    if isinstance(function, jax.export.Exported):
        return ProgramExplanation((), tuple(_of_export(function)))
    if not callable(function):
        Rules("explain").fail("option", "function", "is not a function")
    inner, positional, options = _unwrap(function, args, kwargs)
    for row in OPERATORS:
        if inner is row.function:
            explanation = _explain_operator(row, positional, options)
            notes = (*explanation.notes, *_on_devices(function, args, kwargs))
            return dataclasses.replace(explanation, notes=notes)
    if inner is prepare_filter:
        filter, *rest = positional
        return _explain_program(inner, (_struct(filter), *rest), options).calls[0]
    return _explain_program(function, args, kwargs)


def _unwrap(function: Callable[..., Any], args: _Args, kwargs: _Kwargs) -> _Call:
    """The function in partials and `jax.jit`, with the arguments that it gets."""
    if isinstance(function, functools.partial):
        return _unwrap(function.func, (*function.args, *args), {**function.keywords, **kwargs})
    if isinstance(function, jax.stages.Wrapped):
        return _unwrap(function.__wrapped__, args, kwargs)  # type: ignore[attr-defined]
    return function, args, kwargs


def _explain_operator(row: OperatorRow, args: _Args, kwargs: _Kwargs) -> dispatch.Explanation:
    """Plans the call and traces no lowering."""
    expect_call(row.function, args, kwargs)
    options = dict(kwargs)
    implementation = options.pop("implementation", "auto")
    plans: list[dispatch.Plan] = []
    call, structs = _with_structs(row.operator.plan, args, options)
    jax.eval_shape(lambda *arrays: plans.append(call(*arrays)[0]), *structs)
    return row.operator.explain(plans[0], implementation)


def _explain_program(
    function: Callable[..., Any], args: _Args, kwargs: _Kwargs
) -> ProgramExplanation:
    call, structs = _with_structs(function, args, kwargs)
    program = jax.make_jaxpr(call)(*structs).jaxpr
    calls = tuple(itertools.starmap(_explain_call, labels.labels_of_layers(program)))
    devices = tuple(_on_devices(function, args, kwargs))
    parts = {row.name: row.chain for row in OPERATORS if row.chain}
    return ProgramExplanation(calls, devices, tuple(float_chains.float_chains(program, parts)))


def _on_devices(function: Callable[..., Any], args: _Args, kwargs: _Kwargs) -> Iterator[str]:
    """The kernels of a program for the devices of its arguments, if they are several."""
    call, arrays = _with_structs(function, args, kwargs, (jax.Array, jax.ShapeDtypeStruct))
    shardings = (getattr(array, "sharding", None) for array in arrays)
    count = max((len(sharding.device_set) for sharding in shardings if sharding), default=1)
    if count == 1:
        return
    text = jax.jit(call).lower(*arrays).compile().as_text() or ""
    yield f"{count} devices: each runs {_kernels(text)} on its part"
    if why := splitting.why_not():
        yield f"{count} devices: {why}"
    exchanged = Counter(map(_exchange, _COLLECTIVE.finditer(text)))
    for sentence, times in exchanged.items():
        yield f"{count} devices: every call has {times} {sentence}"
    if not exchanged:
        yield f"{count} devices: they exchange nothing"


def _exchange(collective: re.Match[str]) -> str:
    """A collective and the operation that needs it."""
    name = re.search(r'op_name="([^"]*)"', collective["rest"])
    return f"{collective['name']} to {collective['shape']}" + (f", for {name[1]}" if name else "")


def _of_export(exported: jax.export.Exported) -> Iterator[str]:
    """The kernels of an exported program."""
    yield f"export for {', '.join(exported.platforms)}: it calls {_kernels(exported.mlir_module())}"


def _kernels(text: str) -> str:
    """The kernels in the text of a program, with their numbers."""
    counts = Counter(_KERNEL.findall(text)).items()
    return ", ".join(f"{name} ({count})" for name, count in counts) or "xla and no kernel"


def _explain_call(layer: str, call: Any) -> dispatch.Explanation:
    """Explains a call or a packing in a program, and says if a gradient ends there."""
    explanation: dispatch.Explanation = dataclasses.replace(call.explain(), layer=layer)
    if not (isinstance(call, dispatch.Call) and call.loses_gradient):
        return explanation
    twin = next(row.training for row in OPERATORS if row.name == explanation.operator)
    remedy = f": train with dmlax.training.{twin}" if twin else ""
    note = f"its gradient is zero, because its output is integer{remedy}"
    return dataclasses.replace(explanation, notes=(*explanation.notes, note))


def _with_structs(
    function: Callable[..., Any],
    args: _Args,
    kwargs: _Kwargs,
    kinds: tuple[type, ...] = (jax.ShapeDtypeStruct,),
) -> tuple[Callable[..., Any], list[Any]]:
    """A function of the leaves of some kinds, structs by default; all else keeps its value."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, kinds)]

    def call(*arrays: Any) -> Any:
        filled = dict(zip(places, arrays, strict=True))
        args, kwargs = jax.tree.unflatten(
            tree, [filled.get(i, leaf) for i, leaf in enumerate(leaves)]
        )
        return function(*args, **kwargs)

    return call, [leaves[i] for i in places]


def _struct(array: Any) -> Any:
    """Replaces an array by its shape and dtype, so that none is packed."""
    is_array = hasattr(array, "shape") and hasattr(array, "dtype")
    return jax.ShapeDtypeStruct(array.shape, array.dtype) if is_array else array


def _chosen(call: dispatch.Explanation) -> list[str]:
    return [choice.implementation or "nothing" for choice in call.choices]


def _sentences(call: dispatch.Explanation) -> Iterable[str]:
    """The reasons against faster implementations of a platform, and the notes of a call."""
    for choice in call.choices:
        for name, why in choice.why_not.items():
            if dispatch.is_faster(name, choice.implementation, choice.platform):
                yield f"{choice.platform}: not {name}: {why}"
    yield from call.notes


def _by_sentence(numbered: Iterable[tuple[int, str]]) -> list[str]:
    """Every sentence once, after the calls that it is about."""
    calls: dict[str, list[int]] = {}
    for number, sentence in numbered:
        calls.setdefault(sentence, []).append(number)
    return [f"{_ranges(numbers)}: {sentence}" for sentence, numbers in calls.items()]


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as "1 to 4, 7"."""
    neighbours = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    runs = ([number for _, number in run] for _, run in neighbours)
    return ", ".join(f"{r[0]} to {r[-1]}" if len(r) > 2 else str(r)[1:-1] for r in runs)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
