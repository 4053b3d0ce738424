"""Chains of JAX's own functions between bytes that an operator of dmlax computes."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jax import lax

from dmlax._core import compat, labels
from dmlax._core.compat import ClosedProgram, Constant, Equation, Program
from dmlax._core.moves import MOVES

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_PARAMETER_FIRST = {"add", "mul", "max", "min"}  # the operations that commute
_ROUNDED = {"add", "sub", "max", "min", "clamp", "convert_element_type"}  # integers stay integers
_BY_ELEMENT = {*_ROUNDED, *MOVES, "mul", "div", "round"}
_OF_TWO = {"add": "sum", "mul": "product"}
_OF_WINDOWS = {
    "max": "max pool",
    "add": "average pool",
    "reduce_window_max": "max pool",
    "reduce_window_sum": "average pool",
}


class _Chain(NamedTuple):
    """The step that makes an array from bytes.

    `kind` is "bytes", "parameter" or the part of an operator.
    """

    kind: str
    is_rounded: bool = True
    producer: str = ""  # the part of the operator that returned the bytes


_Chains: TypeAlias = dict[Any, _Chain | None]  # by variable


def float_chains(program: Program, parts: Mapping[str, str]) -> list[str]:
    """A sentence for each kind, shape and operator of the chains in a program, in its order.

    `parts` has the part of each operator in such chains, by the operator's name.
    """
    found = Counter(_found(program, parts, {}))
    return [
        f"{sentence}{f' ({times} times)' if times > 1 else ''}" for sentence, times in found.items()
    ]


def _found(program: Program, parts: Mapping[str, str], chains: _Chains) -> Iterator[str]:
    """The sentences of a program, whose variables get their chains."""
    names = {part: name for name, part in parts.items()}
    for equation in program.eqns:
        before = [_chain_of(variable, chains) for variable in equation.invars]
        name = _operator(equation)
        called = None if name else compat.called(equation)
        if called is not None:
            inner = called.jaxpr
            inside: _Chains = dict(zip(inner.invars, before, strict=True))
            yield from _found(inner, parts, inside)
            after = [_chain_of(variable, inside) for variable in inner.outvars]
            chains.update(zip(equation.outvars, after, strict=True))
            continue
        for program_inside in () if name else labels.programs(equation):
            yield from _found(program_inside, parts, {})
        chain = _after_operator(parts.get(name), before) if name else _after(equation, before)
        for output in equation.outvars:
            aval: Any = output.aval
            if getattr(aval, "dtype", None) not in _BYTES:
                chains[output] = chain
                continue
            if chain is not None and chain.kind in names and chain.is_rounded:
                kind = chain.kind
                text = f"{aval.dtype}[{','.join(map(str, aval.shape))}]"
                yield f"{text}: {names[kind]} computes this {kind} from bytes"
            chains[output] = _Chain("bytes", producer=parts.get(name, ""))


def _chain_of(variable: Any, chains: _Chains) -> _Chain | None:
    """The chain of a variable; one that a program gets from outside is bytes, or a scale's."""
    if not isinstance(variable, Constant) and variable in chains:
        return chains[variable]
    shape = getattr(variable.aval, "shape", (2, 2))
    if shape and getattr(variable.aval, "dtype", None) in _BYTES:
        return _Chain("bytes")
    return _Chain("parameter") if sum(size != 1 for size in shape) <= 1 else None


def _operator(equation: Equation) -> str:
    """The name of the operator of dmlax that an equation calls, or ""."""
    name = str(equation.params.get("name", ""))
    calls = itertools.chain.from_iterable(map(labels.labels, labels.programs(equation)))
    return name if any(repr(call).startswith(f"{name}(") for call in calls) else ""


def _after_operator(part: str | None, before: Sequence[_Chain | None]) -> _Chain | None:
    first = before[0]
    if part == "quantization" and first is not None:
        return first._replace(is_rounded=True)
    return first if part == "dequantization" else None


def _after(equation: Equation, before: Sequence[_Chain | None]) -> _Chain | None:
    """The chain of an equation's result, or None."""
    name, params = equation.primitive.name, equation.params
    if not before or any(chain is None for chain in before):
        return None
    known = [chain for chain in before if chain is not None]
    several = [chain for chain in known if chain.kind != "parameter"]
    if not several:
        return _Chain("parameter")
    first = several[0]
    if len(several) == 2 and name in _OF_TWO:
        return _of_two(_OF_TWO[name], *several)
    if len(several) > 1:
        return None
    operand: Any = equation.invars[0].aval
    shape = operand.shape
    is_image = 3 <= len(shape) <= 5 and first.kind == "bytes"
    if name == "reduce_sum":
        is_mean = is_image and len(params["axes"]) == len(shape) - 2
        return first._replace(kind="mean") if is_mean else None
    if kind := _OF_WINDOWS.get(_windows_function(equation)):
        window = params["window_dimensions"]
        fits = window.count(1) >= 2 and set(params.get("base_dilation", (1,))) == {1}
        return first._replace(kind=kind) if is_image and fits else None
    if name not in _BY_ELEMENT or (known[0] is not first and name not in _PARAMETER_FIRST):
        return None if name != "clamp" else first
    if name == "round":
        is_even = params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN
        return first._replace(is_rounded=True) if is_even else None
    return first if name in _ROUNDED | MOVES else first._replace(is_rounded=False)


def _of_two(kind: str, a: _Chain, b: _Chain) -> _Chain | None:
    if (a.kind, b.kind) != ("bytes", "bytes"):
        return None
    if kind == "sum" and "convolution" in (a.producer, b.producer):
        kind = "sum with a convolution's result"
    return _Chain(kind, a.is_rounded and b.is_rounded)


def _windows_function(equation: Equation) -> str:
    """The name of the function of windows that an equation computes, or ""."""
    name: str = equation.primitive.name
    if name != "reduce_window":
        return name if name.startswith("reduce_window") else ""
    program = equation.params["jaxpr"]
    inner = program.jaxpr if isinstance(program, ClosedProgram) else program
    return inner.eqns[0].primitive.name if len(inner.eqns) == 1 else ""
