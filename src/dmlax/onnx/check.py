"""Traces every node of a graph once, and lists all that cannot be computed."""

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import Aval, aval_of
from dmlax.errors import SpecError, UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.evaluate import NotComputedError, Options, Runner, Values, Watch, with_node
from dmlax.onnx.graph import GIVEN, OWN, Graph, Node, operator_name
from dmlax.onnx.operators import find, why_not, wide
from dmlax.onnx.operators.values import (
    NEEDS_X64,
    Float64,
    NotKnown,
    has_x64,
    size_names,
    sizes_array,
    undecided,
    with_short_names,
)
from dmlax.onnx.protobuf import infer_types

Structs: TypeAlias = Mapping[str, jax.ShapeDtypeStruct]
Avals: TypeAlias = Mapping[str, Aval]
_OURS = (SpecError, UnsupportedError, ModelError)
MULTIPLE = 32  # a network halves a size five times
_SHOWN = 8  # names in a line
_MOST_TRIES = 12  # sizes that may fit a node
_MOST_FACTS = 8  # the time of every comparison grows with the facts
_LONGEST_FACT = 80  # characters, with short names; longer facts take JAX minutes


class Assumptions(NamedTuple):
    """Assumptions about symbolic sizes, so that nodes can be traced.

    A call knows its sizes, and an exported program checks them.
    """

    # Comparisons, as JAX's constraints are written. The newest is the first: JAX replaces a size by
    # an equal one in the constraints that follow, not in those before.
    facts: tuple[str, ...] = ()
    multiples: frozenset[str] = frozenset()  # the names of sizes that are multiples of 32


def check(
    graph: Graph,
    params: Structs,
    inputs: Callable[[Assumptions], Structs],
    options: Options,
    assumed: Assumptions,
) -> tuple[Graph, Assumptions]:
    """Traces every node; raises one error with all that cannot be computed.

    Args:
      graph: the graph to trace.
      params: its params.
      inputs: makes the inputs, with symbolic sizes as assumed.
      options: the model's options.
      assumed: the assumptions to begin with. Facts that nodes depend on are added. If these are
        many, the sizes that nodes depend on are assumed to be multiples.

    Returns:
      The graph with the dtype and the shape of every tensor, and the assumptions.
    """
    first, plain, trace = None, assumed, functools.partial(_trace, graph, params, options)
    while (watch := trace(inputs(assumed))).failures:
        known = (*sorted(watch.facts().difference(assumed.facts)), *assumed.facts)
        longest = max((len(with_short_names(fact)) for fact in known), default=0)
        is_costly = len(known) > _MOST_FACTS or longest > _LONGEST_FACT
        more = assumed._replace(facts=known)
        if more != assumed and not is_costly and _can_hold(inputs, more):
            assumed = more
            continue
        first, plain = (first or watch, plain) if assumed.multiples else (watch, assumed)
        multiples = watch.symbols()
        if assumed.multiples or not multiples:
            misfits = _blame_symbols(first, trace, inputs(Assumptions()))
            if not misfits or not (fitting := _fit(misfits[0], trace, inputs, plain)):
                raise _one_error(graph, first, plain)
            assumed = fitting
            continue
        assumed = Assumptions((), multiples)
    return _with_avals(graph, watch.avals), assumed


def _with_avals(graph: Graph, avals: Mapping[Graph, Avals]) -> Graph:
    """Adds the dtypes and shapes of tensors to a graph and its subgraphs."""
    described = graph.map_subgraphs(lambda subgraph: _with_avals(subgraph, avals))
    return described.replace(avals=avals.get(graph) or None)


def _can_hold(inputs: Callable[[Assumptions], Structs], assumed: Assumptions) -> bool:
    """False if JAX sees that no sizes are as assumed."""
    try:
        inputs(assumed)
    except ValueError:
        return False
    return True


class _Failure(NamedTuple):
    """A node that cannot be computed."""

    node: Node
    error: Exception
    is_ours: bool = True  # False for an exception of JAX or Python
    symbols: frozenset[str] = frozenset()  # the names of the operands' symbolic sizes
    fact: str | None = None  # a comparison that the node depends on; "" if an operand is a guess
    needs_value: bool = False  # True if the node needs a value that is not known
    equalities: tuple[str, ...] = ()  # facts with which the operands may fit each other


class _Watch(Watch):
    """Collects failures, and the shapes of all tensors."""

    def __init__(self, graph: Graph, inputs: Structs) -> None:
        self.failures = {
            node: _Failure(node, with_node(node, UnsupportedError(why)))
            for node in graph.run_nodes()
            if (why := why_not(node))
        }
        self.skipped: dict[Node, None] = {}  # an ordered set
        self.avals: dict[Graph, Avals] = {}
        self._graph, self.inputs = graph, inputs

    def fail(
        self, node: Node, error: Exception, operands: Sequence[Any], guess: bool
    ) -> dict[str, Any]:
        """Notes an error, unless a guess may have caused it."""
        if not isinstance(error, NotComputedError):
            is_ours = isinstance(error, _OURS) and not isinstance(error, NotKnown)
            sizes, symbols = undecided(error), _symbols(operands)
            if isinstance(error, NotKnown):  # perhaps of symbolic sizes
                symbols = symbols or _symbols([*self.inputs.values()])
            fact = "" if guess else None if sizes is None else sizes.fact
            needs_value = isinstance(error, NotKnown)
            error = with_node(node, error)
            equalities = () if needs_value else _equalities(node, operands)
            failure = _Failure(node, error, is_ours, symbols, fact, needs_value, equalities)
            if guess and isinstance(failure.error, ModelError):
                self.skipped[node] = None
            else:
                self.failures.setdefault(node, failure)
        return self._guess(node, operands)

    def _guess(self, node: Node, operands: Sequence[Any]) -> dict[str, Any]:
        """Values with the types that the file or ONNX's shape inference gives."""
        names, declared = [*filter(None, node.outputs)], self._graph.types
        types: dict[str, tuple[np.dtype, Sequence[int | str]]] = {
            name: (declared[name].dtype, declared[name].shape) for name in names if name in declared
        }
        if len(types) < len(names):
            types = {**infer_types(node, operands), **types}
        scope = _scope(self.inputs)
        try:
            return {name: _zeros(*types[name], scope) for name in names}
        except Exception:  # a type that is not known, or that JAX does not have
            return {}

    def skip(self, node: Node) -> None:
        """Notes a node that was not checked, and all in its subgraphs that are not known."""
        self.skipped[node] = None
        for inner in (node, *(x for graph in node.graphs.values() for x in graph.all_nodes())):
            if why := why_not(inner):
                error = with_node(inner, UnsupportedError(why))
                self.failures.setdefault(inner, _Failure(inner, error))

    def end(self, graph: Graph, values: Mapping[str, Any]) -> None:
        """Notes the shapes of a graph's tensors, none if they differ from an earlier trace's."""
        avals = {name: aval_of(x) for name, x in values.items() if hasattr(x, "shape")}
        if self.avals.setdefault(graph, avals) != avals:
            self.avals[graph] = {}

    def end_outputs(self, graph: Graph, values: Mapping[str, Any]) -> None:
        """Notes the nodes whose outputs JAX cannot return."""
        for name, node in graph.producers.items():
            if name in graph.outputs and isinstance(values[name], Float64):
                error = UnsupportedError(f"its output {name!r}: {NEEDS_X64}")
                self.fail(node, error, [], False)

    def facts(self) -> set[str]:
        """The facts that the failing nodes depend on; none if a node fails for another reason."""
        facts = [failure.fact for failure in self.failures.values()]
        return set() if None in facts else {fact for fact in facts if fact}

    def symbols(self) -> frozenset[str]:
        """The sizes that failing nodes depend on, batches aside; none if one depends on none."""
        failures = [failure for failure in self.failures.values() if failure.fact != ""]
        batches = (_names(str(x.shape[0])) for x in self.inputs.values() if x.shape)
        symbols = frozenset().union(*(failure.symbols for failure in failures))
        return symbols.difference(*batches) if all(x.symbols for x in failures) else frozenset()


def _trace(graph: Graph, params: Structs, options: Options, inputs: Structs) -> _Watch:
    watch, sizes = _Watch(graph, inputs), _symbolic_values(graph, inputs)

    def compute(params: Values, inputs: Values) -> list[Array]:
        tensors = Runner(options, watch).evaluate(graph, {**params, **inputs, **sizes})
        if not watch.failures:
            watch.end_outputs(graph, tensors)
        return [] if watch.failures else [wide.output(tensors[name]) for name in graph.outputs]

    jax.eval_shape(compute, params, inputs)
    return watch


def _scope(inputs: Structs) -> jax.export.SymbolicScope | None:
    """The scope of the inputs' symbolic sizes, None if all are static."""
    sizes = (size for x in inputs.values() for size in x.shape)
    return next((size.scope for size in sizes if hasattr(size, "scope")), None)


def size_inputs(graph: Graph) -> tuple[str, ...]:
    """The inputs whose values are sizes: `model(...)` makes a program for each value."""
    rows = ((node, find(node)) for node in graph.nodes)
    names = (
        name
        for node, row in rows
        for i, name in enumerate(node.operands)
        if row is not None and name in graph.inputs and row.role(i) == "size"
    )
    return tuple(dict.fromkeys(names))


def _symbolic_values(graph: Graph, inputs: Structs) -> dict[str, np.ndarray]:
    """A symbolic value for each input that is a size."""
    scope = _scope(inputs) or jax.export.SymbolicScope()
    names = {size for x in inputs.values() for text in x.shape for size in _names(str(text))}
    values = {}
    for i, name in enumerate(size_inputs(graph)):
        symbol = f"value{i}_" if f"value{i}" in names else f"value{i}"
        sizes: Any = jax.export.symbolic_shape(symbol, scope=scope)
        values[name] = np.reshape(sizes_array(sizes), inputs[name].shape)
    return values


def _symbols(operands: Sequence[Any]) -> frozenset[str]:
    """The names of the symbolic sizes of operands, and in known operands."""
    sizes = [size for x in operands for size in getattr(x, "shape", ())]
    for x in operands:
        if isinstance(x, np.ndarray) and x.dtype == object:
            sizes += list(x.ravel())
    texts = (str(size) for size in sizes if not isinstance(size, int | np.integer))
    return frozenset(name for text in texts for name in _names(text))


def _names(size: str) -> set[str]:
    return {*size_names(size)}


def _zeros(
    dtype: np.dtype, shape: Sequence[int | str], scope: jax.export.SymbolicScope | None
) -> Array:
    sizes = jax.export.symbolic_shape(",".join(map(str, shape)), scope=scope) if shape else ()
    return jnp.zeros(sizes, jax.dtypes.canonicalize_dtype(dtype))


def _equalities(node: Node, operands: Sequence[Any]) -> tuple[str, ...]:
    """The facts that two sizes of a node are equal, one of which is symbolic."""
    sizes = dict.fromkeys(size for x in operands for size in getattr(x, "shape", ()))
    numbers = [int(size) for size in sizes if isinstance(size, int | np.integer) and size > 1]
    symbols = [str(size) for size in sizes if not isinstance(size, int | np.integer)]
    counts = [x for x in node.attributes.values() if isinstance(x, int) and x > 1]
    numbers += [*counts, *(number * count for number in numbers for count in counts), 1]
    names = [*filter(str.isidentifier, symbols)]
    facts: list[str | None] = []
    for symbol in symbols:
        later = names[names.index(symbol) + 1 :] if symbol in names else []
        facts += [f"{symbol} == {name}" for name in later]
        facts += [_solved(symbol, number) for number in dict.fromkeys(numbers)]  # 1 is the last
    return tuple(dict.fromkeys(filter(None, facts)))[:_MOST_TRIES]


def _solved(size: str, number: int) -> str | None:
    """The fact with which a size such as `2*n + 1` is a number; None if there is none."""
    match = re.fullmatch(r"(?:(\d+)\*)?([^\W\d]\w*)(?: ([+-] \d+))?", size)
    if not match:
        return None
    factor, name, offset = match.groups()
    value, rest = divmod(number - int((offset or "0").replace(" ", "")), int(factor or 1))
    return f"{name} == {value}" if value > 0 and not rest else None


def _fit(
    failure: _Failure,
    trace: Callable[[Structs], _Watch],
    inputs: Callable[[Assumptions], Structs],
    assumed: Assumptions,
) -> Assumptions | None:
    """The assumptions and the equality of sizes with which a node is computed, if there are any."""
    candidates = (assumed._replace(facts=(fact, *assumed.facts)) for fact in failure.equalities)
    possible = (x for x in candidates if _can_hold(inputs, x))
    return next((x for x in possible if failure.node not in trace(inputs(x)).failures), None)


def _blame_symbols(
    watch: _Watch, trace: Callable[[Structs], _Watch], inputs: Structs
) -> list[_Failure]:
    """Makes errors that static sizes do not raise into ones that say which size must be static.

    Returns the failures for which the sizes may have to equal others: static ones cause them, too,
    or an operator of dmlax compares them.
    """
    suspects = {key: failure for key, failure in watch.failures.items() if failure.symbols}
    if not suspects:
        return []
    try:
        examples = {name: _example(x.shape) for name, x in inputs.items()}
    except jax.errors.InconclusiveDimensionOperation:  # JAX computes no mod of numbers
        return []
    static = {name: jax.ShapeDtypeStruct(examples[name], x.dtype) for name, x in inputs.items()}
    try:
        left = trace(static).failures
    except Exception:  # the example's sizes do not fit
        left = {key: failure for key, failure in suspects.items() if failure.needs_value}
    for key, failure in suspects.items():
        if not failure.is_ours and key in left and left[key].is_ours:
            watch.failures[key] = left[key]
        elif not failure.is_ours and key not in left:
            shapes = {
                name: list(examples[name])
                for name, x in inputs.items()
                if any(_names(str(size)) & failure.symbols for size in x.shape)
            }
            error = with_node(failure.node, _needs_static(sorted(failure.symbols), shapes))
            watch.failures[key] = failure._replace(error=error)
    return [
        x
        for key, x in suspects.items()
        if x.equalities and (key in left or isinstance(x.error, SpecError))
    ]


def _needs_static(symbols: Sequence[str], shapes: Mapping[str, list[int]]) -> UnsupportedError:
    sizes = "a size that is" if len(symbols) == 1 else "sizes that are"
    text = f"it needs {sizes} symbolic here, {', '.join(symbols)}: "
    text += f"give static sizes, as input_shapes={json.dumps(shapes)}"
    return UnsupportedError(text, "sizes", "input_shapes")


def _example(shape: Sequence[object]) -> tuple[int, ...]:
    """A static shape for a symbolic one: one image of 224 pixels, one text of 128 tokens."""
    sizes = []
    for axis, size in enumerate(shape):
        number = 1 if axis == 0 else 224 if len(shape) == 4 and axis > 1 else 128
        parts = re.split(r"([A-Za-z_]\w*)", str(size))
        names = {part: str(number) for part in size_names(str(size))}
        (static,) = jax.export.symbolic_shape("".join(names.get(x, x) for x in parts))
        sizes.append(int(static))
    return tuple(sizes)


def _one_error(graph: Graph, watch: _Watch, assumed: Assumptions) -> Exception:
    """The first error of a malformed file or of sizes as assumed, or one that lists all."""
    order = {node: i for i, node in enumerate(graph.all_nodes())}
    failures = sorted(watch.failures.values(), key=lambda x: order.get(x.node, 0))
    if all(isinstance(failure.error, ModelError) for failure in failures):
        if assumed.facts and failures[0].symbols:
            return _assumed_sizes(failures[0], watch.inputs, assumed)
        remedy = _choose_branch(graph, failures[0].node)
        return ModelError(f"{failures[0].error}; {remedy}") if remedy else failures[0].error
    behind = [node for node in watch.skipped if node not in watch.failures]
    avals = watch.avals.get(graph, {}) if not has_x64() else {}
    wide = {name for name, aval in avals.items() if aval.dtype == np.float64}
    return UnsupportedError(_list(graph, failures, behind, wide, watch.inputs), "option", "model")


def _choose_branch(graph: Graph, node: Node) -> str:
    """The remedy of a node in a branch of an If, where a constant decides the condition."""
    for choice in graph.nodes:
        branches = choice.graphs.values() if choice.op == "If" else ()
        if any(node in {*branch.all_nodes()} for branch in branches):
            values = _values_of(_inputs_of(graph, {choice.input(0)}))
            text = f"load(..., constants={{{values}}}) leaves out a branch of {choice}"
            return text if values else ""
    return ""


def _values_of(inputs: Sequence[str]) -> str:
    """The items of a dict for `constants`."""
    return ", ".join(f'"{name}": value' for name in inputs)


def _assumed_sizes(failure: _Failure, inputs: Structs, assumed: Assumptions) -> UnsupportedError:
    """The error of a node that may need other sizes than those that are assumed."""
    facts = ", ".join(sorted(assumed.facts, key=len)[:3])
    names = {name for fact in assumed.facts for name in _names(fact)}
    text = f"{failure.error}, if {facts}: give static sizes, as {_static(inputs, names)}"
    return UnsupportedError(text, "sizes", "input_shapes")


def _static(inputs: Structs, names: Set[str]) -> str:
    """The option of `load` that gives sizes for the names."""
    chosen = [k for k, x in inputs.items() if any(_names(str(n)) & names for n in x.shape)]
    return f"input_shapes={{{', '.join(f'{json.dumps(name)}: [...]' for name in chosen)}}}"


def _list(
    graph: Graph,
    failures: Sequence[_Failure],
    behind: Sequence[Node],
    unusable: Set[str],
    given: Structs,
) -> str:
    """Groups nodes by type and reason; then those that need their outputs, and the ways out.

    JAX has no dtype for the unusable tensors.
    """
    groups: dict[str, list[str]] = {}
    for node, error, *_ in failures:
        reason = str(error).removeprefix(f"{node}: ")
        groups.setdefault(f"{node.type}: {reason}", []).append(node.name)
    lines = [f"  {reason} ({_some(names)})" for reason, names in groups.items()]
    if behind:
        text = _some([node.name for node in behind])
        lines.append(f"  not checked, as they need outputs of those: {text}")
    first = f"{_count(failures)} of the model cannot be computed:"
    others = [x for x in failures if getattr(x.error, "field", "") != "input_shapes"]
    ways = [f"  {_ways_out(graph, others, unusable)}"] if others else []
    if inputs := _deciding_inputs(graph, others):
        ways.append(
            f"  load(..., constants={{{_values_of(inputs)}}}) makes what they depend on known"
        )
    if names := {name for x in failures if isinstance(x.error, SpecError) for name in x.symbols}:
        ways.append(f"  load(..., {_static(given, names)}) may give sizes that fit")
    return "\n".join([first, *lines, *ways])


def _ways_out(graph: Graph, failures: Sequence[_Failure], unusable: Set[str]) -> str:
    """The options of `load` that help, with names of this file."""
    unknown = {name for failure in failures for name in failure.node.outputs}
    top = {*graph.nodes}
    for node in graph.nodes:
        if not unknown.isdisjoint(node.inputs):
            unknown.update(node.outputs)
    unknown |= {*graph.inputs, *graph.constants, *unusable, ""}
    inputs = (name for x in failures if x.node in top for name in x.node.inputs)
    names = [name for name in dict.fromkeys(inputs) if name not in unknown][:4]
    types = [
        operator_name(failure.node.domain, failure.node.op)
        for failure in failures
        if failure.node.domain not in (OWN, GIVEN) and not failure.node.graphs
    ]
    shown = ", ".join(f'"{name}": f' for name in [*dict.fromkeys(types)][:3])
    outputs = json.dumps(names) if names else "[...]"
    ways = [f"load(..., outputs={outputs}) leaves nodes out"]
    if shown:
        ways.append(f"load(..., operators={{{shown}}}) computes them by functions of yours")
    return "; ".join(ways)


def _deciding_inputs(graph: Graph, failures: Sequence[_Failure]) -> list[str]:
    """The inputs on which the condition of an If depends, or a value that has to be known."""
    needed = set[str]()
    for failure in failures:
        row, node = find(failure.node), failure.node
        if node.op == "If":
            needed.add(node.input(0))
        elif failure.needs_value and row is not None:
            pairs = enumerate(node.operands)
            needed.update(name for i, name in pairs if row.role(i) == "known")
    return _inputs_of(graph, needed)


def _inputs_of(graph: Graph, names: Set[str]) -> list[str]:
    """The inputs on whose values tensors depend."""
    needed = {*names}
    for node in reversed(graph.nodes):
        if node.op not in ("Shape", "Size") and not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
    return [name for name in graph.inputs if name in needed]


def _count(nodes: Sequence[object]) -> str:
    return "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"


def _some(names: Sequence[str]) -> str:
    """Counts nodes, and shows the names of the first eight."""
    return f"{_count(names)}: {', '.join(names[:_SHOWN])}{', ...' if names[_SHOWN:] else ''}"
