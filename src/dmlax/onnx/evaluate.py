"""Computes a graph node by node: known values on the host, others in JAX."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dmlax._core import compat
from dmlax._core.requantize import Arithmetic
from dmlax._fused.exact_floats.call import exact_function
from dmlax.errors import SpecError, UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import GIVEN, Graph, Node, operator_name
from dmlax.onnx.operators import Context, find, float64, sizes, why_not, wide
from dmlax.onnx.operators.functions import ELEMENT_WISE
from dmlax.onnx.operators.nonzero import Counted
from dmlax.onnx.operators.values import (
    DTYPES,
    FloatSizes,
    NotKnown,
    expect_memory,
    expect_simple_sizes,
    is_known,
    to_device,
    undecided,
)
from dmlax.onnx.weights import PACKED_PLACES, PLACES

Values: TypeAlias = Mapping[str, Any]
"""Tensors by name: known or of JAX, packed params, None for an absent one."""


@dataclass(frozen=True)
class Options:
    """The options of a model that operators read, as `load` describes them."""

    arithmetic: Arithmetic
    nonzero_size: int | Mapping[str, int] | None = field(default=None, hash=False)
    operators: Mapping[str, Callable[..., Any]] = field(default_factory=dict, hash=False)

    def of(self, node: Node) -> Context:
        """The keywords that a node's operator may ask for."""
        size = self.nonzero_size
        if isinstance(size, Mapping):
            size = size.get(node.name)
        outputs = len(node.outputs), bool(node.outputs[0])
        return Context(self.arithmetic, node.version, size, *outputs)


class Watch:
    """Observes the computation of a graph; this one ignores everything."""

    def fail(self, node: Node, error: Exception, operands: Sequence[Any], guess: bool) -> Values:
        """Observes an error of a node, some operand of which may be a guess; guesses outputs."""
        return {}

    def skip(self, node: Node) -> None:
        """Observes a node whose operands could not be computed."""

    def end(self, graph: Graph, values: Values) -> None:
        """Observes the tensors of a graph or a subgraph."""


class NotComputedError(Exception):
    """An output of a subgraph is missing; the watch knows why."""


@dataclass(frozen=True)
class Runner:
    """Computes graphs, and the subgraphs of a node."""

    options: Options
    watch: Watch | None = None  # observes errors, which are raised without it
    guess: bool = False  # True if an operand of the node is a guess
    is_strict: bool = False  # True if errors are raised though there is a watch

    def evaluate(
        self,
        graph: Graph,
        values: Values,
        guesses: set[str] | None = None,
        ranges: wide.Ranges | None = None,
    ) -> dict[str, Any]:
        """Computes every tensor of a graph.

        Args:
          graph: pruned to the outputs that are asked for.
          values: the inputs and the params by name, without the graph's constants.
          guesses: the names of values that are guesses.
          ranges: gets the ranges of the tensors that have 64 bits in the file.
        """
        tensors: dict[str, Any] = {"": None, **graph.constants, **values}
        dtypes = {name: x.dtype for name, x in graph.inputs.items()}
        guesses = set() if guesses is None else guesses
        ranges = {} if ranges is None else ranges
        ranges.update(wide.of_inputs(dtypes, values))
        for node in graph.nodes:
            if any(name not in tensors for name in node.inputs):
                assert self.watch is not None  # without one every node is computed
                self.watch.skip(node)
                continue
            operands = [tensors[name] for name in node.inputs]
            is_guess = not guesses.isdisjoint(node.inputs)
            try:
                outputs = call(node, operands, replace(self, guess=is_guess), ranges)
                _expect_outputs(node, outputs, graph)
                tensors |= _named(node, outputs)
            except Exception as error:
                if self.watch is None or self.is_strict:
                    raise with_node(node, error) from error
                tensors |= self.watch.fail(node, error, operands, is_guess)
                is_guess = True
            if is_guess:
                guesses.update(node.outputs)
        if self.watch is not None:
            self.watch.end(graph, tensors)
        return tensors

    def run(self, graph: Graph, operands: Sequence[Any]) -> list[Any]:
        """Computes the outputs of a subgraph."""
        values, ranges = dict(zip(graph.parameters, operands, strict=True)), dict[str, wide.Range]()
        tensors = self.evaluate(graph, values, {*values} if self.guess else set(), ranges)
        if any(name not in tensors for name in graph.outputs):
            raise NotComputedError
        if any(count_name(name) in tensors for node in graph.nodes for name in node.outputs):
            raise UnsupportedError("a subgraph has rows that are counted, and cannot return counts")
        outputs = ((tensors[name], ranges.get(name)) for name in graph.outputs)
        return [x if is_known(x) else wide.widen(x, range_) for x, range_ in outputs]

    def known(self, graph: Graph, operands: Sequence[Any]) -> list[Any]:
        """Computes the outputs that depend on known operands alone; None for others."""
        pairs = zip(graph.parameters, operands, strict=True)
        values = {name: value for name, value in pairs if is_known(value)}
        tensors = Runner(self.options, Watch()).evaluate(graph, values)
        outputs = [tensors.get(name) for name in graph.outputs]
        return [x if is_known(x) else None for x in outputs]

    def strict(self) -> "Runner":
        """A runner that raises errors, as of a computation that another one replaces then."""
        return replace(self, is_strict=True)


def call(node: Node, operands: list[Any], runner: Runner, ranges: wide.Ranges) -> tuple[Any, ...]:
    """Computes the outputs of one node, and adds their ranges."""
    if reason := why_not(node):
        raise UnsupportedError(reason)
    operands, mark_float64 = float64.unwrap(node, operands)
    operands = [_take(node, i, operand) for i, operand in enumerate(operands)]
    if node.domain == GIVEN:
        outputs = _call_given(node, operands, runner.options)
    else:
        row = find(node)
        assert row is not None
        context = runner.options.of(node)._replace(runner=runner)
        options_of_node = {**node.attributes, **context._asdict()}
        keywords = {name: x for name, x in options_of_node.items() if name in row.attributes}
        with jax.named_scope(node.op):
            function: Callable[..., Any] = functools.partial(row.function, **keywords)
            if runner.options.arithmetic == "exact" and not (node.graphs or _is_move(node)):
                function = exact_function(function)
            outputs = _compute(node, function, operands, ranges)
    outputs = mark_float64(outputs if isinstance(outputs, tuple) else (outputs,))
    for output in outputs:
        expect_simple_sizes(output)
    return outputs


def _is_move(node: Node) -> bool:
    """True for an operator that computes nothing."""
    return node.op in _MOVES and not node.domain


def _compute(
    node: Node, function: Callable[..., Any], operands: Sequence[Any], ranges: wide.Ranges
) -> Any:
    """Calls the function of a node, at once if all operands are known."""
    row = find(node)
    roles = [row.role(i) if row else "known" for i in range(len(operands))]
    moved = [i for i, x in enumerate(operands) if x is not None and roles[i] == "tensor"]
    if sizes.has_sizes(operands) and not node.graphs:
        compute = functools.partial(_compute_known, node, function, moved)
        if (found := sizes.compute(node, operands, compute)) is not None:
            return found
        is_moved = node.op not in _BY_METHODS
        numbers = [to_device(x) if i in moved and is_moved else x for i, x in enumerate(operands)]
        return wide.compute(node, function, numbers, ranges)
    is_known_all = all(x is None or is_known(x) for x in operands)
    if is_known_all and moved and not node.graphs:
        return _compute_known(node, function, moved, operands)
    return wide.compute(node, function, operands, ranges)


_BY_METHODS = {"Dropout", "Flatten", "Identity", "Reshape", "Shape", "Size", "Slice", "Split"}
_BY_METHODS |= {"Squeeze", "Transpose"}
_MOVES = {*_BY_METHODS}
_BY_METHODS |= {"Erf", "NonZero"}  # ONNX Runtime's bits; as many rows as there are
_ROW = 1 << 12  # elements: element-wise functions of fewer compile once for all shapes
_FEW = 1 << 16  # elements; the shapes of more are found before they are made


def _compute_known(
    node: Node, function: Callable[..., Any], moved: Sequence[int], operands: Sequence[Any]
) -> Any:
    """Calls the device's function on a CPU at once, with 64 bits; returns arrays of NumPy."""
    if node.op in _BY_METHODS and not node.domain:
        return function(*operands)
    shape = _shape_of_few(node, moved, operands)
    copies = [operands[i] for i in moved]
    given = copies if shape is None else [_in_row(x, shape) for x in copies]

    def compute() -> Any:
        values = dict(zip(moved, map(jnp.asarray, given), strict=True))
        return function(*(values.get(i, x) for i, x in enumerate(operands)))

    count = math.prod(max(x.size, 1) for i in moved if (x := operands[i]) is not None)
    has_sizes = len(moved) < len([x for x in operands if x is not None])
    with jax.enable_x64(True):
        if is_large := has_sizes or count > _FEW:
            expect_memory(np.uint8, max(_bytes(copies), _bytes(jax.eval_shape(compute))))
        with compat.on_cpu_at_once():
            outputs = jax.tree.map(np.asarray, compute())
    if shape is not None:
        outputs = outputs[: math.prod(shape)].reshape(shape).copy()
    if not is_large:
        expect_memory(np.uint8, max(_bytes(copies), _bytes(outputs)))
    return outputs


def _shape_of_few(
    node: Node, moved: Sequence[int], operands: Sequence[Any]
) -> tuple[int, ...] | None:
    """The shape of a function's few elements, each of which it computes alone; None for others."""
    present = [x for x in operands if x is not None]
    if node.domain or node.op not in ELEMENT_WISE or len(moved) < len(present):
        return None
    try:
        shape = np.broadcast_shapes(*(x.shape for x in present))
    except ValueError:  # the function says so
        return None
    return shape if 0 < math.prod(shape) <= _ROW else None


def _in_row(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of a broadcast tensor, repeated to a row of one length for all shapes."""
    return np.resize(np.broadcast_to(x, shape), _ROW)


def _bytes(values: Any) -> int:
    """The bytes of arrays; sizes of 0 and below count as 1, as in `expect_memory`."""
    pairs = ((math.prod(max(n, 1) for n in x.shape), x.dtype) for x in jax.tree.leaves(values))
    return sum(count * np.dtype(dtype).itemsize for count, dtype in pairs)


def _expect_outputs(node: Node, outputs: tuple[Any, ...], graph: Graph) -> None:
    """Refuses a node that does not compute an output which the graph reads."""
    for place, name in enumerate(node.outputs[len(outputs) :], len(outputs)):
        if name in graph.read:
            raise UnsupportedError(f"its output {place + 1} is not computed")


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
        op = name if node.domain else f"::{name}"  # no pass knows this name
        return node.replace(op=op, domain=GIVEN) if name in operators else node

    return graph.map_graphs(lambda graph: graph.replace(nodes=tuple(map(give, graph.nodes))))


def _take(node: Node, index: int, operand: object) -> object:
    """Checks that an operand is known if it has to be; unpacks a packed one."""
    if operand is None or index >= len(node.operands):
        return operand
    if isinstance(operand, FloatSizes) and node.op != "Range":
        operand = to_device(operand)
    row = find(node)
    if row is not None and row.role(index) in ("known", "size") and not is_known(operand):
        name = row.inputs[min(index, len(row.inputs) - 1)].name
        raise NotKnown(f"its {name}, {node.inputs[index]!r}, depends on values of an input")
    stays_packed = node.op in PLACES or index == PACKED_PLACES.get(node.op)
    stays_packed = stays_packed or (row is not None and row.prepare is not None)
    return operand.unpack() if hasattr(operand, "unpack") and not stays_packed else operand


def _named(node: Node, outputs: tuple[Any, ...]) -> dict[str, Any]:
    """The outputs by name, and the counts of their rows."""
    named: dict[str, Any] = {}
    for name, result in zip(node.outputs, outputs, strict=False):
        if name and isinstance(result, Counted):
            named |= {count_name(name): result.count, name: result.rows}
        elif name:
            named[name] = result
    return named


def count_name(output: str) -> str:
    """The name of the count of an output whose rows depend on values."""
    return f"{output}.count"


def with_node(node: Node, error: Exception) -> Exception:
    """The error with the node's name. An error of Python means a malformed model."""
    error = undecided(error) or error
    text = f"{node}: {error}"
    if isinstance(error, SpecError | UnsupportedError):
        kind = SpecError if isinstance(error, SpecError) else UnsupportedError
        return kind(text, error.code, error.field)
    if isinstance(error, NotImplementedError):
        return UnsupportedError(text)
    if isinstance(error, ModelError):
        return ModelError(text)
    if isinstance(error, _TRACED):
        return UnsupportedError(f"{node}: a value of which a shape depends is one of an input")
    if isinstance(error, jax.errors.InconclusiveDimensionOperation):
        return UnsupportedError(f"{node}: JAX cannot compute with its sizes: {_describe(error)}")
    return ModelError(f"{node}: {_describe(error)}")


_TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def _describe(error: Exception) -> str:
    """An error's class and the first line of its text."""
    line = str(error).partition("\n")[0][:300]
    return type(error).__name__ + (f": {line}" if line else "")


def split_constants(graph: Graph) -> tuple[Graph, dict[str, np.ndarray]]:
    """Takes the tensors that operators compute with out of the constants: the params.

    Scales, zero points, single values and all of which shapes depend stay constants.
    """
    of_shapes = _of_shapes(graph)
    roles: dict[str, set[str]] = {}
    for node in graph.nodes:
        row = find(node)
        for index, name in enumerate(node.inputs):
            if name in graph.constants:
                is_tensor = node.domain == GIVEN or index >= len(node.operands)
                role = row.role(index) if row and not is_tensor else "parameter"
                roles.setdefault(name, set()).add("tensor" if is_tensor else role)
    params = {
        name: array
        for name, array in graph.constants.items()
        if array.size > 1
        and array.dtype in _PARAM_DTYPES
        and roles.get(name) == {"tensor"}
        and name not in of_shapes
    }
    rest = {name: array for name, array in graph.constants.items() if name not in params}
    return graph.replace(constants=rest), params


def _of_shapes(graph: Graph) -> set[str]:
    """The tensors that are known while a program is traced, and of which its shapes depend."""
    of_inputs, needed = {*graph.inputs, *graph.parameters}, set[str]()
    for node in graph.nodes:
        if node.op not in _SIZES and not of_inputs.isdisjoint(node.inputs):
            of_inputs.update(node.outputs)
    for node in reversed(graph.nodes):
        row, is_needed = find(node), not needed.isdisjoint(node.outputs)
        for i, name in enumerate(node.inputs if node.op not in _SIZES else ()):
            is_known = (
                row is not None and i < len(node.operands) and row.role(i) in ("known", "size")
            )
            if name not in of_inputs and (is_needed or is_known):
                needed.add(name)
    return needed


_SIZES = ("Shape", "Size", "SHAPE", "RANK")  # operators of ONNX and of LiteRT
_PARAM_DTYPES = {*DTYPES.values()} - {np.dtype(name) for name in ("bool", "int64", "uint64", "f8")}
