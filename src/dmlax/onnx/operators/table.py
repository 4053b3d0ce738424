"""The table of operators: a function for every type and form, and what its signature says.

Inputs are positional parameters, and attributes are keyword-only. A parameter whose type is a
NamedTuple takes several: `Quantized` the three inputs of a quantized tensor, `Output` the two
parameters of a quantized output, and others the inputs or attributes that their fields name.
An input of the type `Array` is moved to the device before the function is called.
`Annotated[str, ("a", "b")]` is the type of an attribute that has one of two values.
"""

import functools
import inspect
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

import numpy as np
from jax import Array

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.graph import GIVEN, Graph, Node
from dmlax.onnx.operators.declined import DECLINED
from dmlax.onnx.operators.values import Tensor as Tensor
from dmlax.onnx.operators.values import to_device

Role = Literal["tensor", "parameter", "known", "size"]
Parameter = Annotated[Tensor, "parameter"]
"""A scale, a zero point or an index; a constant of the file stays one in the program."""
Known = Annotated[np.ndarray, "known"]
"""Values of which shapes depend: they are known while a program is traced."""
Size = Annotated[np.ndarray, "size"]
"""Values of which shapes depend, as `Known`; an input of the file may be one."""
Zero = Annotated[int, (0,)]
"""An option that no function computes."""
INTEGERS = tuple[int, ...]
"""The type of an attribute of several integers."""


class Quantized(NamedTuple):
    """The real numbers `(values - zero_point) * scale`: an input `x`, `x_scale`, `x_zero_point`."""

    values: Tensor
    scale: Parameter
    zero_point: Parameter | None = None


class Output(NamedTuple):
    """The parameters of a quantized output: two inputs `y_scale` and `y_zero_point`."""

    scale: Parameter
    zero_point: Parameter | None = None


_T = TypeVar("_T")
Prepare: TypeAlias = Callable[[Node, np.ndarray], Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])
ZeroOptional = Annotated[_T, "the zero point may be absent"]
"""A `Quantized` or an `Output` whose zero point a node may leave out."""


@dataclass(frozen=True)
class OperatorRow:
    """One form of an operator.

    Attributes:
      function: takes the inputs as positional arguments and the attributes as keywords; returns an
        output, or a tuple of them.
      versions: the opsets in which the forms that it computes began.
      ignores: attributes that do not change the outputs.
      prepare: packs the node's second input, constant weights; None leaves them as they are.
    """

    op: str
    domain: str
    versions: tuple[int, ...]
    function: Callable[..., Any]
    ignores: frozenset[str] = frozenset()
    prepare: Prepare | None = None

    @functools.cached_property
    def inputs(self) -> list[inspect.Parameter]:
        """The positional parameters."""
        return _inputs(self.function)

    @functools.cached_property
    def attributes(self) -> dict[str, inspect.Parameter]:
        """The keywords."""
        parameters = inspect.signature(self.function).parameters.values()
        return {x.name: x for x in parameters if x.kind == x.KEYWORD_ONLY}

    def role(self, index: int) -> Role:
        """The role of an input; the inputs of a variadic parameter share its role."""
        annotation = self.inputs[min(index, len(self.inputs) - 1)].annotation
        parts = (annotation, *get_args(annotation))  # an optional input's annotation has several
        marks = (part.__metadata__[0] for part in parts if hasattr(part, "__metadata__"))
        return next(marks, "tensor")


class Subgraphs(Protocol):
    """Computes the subgraphs of a node."""

    def run(self, graph: Graph, operands: Sequence[Tensor]) -> list[Tensor]:
        """Computes the outputs of a subgraph."""

    def known(self, graph: Graph, operands: Sequence[Tensor | None]) -> list[np.ndarray | None]:
        """Computes the outputs that depend on known operands alone; None for others."""

    def strict(self) -> "Subgraphs":
        """Returns one that raises every error at once."""


class Context(NamedTuple):
    """The keywords that an operator may ask for in addition to its attributes."""

    arithmetic: Arithmetic
    version: int
    nonzero_size: int | None
    output_count: int
    has_first_output: bool
    runner: Subgraphs | None = None


_ROWS: dict[tuple[str, str], list[OperatorRow]] = {}
_ROUNDED_ONCE = ("BatchNormalization", "Gelu", "HardSigmoid", "LRN", "LeakyRelu")
"""ONNX Runtime computes these operators of float16 in float32."""


def operator(
    op: str,
    *versions: int,
    domain: str = "",
    attributes: Mapping[str, Any] | None = None,
    ignores: Iterable[str] = (),
    prepare: Prepare | None = None,
) -> Callable[[_Function], _Function]:
    """Puts a function into the table, for the opsets in which its forms began.

    Args:
      op: the operator's type.
      versions: the opsets.
      domain: the operator's domain.
      attributes: the inputs that are attributes in these opsets, with the attributes' types, and
        the attributes that these opsets lack, with None.
      ignores: attributes that do not change the outputs.
      prepare: packs constant weights, as `OperatorRow` says.
    """

    def register(function: _Function) -> _Function:
        single = _on_device(flatten(function))
        single = _in_float32(single) if op in _ROUNDED_ONCE and not domain else single
        single = single if attributes is None else _by_attribute(single, attributes)
        row = OperatorRow(op, domain, versions, single, frozenset(ignores), prepare)
        _ROWS.setdefault((domain, op), []).append(row)
        return function

    return register


def _inputs(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [x for x in parameters if x.kind != x.KEYWORD_ONLY]


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that it computes narrow floats in float32, and rounds its output."""

    @functools.wraps(function)
    def call(x: Array, *operands: Tensor | None, **attributes: object) -> Any:
        if np.dtype(x.dtype).itemsize > 2:
            return function(x, *operands, **attributes)
        wide = (None if each is None else each.astype(np.float32) for each in (x, *operands))
        outputs = function(*wide, **attributes)
        if isinstance(outputs, tuple):
            return (outputs[0].astype(x.dtype), *outputs[1:])
        return outputs.astype(x.dtype)

    return call


def _on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that its inputs of the type `Array` are on the device."""
    moves = [x.annotation in (Array, Array | None) for x in _inputs(function)]
    if not any(moves):
        return function

    @functools.wraps(function)
    def call(*operands: Tensor | None, **attributes: object) -> Any:
        pairs = itertools.zip_longest(operands, moves[: len(operands)], fillvalue=moves[-1])
        return function(*(to_device(x) if is_moved else x for x, is_moved in pairs), **attributes)

    return call


def _by_attribute(function: Callable[..., Any], types: Mapping[str, Any]) -> Callable[..., Any]:
    """Wraps a function so that it takes some inputs, and no input after them, as attributes."""

    def call(x: Tensor, *operands: Tensor | None, **options: object) -> Any:
        arrays = {
            name: np.asarray(options.pop(name), x.dtype if types[name] is float else None)
            for name in types
            if options.get(name) is not None
        }
        return function(x, *operands, **arrays, **options)

    parameters = [*inspect.signature(function).parameters.values()]
    first = next(i for i, x in enumerate(parameters) if x.name in types)
    others = (x for x in parameters[first:] if x.kind == x.KEYWORD_ONLY and x.name not in types)
    moved = (
        x.replace(kind=x.KEYWORD_ONLY, annotation=types[x.name])
        for x in parameters
        if types.get(x.name)
    )
    signature = inspect.Signature([*parameters[:first], *others, *moved])
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def flatten(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that it takes single inputs and attributes instead of tuples."""
    parameters = inspect.signature(function).parameters.values()
    members = {parameter.name: [*_members(parameter)] for parameter in parameters}
    if not any(map(_tuple_type, parameters)):
        return function
    signature = inspect.Signature(_with_defaults([*itertools.chain(*members.values())]))

    def call(*operands: Tensor | None, **attributes: object) -> Any:
        bound = signature.bind(*operands, **attributes)
        bound.apply_defaults()
        arguments = inspect.BoundArguments(inspect.signature(function), OrderedDict())
        for parameter in parameters:
            values = [bound.arguments[member.name] for member in members[parameter.name]]
            kind = _tuple_type(parameter)
            if kind is None:
                arguments.arguments[parameter.name] = values[0]
            else:  # an optional tuple is absent where its first member is
                is_absent = _is_optional(parameter) and values[0] is None
                arguments.arguments[parameter.name] = None if is_absent else kind(*values)
        return function(*arguments.args, **arguments.kwargs)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _tuple_type(parameter: inspect.Parameter) -> type[tuple[Any, ...]] | None:
    """The NamedTuple that a parameter takes, None for one of another type."""
    annotation = parameter.annotation
    is_compound = get_origin(annotation) in (Annotated, UnionType)
    parts = get_args(annotation) if is_compound else (annotation,)
    return next((part for part in parts if hasattr(part, "_fields")), None)


def _members(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """The inputs or the attributes that a parameter takes."""
    kind = _tuple_type(parameter)
    if kind is None:
        yield parameter
        return
    for field in inspect.signature(kind).parameters.values():
        if kind not in (Quantized, Output):
            yield field.replace(kind=parameter.kind)
            continue
        name = parameter.name if field.name == "values" else f"{parameter.name}_{field.name}"
        annotation: Any = Tensor if field.name == "values" else Parameter
        is_zero_optional = get_origin(parameter.annotation) is Annotated
        if _is_optional(parameter) or (field.name == "zero_point" and is_zero_optional):
            annotation = annotation | None
        yield parameter.replace(name=name, annotation=annotation)


def _with_defaults(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Gives the default None to the optional inputs that no required input follows."""
    inputs = [x for x in parameters if x.kind == x.POSITIONAL_OR_KEYWORD]
    required = [i for i, parameter in enumerate(inputs) if not _is_optional(parameter)]
    last = max(required, default=-1)
    first = [x.replace(default=x.empty) for x in inputs[: last + 1]]
    others = [x.replace(default=None) for x in inputs[last + 1 :]]
    return [*first, *others, *parameters[len(inputs) :]]


def find(node: Node) -> OperatorRow | None:
    """The row for a node, or None."""
    rows = _ROWS.get((node.domain, node.op), ())
    return next((row for row in rows if node.version in row.versions), None)


def rows() -> list[OperatorRow]:
    """All rows, sorted by type."""
    return [row for key in sorted(_ROWS) for row in _ROWS[key]]


def why_not(node: Node) -> str | None:
    """The reason for which a node cannot be computed, whatever its shapes; or None."""
    row = find(node)
    if row is None:
        return why_no_pass(node)
    extra = sorted(
        set(node.attributes) - (set(row.attributes) - set(Context._fields)) - row.ignores
    )
    if extra:
        return f"its attribute {extra[0]} is not known"
    return why_no_pass(node) or _why_value(node, row)


def _why_value(node: Node, row: OperatorRow) -> str | None:
    """The reason for which the value of an attribute is not computed, or None."""
    for name in filter(row.attributes.__contains__, node.attributes):
        annotation, value = row.attributes[name].annotation, node.attributes[name]
        choices = [*annotation.__metadata__[0]] if get_origin(annotation) is Annotated else [value]
        if value not in choices:
            text = f"{name} is {value!r}, expected{' one of' if choices[1:] else ''}"
            return f"{text} {', '.join(map(str, choices))}"
    return None


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
    required = [x for x in row.inputs if x.default is x.empty]
    variadic = row.inputs and row.inputs[-1].kind == inspect.Parameter.VAR_POSITIONAL
    least, count = len(required) - bool(variadic), len(node.inputs)
    most = None if variadic else len(row.inputs)
    if count < least or (most is not None and count > most):
        return f"it has {count} inputs, expected {least} to {most}"
    pairs = zip(row.inputs, node.operands, strict=False)
    absent = [x.name for x, name in pairs if not name and x in required and not _is_optional(x)]
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
    if get_origin(annotation) is Annotated:
        return _is_of_type(value, get_args(annotation)[0])
    if isinstance(annotation, UnionType):
        return any(_is_of_type(value, part) for part in get_args(annotation))
    if get_origin(annotation) is tuple:
        element, _ = get_args(annotation)
        if not isinstance(value, tuple):
            return False
        # One part of each type, for a type without parameters: scales are many.
        parts = value if get_origin(element) else {type(part): part for part in value}.values()
        return all(_is_of_type(part, element) for part in parts)
    if annotation is float:
        return isinstance(value, int | float)
    return isinstance(value, annotation) if isinstance(annotation, type) else False
