"""explain: the implementations that a call, or every call of a function, would run."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from dmlax._convolution.prepare import prepare_filter
from dmlax._core import compat, dispatch
from dmlax._core.arguments import Rules
from dmlax._operators import OPERATORS


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
      >>> found = dmlax.explain(dmlax.nonzero_coordinates, jax.ShapeDtypeStruct((2, 3), jnp.int8))
      >>> print(found.choices[-1])
      tpu: xla
        not native_cpu: it runs on cpu only
        not mosaic_gpu: it is for NVIDIA GPUs of compute capability 9.0
        not reference: slow; it runs only when named
    """
    Rules("explain").expect(callable(function), "option", "function", "is not a function")
    own, positional, options = _unwrap(function, args, kwargs)
    if any(own is row.function for row in OPERATORS):
        return _explain_operator(own, positional, options)
    if own is prepare_filter:
        filter, *rest = positional
        return _explain_program(own, (_struct(filter), *rest), options).calls[0]
    return _explain_program(function, args, kwargs)


def _unwrap(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The function in partials and `jax.jit`, with the arguments that it gets."""
    if isinstance(function, functools.partial):
        return _unwrap(function.func, (*function.args, *args), {**function.keywords, **kwargs})
    if isinstance(function, jax.stages.Wrapped):
        return _unwrap(function.__wrapped__, args, kwargs)  # type: ignore[attr-defined]
    return function, args, kwargs


def _explain_operator(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dispatch.Explanation:
    """Plans the call and traces no lowering."""
    asked = dispatch.Explain(kwargs.get("implementation", "auto"))
    found: list[dispatch.Explanation] = []
    call, structs = _with_structs(function, args, {**kwargs, "implementation": asked})
    jax.eval_shape(lambda *arrays: found.append(call(*arrays)), *structs)
    return found[0]


def _explain_program(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> ProgramExplanation:
    call, structs = _with_structs(function, args, kwargs)
    return ProgramExplanation(tuple(each.explain() for each in compat.labels(call, *structs)))


def _with_structs(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]:
    """A function of the arrays that are given as structs; all else keeps its value."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.ShapeDtypeStruct)]

    def call(*arrays: Any) -> Any:
        filled = dict(zip(places, arrays, strict=True))
        given = [filled.get(i, leaf) for i, leaf in enumerate(leaves)]
        args, kwargs = jax.tree.unflatten(tree, given)
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
    """Each sentence once, after the calls that it is about."""
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
