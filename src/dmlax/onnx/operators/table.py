"""The table of operators: a function for each type and form, and what its signature says."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
from jax import Array

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.graph import GIVEN, Node
from dmlax.onnx.operators.declined import DECLINED

Role = Literal["tensor", "parameter", "known"]
Tensor = Array | np.ndarray
"""An operand; a constant of the file is one of the model's params."""
Parameter = Annotated[Tensor, "parameter"]
"""A scale, a zero point or an index; a constant of the file stays one in the program."""
Known = Annotated[np.ndarray, "known"]
"""Values of which shapes depend: they are known while a program is traced."""


@dataclass(frozen=True)
class OperatorRow:
    """One form of an operator.

    Attributes:
      function: takes the inputs as positional arguments and the attributes as keywords; returns an
        output, or a tuple of them.
      versions: the opsets in which the forms that it computes began.
    """

    op: str
    domain: str
    versions: tuple[int, ...]
    function: Callable[..., Any]

    @functools.cached_property
    def inputs(self) -> list[inspect.Parameter]:
        """The positional parameters."""
        parameters = inspect.signature(self.function).parameters.values()
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
        return [each for each in parameters if each.kind in kinds]

    @functools.cached_property
    def attributes(self) -> dict[str, inspect.Parameter]:
        """The keywords."""
        parameters = inspect.signature(self.function).parameters
        return {name: each for name, each in parameters.items() if each.kind == each.KEYWORD_ONLY}

    def role(self, index: int) -> Role:
        """The role of an input, the last one's for those of a variadic operator."""
        annotation = self.inputs[min(index, len(self.inputs) - 1)].annotation
        parts = (annotation, *get_args(annotation))  # of an optional one
        marks = (part.__metadata__[0] for part in parts if hasattr(part, "__metadata__"))
        return next(marks, "tensor")


class Context(NamedTuple):
    """The keywords that an operator may ask for beside its attributes."""

    arithmetic: Arithmetic
    nonzero_size: int | None
    output_count: int
    has_first_output: bool
    runner: Any = None  # of subgraphs


_ROWS: dict[tuple[str, str], list[OperatorRow]] = {}


def operator(op: str, *versions: int, domain: str = "") -> Callable[..., Any]:
    """Puts a function into the table, for the opsets in which its forms began."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        rows = _ROWS.setdefault((domain, op), [])
        rows.append(OperatorRow(op, domain, versions, function))
        return function

    return register


def find(node: Node) -> OperatorRow | None:
    """The row for a node, or None."""
    rows = _ROWS.get((node.domain, node.op), ())
    return next((row for row in rows if node.version in row.versions), None)


def rows() -> list[OperatorRow]:
    """Every row, by type."""
    return [row for key in sorted(_ROWS) for row in _ROWS[key]]


def why_not(node: Node) -> str | None:
    """The reason for which a node cannot be computed, or None; shapes are not looked at."""
    row = find(node)
    if row is not None:
        extra = sorted(set(node.attributes) - (set(row.attributes) - set(Context._fields)))
        if extra:
            return f"its attribute {extra[0]} is not known"
    return why_no_pass(node)


def why_no_pass(node: Node) -> str | None:
    """The reason for which no pass can read a node: operator, inputs or an attribute's type."""
    if node.domain == GIVEN:
        return None
    row = find(node)
    if row is None:
        known = _ROWS.get((node.domain, node.op))
        if known:
            return f"its form of opset {node.version} is not known"
        return "is not known" if node.domain else DECLINED.get(node.op, "is not known")
    required = [each for each in row.inputs if each.default is each.empty]
    variadic = row.inputs and row.inputs[-1].kind == inspect.Parameter.VAR_POSITIONAL
    least = len(required) - bool(variadic)
    most = None if variadic else len(row.inputs)
    given = len(node.inputs)
    if given < least or (most is not None and given > most):
        return f"it has {given} inputs, expected {least} to {most}"
    pairs = zip(row.inputs, node.inputs[: given - len(node.captures)], strict=False)
    needed = (each for each, name in pairs if not name and not _is_optional(each))
    absent = [each.name for each in needed if each in required]
    if absent:
        return f"its input {absent[0]} is absent"
    for name, value in node.attributes.items():
        parameter = row.attributes.get(name)
        if parameter is not None and not _is_of_type(value, parameter.annotation):
            return f"its attribute {name} is a {type(value).__name__}"
    return None


def _is_optional(parameter: inspect.Parameter) -> bool:
    """True for an input that may be None, though others follow it."""
    return type(None) in get_args(parameter.annotation)


def _is_of_type(value: Any, annotation: Any) -> bool:
    """True for a value of the type of a keyword."""
    if isinstance(annotation, UnionType):
        return any(_is_of_type(value, each) for each in get_args(annotation))
    if get_origin(annotation) is tuple:
        element, _ = get_args(annotation)
        return isinstance(value, tuple) and all(_is_of_type(each, element) for each in value)
    if annotation is float:
        return isinstance(value, int | float)
    return isinstance(value, annotation) if isinstance(annotation, type) else False
