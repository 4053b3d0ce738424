"""Computes a graph node by node: on the host what is known, else in JAX."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.errors import SpecError, UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import GIVEN, Graph, Node, operator_name
from dmlax.onnx.operators import Context, find, why_not
from dmlax.onnx.operators.nonzero import Counted
from dmlax.onnx.operators.values import (
    DTYPES,
    FloatSizes,
    expect_simple_sizes,
    is_known,
    to_device,
    undecided,
)
from dmlax.onnx.weights import PACKED_PLACES, PLACES

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Options:
    """The options of a model that operators read.

    Attributes:
      arithmetic: "exact" or "float32".
      nonzero_size: the rows of every output that depends on values, or of each by node's name.
      operators: functions for operators, by their names in `operator_name`.
    """

    arithmetic: Arithmetic
    nonzero_size: int | Mapping[str, int] | None = field(default=None, hash=False)
    operators: Mapping[str, Callable[..., Any]] = field(default_factory=dict, hash=False)

    def of(self, node: Node) -> Context:
        """The keywords that a node's operator may ask for."""
        size = self.nonzero_size
        if isinstance(size, Mapping):
            size = size.get(node.name)
        return Context(self.arithmetic, size, len(node.outputs), bool(node.outputs[0]))


class Watch:
    """Takes what happens while a graph is computed; this one keeps nothing."""

    def fail(self, node: Node, error: Exception, operands: Sequence[Any], guess: bool) -> Values:
        """Takes what a node raises; returns guesses of its outputs, of which others are computed.

        Args:
          node: the one that failed.
          error: as it was raised.
          operands: the node's.
          guess: True if an operand is a guess.
        """
        return {}

    def skip(self, node: Node) -> None:
        """Takes a node whose operands could not be computed."""

    def end(self, graph: Graph, values: Values) -> None:
        """Takes every tensor of a graph or a subgraph."""


class NotComputedError(Exception):
    """An output of a subgraph is missing; the watch knows why."""


@dataclass(frozen=True)
class Runner:
    """Computes the subgraphs of a node.

    Attributes:
      watch: that of the graph around.
      guess: True if an operand of the node is a guess.
    """

    options: Options
    watch: Watch | None = None
    guess: bool = False

    def run(self, graph: Graph, operands: Sequence[Any]) -> list[Any]:
        """Computes the outputs of a subgraph."""
        values = dict(zip(graph.parameters, operands, strict=True))
        guesses = {*values} if self.guess else set()
        found = evaluate(graph, values, self.options, self.watch, guesses)
        if any(name not in found for name in graph.outputs):
            raise NotComputedError
        if any(count_name(name) in found for node in graph.nodes for name in node.outputs):
            raise UnsupportedError("a subgraph has rows that are counted, and cannot return counts")
        return [found[name] for name in graph.outputs]

    def known(self, graph: Graph, operands: Sequence[Any]) -> list[Any]:
        """Computes the outputs that depend on known operands alone; None for others."""
        pairs = zip(graph.parameters, operands, strict=True)
        values = {name: value for name, value in pairs if is_known(value)}
        found = evaluate(graph, values, self.options, Watch())
        outputs = [found.get(name) for name in graph.outputs]
        return [x if is_known(x) else None for x in outputs]

    def strict(self) -> "Runner":
        """A runner that raises what its watch would take."""
        return self if self.watch is None else replace(self, watch=_Strict(self.watch))


class _Strict(Watch):
    """A watch of a computation that another one replaces where it fails."""

    def __init__(self, watch: Watch) -> None:
        self.end = watch.end  # type: ignore[method-assign]

    def fail(self, node: Node, error: Exception, operands: Sequence[Any], guess: bool) -> Values:
        """Raises the error."""
        raise with_node(node, error) from error


def evaluate(
    graph: Graph,
    values: Values,
    options: Options,
    watch: Watch | None = None,
    guesses: set[str] | None = None,
) -> dict[str, Any]:
    """Computes every tensor of a graph.

    Args:
      graph: pruned to the outputs that are asked for.
      values: the inputs and the params by name; the graph's constants need not be repeated.
      options: those of the model.
      watch: takes what nodes raise. Without it the error is raised, with the node's name.
      guesses: the names of values that are guesses.
    """
    found: dict[str, Any] = {"": None, **graph.constants, **values}
    guesses = set() if guesses is None else guesses
    for node in graph.nodes:
        if any(name not in found for name in node.inputs):
            assert watch is not None  # nothing is left out without one
            watch.skip(node)
            continue
        operands = [found[name] for name in node.inputs]
        is_guess = not guesses.isdisjoint(node.inputs)
        try:
            outputs = call(node, operands, options, Runner(options, watch, is_guess))
        except Exception as error:
            if watch is None:
                raise with_node(node, error) from error
            found.update(watch.fail(node, error, operands, is_guess))
            guesses.update(node.outputs)
            continue
        found.update(_named(node, outputs))
        if is_guess:
            guesses.update(node.outputs)
    if watch is not None:
        watch.end(graph, found)
    return found


def call(
    node: Node, operands: list[Any], options: Options, runner: Runner | None = None
) -> tuple[Any, ...]:
    """Computes the outputs of one node."""
    if reason := why_not(node):
        raise UnsupportedError(reason)
    operands = [_take(node, i, operand) for i, operand in enumerate(operands)]
    if node.domain == GIVEN:
        outputs = _call_given(node, operands, options)
    else:
        row = find(node)
        assert row is not None
        context = options.of(node)._replace(runner=runner or Runner(options))
        given = {**node.attributes, **context._asdict()}
        keywords = {name: given[name] for name in row.attributes if name in given}
        with jax.named_scope(node.op):
            outputs = row.function(*operands, **keywords)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for output in outputs:
        expect_simple_sizes(output)
    if any(node.outputs[len(outputs) :]):
        raise UnsupportedError(f"its output {len(outputs) + 1} is not computed")
    return outputs


def _call_given(node: Node, operands: list[Any], options: Options) -> tuple[Any, ...]:
    """Computes a node by the function that a caller of `load` gives for its operator."""
    function = options.operators[node.type]
    if node.graphs:
        raise UnsupportedError("it has a subgraph, which no function of operators takes")
    try:
        with jax.named_scope(node.op):
            outputs = function(*operands, **node.attributes)
        outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        return tuple(x if hasattr(x, "shape") else np.asarray(x) for x in outputs)
    except Exception as error:
        text = f"the function that operators gives for it raises {_describe(error)}"
        raise UnsupportedError(text, "option", "operators") from error


def give_operators(graph: Graph, operators: Mapping[str, Any]) -> Graph:
    """Marks the nodes that functions of a caller compute, so that nothing fuses with them."""

    def give(node: Node) -> Node:
        name = operator_name(node.domain, node.op)
        op = name if node.domain else f"::{name}"  # which no pass knows
        return node.replace(op=op, domain=GIVEN) if name in operators else node

    return graph.map_nodes(give) if operators else graph


def _take(node: Node, index: int, operand: Any) -> Any:
    """Checks that an operand is known where it has to be; unpacks a prepared one."""
    if operand is None or index >= len(node.inputs) - len(node.captures):
        return operand
    if isinstance(operand, FloatSizes) and node.op != "Range":
        operand = to_device(operand)
    row = find(node)
    if row is not None and row.role(index) == "known" and not is_known(operand):
        name = row.inputs[min(index, len(row.inputs) - 1)].name
        raise UnsupportedError(f"its {name}, {node.inputs[index]!r}, depends on values of an input")
    stays = node.op in PLACES or index == PACKED_PLACES.get(node.op)
    if hasattr(operand, "unpack") and not stays:
        return operand.unpack()
    return operand


def _named(node: Node, outputs: tuple[Any, ...]) -> Iterable[tuple[str, Any]]:
    for name, result in zip(node.outputs, outputs, strict=False):
        if not name:
            continue
        if isinstance(result, Counted):
            yield count_name(name), result.count
            result = result.rows
        yield name, result


def count_name(output: str) -> str:
    """The name of the count of an output whose rows depend on values."""
    return f"{output}.count"


def with_node(node: Node, error: Exception) -> Exception:
    """The error with the node's name; anything else than ours is of a malformed model."""
    error = undecided(error) or error
    text = f"{node}: {error}"
    if isinstance(error, SpecError):
        return SpecError(text, error.code, error.field)
    if isinstance(error, UnsupportedError):
        return UnsupportedError(text, error.code, error.field)
    if isinstance(error, NotImplementedError):
        return UnsupportedError(text)
    if isinstance(error, ModelError):
        return ModelError(text)
    if isinstance(error, _TRACED):
        return UnsupportedError(f"{node}: a value of which a shape depends is one of an input")
    if isinstance(error, jax.errors.InconclusiveDimensionOperation):
        return UnsupportedError(
            f"{node}: it compares symbolic sizes: give input_shapes static ones"
        )
    return ModelError(f"{node}: {_describe(error)}")


_TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def _describe(error: Exception) -> str:
    """An error's class and the begin of its text."""
    first = str(error).partition("\n")[0][:300]
    return type(error).__name__ + (f": {first}" if first else "")


def split_constants(graph: Graph) -> tuple[Graph, dict[str, np.ndarray]]:
    """Takes the tensors that operators compute with out of the constants: the params.

    Scales, zero points, integers of which shapes depend and single values stay constants.
    """
    roles: dict[str, set[str]] = {}
    for node in graph.nodes:
        row = find(node)
        captures = len(node.inputs) - len(node.captures)
        for index, name in enumerate(node.inputs):
            if name in graph.constants:
                is_tensor = node.domain == GIVEN or index >= captures
                role = row.role(index) if row and not is_tensor else "parameter"
                roles.setdefault(name, set()).add("tensor" if is_tensor else role)
    params = {
        name: array
        for name, array in graph.constants.items()
        if array.size > 1 and array.dtype in _PARAM_DTYPES and roles.get(name) == {"tensor"}
    }
    rest = {name: array for name, array in graph.constants.items() if name not in params}
    return graph.replace(constants=rest), params


_PARAM_DTYPES = {*DTYPES.values()} - {np.dtype(name) for name in ("bool", "int64", "uint64", "f8")}
