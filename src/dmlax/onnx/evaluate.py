"""Computes a graph node by node: on the host what is known, else in JAX."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.errors import SpecError, UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import Graph, Node
from dmlax.onnx.operators import Context, OperatorRow, find, why_not
from dmlax.onnx.operators.nonzero import Counted
from dmlax.onnx.operators.values import DTYPES, expect_simple_sizes, is_known, undecided
from dmlax.onnx.weights import PACKED_PLACES, PLACES

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Options:
    """The options of a model that operators read.

    Attributes:
      arithmetic: "exact" or "float32".
      nonzero_size: the rows of every output that depends on values, or of each by node's name.
    """

    arithmetic: Arithmetic
    nonzero_size: int | Mapping[str, int] | None = field(default=None, hash=False)

    def of(self, node: Node) -> Context:
        """The keywords that a node's operator may ask for."""
        size = self.nonzero_size
        if isinstance(size, Mapping):
            size = size.get(node.name)
        return Context(self.arithmetic, size, len(node.outputs))


def evaluate(
    graph: Graph,
    values: Values,
    options: Options,
    on_error: Callable[[Node, Exception], None] | None = None,
) -> dict[str, Any]:
    """Computes every tensor of a graph.

    Args:
      graph: pruned to the outputs that are asked for.
      values: the inputs and the params by name; the graph's constants need not be repeated.
      options: those of the model.
      on_error: takes what a node raises; nodes that need its outputs are passed over. Without it
        the error is raised, with the node's name.
    """
    found: dict[str, Any] = {"": None, **graph.constants, **values}
    for node in graph.nodes:
        if any(name not in found for name in node.inputs):
            continue  # what it needs could not be computed
        try:
            outputs = call(node, [found[name] for name in node.inputs], options)
        except Exception as error:
            failure = with_node(node, error)
            if on_error is None:
                raise failure from error
            failure.__cause__ = error
            on_error(node, failure)
            continue
        found.update(_named(node, outputs))
    return found


def call(node: Node, operands: list[Any], options: Options) -> tuple[Any, ...]:
    """Computes the outputs of one node."""
    if reason := why_not(node):
        raise UnsupportedError(reason)
    row = find(node)
    assert row is not None
    operands = [_take(node, row, i, operand) for i, operand in enumerate(operands)]
    given = {**node.attributes, **options.of(node)._asdict()}
    keywords = {name: given[name] for name in row.attributes if name in given}
    with jax.named_scope(node.op):
        outputs = row.function(*operands, **keywords)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for output in outputs:
        expect_simple_sizes(output)
    if any(node.outputs[len(outputs) :]):
        raise UnsupportedError(f"its output {len(outputs) + 1} is not computed")
    return outputs


def _take(node: Node, row: OperatorRow, index: int, operand: Any) -> Any:
    """Checks that an operand is known where it has to be; unpacks a prepared one."""
    if operand is None:
        return None
    if row.role(index) == "known" and not is_known(operand):
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
    first = str(error).partition("\n")[0][:300]
    return ModelError(f"{node}: {type(error).__name__}" + (f": {first}" if first else ""))


def split_constants(graph: Graph) -> tuple[Graph, dict[str, np.ndarray]]:
    """Takes the tensors that operators compute with out of the constants: the params.

    Scales, zero points, integers of which shapes depend and single values stay constants.
    """
    roles: dict[str, set[str]] = {}
    for node in graph.nodes:
        row = find(node)
        for index, name in enumerate(node.inputs):
            if name in graph.constants:
                roles.setdefault(name, set()).add(row.role(index) if row else "parameter")
    params = {
        name: array
        for name, array in graph.constants.items()
        if array.size > 1 and array.dtype in _PARAM_DTYPES and roles.get(name) == {"tensor"}
    }
    rest = {name: array for name, array in graph.constants.items() if name not in params}
    return graph.replace(constants=rest), params


_PARAM_DTYPES = {*DTYPES.values()} - {np.dtype(name) for name in ("bool", "int64", "uint64", "f8")}
