"""Programs of other batch sizes, from those of two batch sizes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax.quantization.plan import Planner, Step
from dmlax.quantization.program import Equation, Program, trace

_MORE = 61  # rows that the second batch has more: a prime, as other sizes seldom grow by it


class _NoLaw(ValueError):
    """A size, or a parameter of an equation, that does not grow evenly with the batch."""


def batch_of(shapes: Iterable[Sequence[Any]]) -> Any:
    """The first axis of the first input that has one; None without."""
    return next((shape[0] for shape in shapes if shape), None)


def grown(shape: Sequence[Any], batch: Any, size: Any) -> tuple[Any, ...]:
    """The shape of an input whose first axis is the batch's, in a batch of another size."""
    return (size, *shape[1:]) if shape and shape[0] == batch else tuple(shape)


def larger(
    function: Callable[..., Any], params: Any, inputs: Sequence[Any], program: Program
) -> Program | None:
    """The program of a larger batch; None if it is not the same but for sizes."""
    batch = batch_of(map(jnp.shape, jax.tree.leaves(inputs)))
    if batch is None:
        return None
    structs = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(grown(jnp.shape(x), batch, batch + _MORE), x.dtype),
        jax.eval_shape(lambda x: x, list(inputs)),
    )
    try:
        found, _, _ = trace(function, params, structs)
        of_size(program, [], found, 0)
    except Exception:  # also what the user's function raises
        return None
    same = all(_same(program, found, x) for x in program.constants)
    same = same and _forms(program) == _forms(found)
    found.constants = {}
    return found if same else None


def _forms(program: Program) -> list[dict[str, Any]]:
    """The steps of a program without their equations."""
    return [vars(step) | {"equation": 0, "absorbed": 0} for step in Planner(program).steps()]


def _same(program: Program, other: Program, number: int) -> bool:
    """If a constant of two batch sizes is the same, or repeats itself along the batch."""
    if number in program.parameters:
        return True
    axes = _growing(program, other, number)
    if axes & (program.varying(number) | other.varying(number)):
        return False
    if program.paths[number]:
        return True
    first = [np.asarray(p.constants[number]) for p in (program, other)]
    cut = tuple(slice(1) if i in axes else slice(None) for i in range(first[0].ndim))
    return np.array_equal(first[0][cut], first[1][cut], equal_nan=first[0].dtype.kind == "f")


def _growing(program: Program, other: Program, number: int) -> set[int]:
    pairs = zip(program.shapes[number], other.shapes[number], strict=True)
    return {i for i, (a, b) in enumerate(pairs) if a != b}


def of_size(
    program: Program, steps: Sequence[Step], other: Program, more: Any
) -> tuple[Program, list[Step]]:
    """The program and its steps, of a batch that has `more` rows than the first program's."""

    def equations(before: Sequence[Equation], after: Sequence[Equation]) -> list[Equation]:
        pairs = zip(before, after, strict=True)
        return [
            a._replace(params=_sized(a.params, b.params, more)) for a, b in pairs if _alike(a, b)
        ]

    made = equations(program.equations, other.equations)
    by_place = {id(a): b for a, b in zip(program.equations, made, strict=True)}
    sized = replace(
        program,
        equations=made,
        preamble=equations(program.preamble, other.preamble),
        shapes=_sized(program.shapes, other.shapes, more),
    )
    of_step = {
        step: replace(
            step,
            equation=by_place[id(step.equation)],
            absorbed=[by_place[id(x)] for x in step.absorbed],
        )
        for step in steps
    }
    for step in of_step.values():
        step.fused = of_step[step.fused] if step.fused else None
    return sized, [*of_step.values()]


def _alike(a: Equation, b: Equation) -> bool:
    if a[:3] != b[:3]:
        raise _NoLaw(f"{a.name} at {a.line} is {b.name} in a larger batch")
    return True


def _sized(a: Any, b: Any, more: Any) -> Any:
    """A part of equations' parameters, from those of two batches."""
    if type(a) is not type(b):
        raise _NoLaw(f"{a} is {b} in a larger batch")
    if type(a) is int and a != b:
        slope, rest = divmod(b - a, _MORE)
        if rest:
            raise _NoLaw(f"{a} is {b} in a larger batch")
        return a + slope * more
    if isinstance(a, Mapping):
        return {name: _sized(a[name], b[name], more) for name in a}
    if isinstance(a, list | tuple):
        parts = [_sized(x, y, more) for x, y in zip(a, b, strict=True)]
        return a._make(parts) if hasattr(a, "_make") else type(a)(parts)
    if a is not b and repr(a) != repr(b):
        raise _NoLaw(f"{a} is {b} in a larger batch")
    return a


def constants_of_size(
    constants: Mapping[int, Array], shapes: Sequence[Sequence[Any]]
) -> dict[int, Array]:
    """Constants of another batch size: they repeat themselves along it."""
    found = {}
    for number, x in constants.items():
        cut = tuple(
            slice(None) if a == b else slice(1)
            for a, b in zip(x.shape, shapes[number], strict=True)
        )
        found[number] = (
            x if all(c == slice(None) for c in cut) else jnp.broadcast_to(x[cut], shapes[number])
        )
    return found
