"""Runs the equations of a JAX program on tensors of a graph, which writes their nodes."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from dmlax._core import compat
from dmlax._core.arguments import is_static
from dmlax.onnx.export.nodes import Node
from dmlax.onnx.export.operators import write_call
from dmlax.onnx.export.primitives import RULES, Site
from dmlax.onnx.export.writer import Form, Tensor, Unwritable, Writer, constant, is_writable

_Written = TypeVar("_Written")
_LABEL = "dmlax_label"  # holds a call of an operator
_WITH_NAN = "dmlax_with_nan"  # NaN is no number that integers stand for
_SAME = (
    *("copy", "copy_p", "device_put", "optimization_barrier", "sharding_constraint"),
    *("stop_gradient", _LABEL, "dmlax_refuse", "dmlax_hide_constant", "dmlax_opaque"),
    _WITH_NAN,
)
_NEVER_FOLDED = (  # effects, and moves of constants, which the writer makes itself
    *("call_hi_primitive", "debug", "io_call", "pure_call", "random_", _WITH_NAN),
    *("broadcast_in_dim", "dim_as_value", "reshape", "slice", "squeeze", "transpose"),
)

_CHOICE = "dmlax_choose"  # arithmetic of dmlax, which is folded for constants
_NO_CONSTANTS = "reads arguments of the function, expected constants: close over the weights"


class Interpreter(Writer):
    """Writes programs, and collects the equations that it cannot write.

    Attributes:
      problems: a line for every equation that cannot be written.
      needed: the oldest opset that has what they need, as far as it is known.
    """

    def __init__(self, form: Form, opset: int) -> None:
        super().__init__(form, opset)
        self.problems: list[str] = []
        self.needed = opset
        self._line = ""  # the line that called the program that is being written
        self._function = ""  # the function of dmlax that the user called there
        self._inside = False  # a rule

    def interpret(self, program: compat.ClosedProgram, inputs: Sequence[Tensor]) -> list[Tensor]:
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
        avals = compat.outputs_of(equation)
        if not equation.effects and all(_is_empty(shape) for _, shape in avals):
            return [constant(np.zeros(shape, dtype)) for dtype, shape in avals]
        try:
            return _fold(equation, inputs) or self._write(equation, inputs)
        except Unwritable as error:
            label = _label(equation)
            if self._inside and (isinstance(label, Node) or not compat.user_position(equation)):
                raise  # the rule is of an equation that says the line
            title = equation.primitive if label is None else label.operator.name
            title = self._function if equation.primitive.name == _CHOICE else title
            self.needed = max(self.needed, error.opset or 0)
            self.problems.append(f"{title} {error}, at {self._position(equation)}")
            return [Tensor(dtype, shape, shape, "unknown") for dtype, shape in avals]

    def _write(self, equation: compat.Equation, inputs: list[Tensor]) -> Sequence[Tensor]:
        name, params, avals = equation.primitive.name, equation.params, compat.outputs_of(equation)
        label = _label(equation)
        if isinstance(label, Node):
            given = jax.tree.unflatten(params["operands"], inputs)
            return self.outputs(label.op, given, avals, **label.attributes)
        if label is not None:
            return self._by_rule(lambda: write_call(self, params, inputs))
        if name in _SAME:
            return inputs
        if (program := compat.called(equation)) is not None:
            before = self._line, self._function
            if name == "jit":
                self._line = self._position(equation)
            self._function = compat.user_call(equation) or self._function
            outputs = self.interpret(program, inputs)
            self._line, self._function = before
            return outputs
        if name not in RULES:
            raise Unwritable(_NO_CONSTANTS if name == _CHOICE else "is not supported")
        dtypes = (*(x.dtype for x in inputs), *(dtype for dtype, _ in avals))
        if odd := [dtype for dtype in dtypes if not is_writable(dtype)]:
            raise Unwritable(f"of {odd[0]} is not supported")
        dtype, shape = avals[0]
        site = Site(self, params, shape, dtype)
        written = self._by_rule(lambda: RULES[name](site, *inputs))
        return written if isinstance(written, list) else [written]

    def _by_rule(self, write: Callable[[], _Written]) -> _Written:
        """Lets what a rule cannot write be said of its equation."""
        before, self._inside = self._inside, True
        try:
            return write()
        finally:
            self._inside = before

    def _position(self, equation: compat.Equation) -> str:
        """The line of an equation; inside a program that JAX or dmlax wrote, the line of its call.

        A program is traced once, so lines of dmlax's operators would be those of a first call.
        """
        line = compat.user_position(equation) if _label(equation) is None else ""
        return line or self._line or "an unknown line"


def _needed(program: compat.Program) -> list[compat.Equation]:
    """The equations that outputs or effects need, in order."""
    live = _variables(program.outvars)
    needed = []
    for equation in reversed(program.eqns):
        if equation.effects or not live.isdisjoint(equation.outvars):
            needed.append(equation)
            live |= _variables(_operands(equation))
    return needed[::-1]


def _variables(atoms: Sequence[Any]) -> set[Any]:
    """The atoms that equations write; literals have values."""
    return {atom for atom in atoms if not hasattr(atom, "val")}


def _label(equation: compat.Equation) -> Any:
    """The call or the node that an equation labels, or None."""
    is_label = equation.primitive.name == _LABEL and equation.params["operands"].num_leaves > 0
    return equation.params["call"] if is_label else None


def _operands(equation: compat.Equation) -> Sequence[Any]:
    """A label stands for a call: it needs the operands, not the outputs of the lowering."""
    if equation.primitive.name == _WITH_NAN:
        return equation.invars[:1]
    count = 0 if _label(equation) is None else len(equation.outvars)
    return equation.invars[count:]


def _fold(equation: compat.Equation, inputs: Sequence[Tensor]) -> list[Tensor] | None:
    """Computes an equation of constants."""
    arrays, params, label = [x.values for x in inputs], equation.params, _label(equation)
    shapes = [shape for _, shape in compat.outputs_of(equation)]
    static = all(map(is_static, shapes)) and not equation.effects
    never = equation.primitive.name.startswith(_NEVER_FOLDED) or isinstance(label, Node)
    never = never or compat.called(equation) is not None or bool(params.get("maps"))
    if never or not static or any(array is None for array in arrays):
        return None
    if label is not None:
        operands = jax.tree.unflatten(params["operands"], arrays)
        return list(map(constant, jax.tree.leaves(label.operator.call(label.plan, operands))))
    with jax.ensure_compile_time_eval():
        outputs = equation.primitive.bind(*arrays, **params)
    return list(map(constant, outputs if equation.primitive.multiple_results else [outputs]))


def _is_empty(shape: Sequence[Any]) -> bool:
    """True for an array of no elements, whatever its dynamic sizes are."""
    return any(isinstance(size, int) and size == 0 for size in shape)
