"""explain: the implementations that a call, or every call of a function, would run."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from dmlax._convolution.prepare import prepare_filter
from dmlax._core import compat, dispatch
from dmlax._core.arguments import Rules
from dmlax._core.keywords import expect_call
from dmlax._operators import OPERATORS, OperatorRow

_Args = tuple[Any, ...]
_Kwargs = dict[str, Any]
_Call = tuple[Callable[..., Any], _Args, _Kwargs]


@dataclass(frozen=True)
class ProgramExplanation:
    """Every operator's call in a program, in order; printed, a table and the reasons below it."""

    calls: tuple[dispatch.Explanation, ...]

    def __str__(self) -> str:
        if not self.calls:
            return "no operator of dmlax is called"
        numbered = [(str(i), call) for i, call in enumerate(self.calls, 1)]
        rows: list[tuple[str, ...]] = [("", "operator", "call", *dispatch.PLATFORMS)]
        rows += [(i, call.operator, call.call, *_chosen(call)) for i, call in numbered]
        sentences = ((i, line) for i, call in numbered for line in _sentences(call))
        return "\n".join([*_table(rows), "", *_by_sentence(sentences)])


def explain(
    function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> dispatch.Explanation | ProgramExplanation:
    """Explains which implementation of an operator would run where, and why the others would not.

    Nothing is computed. The call is checked, not run; a function of yours is traced.

    Args:
      function: an operator of dmlax, `prepare_filter`, or a function that calls any of them;
        also as a `functools.partial` or jitted.
      *args: its arguments; a `jax.ShapeDtypeStruct` may stand for any array.
      **kwargs: its options.

    Returns:
      An `Explanation` of an operator: print it, or read its `choices` and `notes`. Of another
      function a `ProgramExplanation`: print its table, or read its `calls`.

    Raises:
      SpecError: a call breaks a rule; or `function` cannot be called (code `option`).
      UnsupportedError: the named implementation does not exist for this operator.

    Example:
      >>> import dmlax, jax, jax.numpy as jnp
      >>> x = jax.ShapeDtypeStruct((2, 3), jnp.int8)
      >>> print(dmlax.explain(dmlax.nonzero_coordinates, x).choices[-1])
      tpu: xla
        not native_cpu: it runs on cpu only
        not mosaic_gpu: it is for NVIDIA GPUs of compute capability 9.0
        not reference: slow; it runs only when named
    """
    Rules("explain").expect(callable(function), "option", "function", "is not a function")
    inner, positional, options = _unwrap(function, args, kwargs)
    for row in OPERATORS:
        if inner is row.function:
            return _explain_operator(row, positional, options)
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
    return ProgramExplanation(tuple(label.explain() for label in compat.labels(call, *structs)))


def _with_structs(
    function: Callable[..., Any], args: _Args, kwargs: _Kwargs
) -> tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]:
    """A function of the arrays that structs stand for; all else keeps its value."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.ShapeDtypeStruct)]

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
    """The reasons and the notes of a call."""
    for choice in call.choices:
        for name, why in choice.why_not.items():
            yield f"{choice.platform}: not {name}: {why}"
    yield from call.notes


def _by_sentence(numbered: Iterable[tuple[str, str]]) -> list[str]:
    """Every sentence once, after the calls that it is about."""
    calls: dict[str, list[str]] = {}
    for number, sentence in numbered:
        calls.setdefault(sentence, []).append(number)
    return [f"{', '.join(numbers)}: {sentence}" for sentence, numbers in calls.items()]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
