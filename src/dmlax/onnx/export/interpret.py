"""Runs the equations of a JAX program on tensors of a graph, which writes their nodes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from dmlax._core import compat
from dmlax._core.arguments import is_static
from dmlax.onnx.export.operators import write_call
from dmlax.onnx.export.primitives import COMPOSED, RULES, Site, choose
from dmlax.onnx.export.writer import Form, Tensor, Unwritable, Writer, constant

_LABEL = "dmlax_label"  # holds a call of an operator
_SAME = (
    *("copy", "copy_p", "device_put", "optimization_barrier", "sharding_constraint"),
    *("stop_gradient", _LABEL, "dmlax_refuse", "dmlax_hide_constant", "dmlax_opaque"),
)
_CALLS = (
    *("jit", "closed_call", "core_call", "composite", "checkpoint", "remat2"),
    *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
)
_NEVER_FOLDED = ("broadcast_in_dim", "debug", "dim_as_value", "io_call", "pure_call", "random_")
_MOST_STEPS = 256  # of a scan, which is unrolled


class Interpreter:
    """Writes programs, and collects the equations that have no counterpart.

    Attributes:
      writer: the graph.
      problems: a line for every equation that cannot be written.
    """

    def __init__(self, form: Form, opset: int) -> None:
        self.writer = Writer(form, opset, self.run)
        self.problems: list[str] = []
        self._line = ""  # of the call of the program that is written

    def run(self, program: compat.ClosedProgram, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Writes the equations that the outputs need."""
        jaxpr, consts = program.jaxpr, map(constant, program.consts)
        env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True))

        def read(atom: Any) -> Tensor:
            return constant(atom.val, atom.aval.dtype) if hasattr(atom, "val") else env[atom]

        for equation in _needed(jaxpr):
            outputs = self._outputs(equation, list(map(read, _operands(equation))))
            env |= zip(equation.outvars, outputs, strict=True)
        return list(map(read, jaxpr.outvars))

    def _outputs(self, equation: compat.Equation, inputs: list[Tensor]) -> Sequence[Tensor]:
        try:
            return _fold(equation, inputs) or self._write(equation, inputs)
        except Unwritable as error:
            self.problems.append(f"{_title(equation)} {error}, at {self._position(equation)}")
            avals = compat.outputs_of(equation)
            return [Tensor(dtype, shape, shape, "unknown") for dtype, shape in avals]

    def _write(self, equation: compat.Equation, inputs: list[Tensor]) -> Sequence[Tensor]:
        name, params = equation.primitive.name, equation.params
        if _is_call(equation):
            return write_call(self.writer, params, inputs)
        if name in _SAME:
            return inputs
        if name in _CONTROL:
            return self.writer.run(_CONTROL[name](**params), *inputs)
        if (program := _called(equation)) is not None:
            before, self._line = self._line, self._call_line(equation)
            outputs = self.run(program, inputs)
            self._line = before
            return outputs
        if name in COMPOSED:
            return self.writer.run(lambda *xs: COMPOSED[name](params, *xs), *inputs)
        if name not in RULES:
            raise Unwritable("has no counterpart in ONNX")
        dtype, shape = compat.outputs_of(equation)[0]
        return RULES[name](Site(self.writer, params, shape, dtype), *inputs)

    def _call_line(self, equation: compat.Equation) -> str:
        return self._position(equation) if equation.primitive.name == "jit" else self._line

    def _position(self, equation: compat.Equation) -> str:
        """The line of an equation; inside a program that JAX or dmlax wrote, the line of its call.

        A program is traced once, so lines of dmlax's operators would be those of a first call.
        """
        line = "" if _is_call(equation) else compat.user_position(equation)
        return line or self._line or "an unknown line"


def _scan(*, length: int, reverse: bool, **params: Any) -> Callable[..., Any]:
    """A scan, unrolled."""
    program, num_consts, num_carry = compat.scan_of(**params)
    if not isinstance(length, int) or length > _MOST_STEPS:
        raise Unwritable(f"has {length} steps, and at most {_MOST_STEPS} are unrolled")

    def run(*args: jax.Array) -> list[jax.Array]:
        consts, carry = args[:num_consts], list(args[num_consts:][:num_carry])
        rows: list[Any] = [None] * length
        for step in reversed(range(length)) if reverse else range(length):
            xs = (x[step] for x in args[num_consts + num_carry :])
            outputs = compat.function_of(program)(*consts, *carry, *xs)
            carry, rows[step] = outputs[:num_carry], outputs[num_carry:]
        return [*carry, *map(jnp.stack, zip(*rows, strict=True))]

    return run


def _cond(*, branches: Sequence[Any], **_: object) -> Callable[..., Any]:
    """All branches, and the choice of one."""

    def run(index: jax.Array, *args: jax.Array) -> list[jax.Array]:
        results = (compat.function_of(branch)(*args) for branch in branches)
        return [choose(index, cases) for cases in zip(*results, strict=True)]

    return run


_CONTROL: dict[str, Callable[..., Callable[..., Any]]] = {"scan": _scan, "cond": _cond}


def _needed(program: compat.Program) -> list[compat.Equation]:
    """The equations that outputs or effects need, in order."""
    live = {id(atom) for atom in program.outvars}
    needed = []
    for equation in reversed(program.eqns):
        if equation.effects or live & {id(var) for var in equation.outvars}:
            needed.append(equation)
            live |= {id(atom) for atom in _operands(equation)}
    return needed[::-1]


def _is_call(equation: compat.Equation) -> bool:
    return equation.primitive.name == _LABEL and equation.params["operands"].num_leaves > 0


def _operands(equation: compat.Equation) -> Sequence[Any]:
    """A label stands for a call: it needs the operands, not the outputs of the lowering."""
    return equation.invars[len(equation.outvars) :] if _is_call(equation) else equation.invars


def _called(equation: compat.Equation) -> compat.ClosedProgram | None:
    """The program that an equation calls: of `jit`, a custom derivative or `checkpoint`."""
    if equation.primitive.name not in _CALLS:
        return None
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr")
    programs = (compat.closed(equation.params.get(name)) for name in names)
    return next(filter(None, programs), None)


def _fold(equation: compat.Equation, inputs: Sequence[Tensor]) -> list[Tensor] | None:
    """Computes an equation of constants."""
    arrays, params = [x.values for x in inputs], equation.params
    shapes = [shape for _, shape in compat.outputs_of(equation)]
    static = all(map(is_static, shapes)) and not equation.effects
    never = equation.primitive.name.startswith(_NEVER_FOLDED) or _called(equation)
    if never or not static or any(array is None for array in arrays) or params.get("maps"):
        return None
    if _is_call(equation):
        call, operands = params["call"], jax.tree.unflatten(params["operands"], arrays)
        return list(map(constant, jax.tree.leaves(call.operator.call(call.plan, operands))))
    with jax.ensure_compile_time_eval():
        outputs = equation.primitive.bind(*arrays, **params)
    return list(map(constant, outputs if equation.primitive.multiple_results else [outputs]))


def _title(equation: compat.Equation) -> str:
    """The name of an operator or a primitive."""
    return str(equation.params["call"].operator.name if _is_call(equation) else equation.primitive)
