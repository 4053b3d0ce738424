"""Labels: the calls of operators that a program says it makes."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from dmlax._core.compat import ClosedProgram, Equation, Program

_LAYER = "layer "
_Outputs = TypeVar("_Outputs")  # a pytree of arrays


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


def labels(program: Program) -> Iterator[Any]:
    """Every `call` that `label` left in a program, in its order."""
    return (call for _, call in labels_of_layers(program))


def layer(name: str) -> AbstractContextManager[None]:
    """A scope of a program: what is called in it is part of a layer."""
    return jax.named_scope(_LAYER + name)


def labels_of_layers(program: Program, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every `call`, with the name of its layer, or ""."""
    for equation in program.eqns:
        scopes = (getattr(x, "name", "") for x in equation.source_info.name_stack.stack)
        found = (x.removeprefix(_LAYER) for x in scopes if x.startswith(_LAYER))
        inside = next(found, name)
        if equation.primitive is _label:
            yield inside, equation.params["call"]
        for inner in programs(equation):
            yield from labels_of_layers(inner, inside)


def programs(equation: Equation) -> Iterator[Program]:
    """The programs among an equation's parameters."""
    for value in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr):
        if _is_jaxpr(value):
            yield value.jaxpr if isinstance(value, ClosedProgram) else value


def _is_jaxpr(value: object) -> bool:
    return isinstance(value, Program | ClosedProgram)


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
