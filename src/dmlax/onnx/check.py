"""Traces every node of a graph once, and lists all that cannot be computed."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dmlax._core.arguments import Aval, aval_of
from dmlax.errors import SpecError, UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.evaluate import NotComputedError, Options, Watch, evaluate, with_node
from dmlax.onnx.graph import GIVEN, OWN, Graph, Node, operator_name
from dmlax.onnx.operators import why_not
from dmlax.onnx.operators.values import to_device, undecided
from dmlax.onnx.protobuf import infer_types

Structs = Mapping[str, jax.ShapeDtypeStruct]
Avals = Mapping[str, Aval]
_OURS = (SpecError, UnsupportedError, ModelError)
MULTIPLE = 32  # of a size that a network halves five times
_SHOWN = 8  # names in a line
_MOST_FACTS = 8  # of dynamic sizes, as each takes JAX time in every comparison
_LONGEST_FACT = 80  # of characters; JAX takes minutes to compare with longer ones
_FUNCTIONS = {"floordiv", "max", "min", "mod", "non_negative"}  # in symbolic sizes


class AvalsOfGraphs(NamedTuple):
    """The dtype and the shape of every tensor, of a graph and of each subgraph by its id.

    A subgraph that was computed with several shapes is left out.
    """

    of_graph: Avals
    of_subgraphs: Mapping[int, Avals]

    def within(self, subgraph: Avals) -> "AvalsOfGraphs":
        """Those of a subgraph in place of the graph's."""
        return self._replace(of_graph=subgraph)


class Assumptions(NamedTuple):
    """Assumptions about symbolic sizes, so that nodes can be traced.

    A call knows its sizes, and an exported program checks them.

    Attributes:
      facts: comparisons, as JAX's constraints are written.
      multiples: the names of sizes that are multiples of 32.
    """

    facts: frozenset[str] = frozenset()
    multiples: frozenset[str] = frozenset()


def check(
    graph: Graph,
    params: Structs,
    inputs: Callable[[Assumptions], Structs],
    options: Options,
    assumed: Assumptions,
) -> tuple[AvalsOfGraphs, Assumptions]:
    """Traces every node; raises one error with all that cannot be computed.

    Args:
      graph: the graph to trace.
      params: its params.
      inputs: makes the inputs, with symbolic sizes as assumed.
      options: those of the model.
      assumed: the assumptions to begin with. Facts that nodes depend on are added. Where these
        are many, the sizes that nodes depend on are assumed to be multiples.

    Returns:
      The dtype and the shape of every tensor, and the assumptions.
    """
    first = None
    while (watch := _trace(graph, params, inputs(assumed), options)).failures:
        known = assumed.facts | watch.facts()
        is_costly = len(known) > _MOST_FACTS or any(len(fact) > _LONGEST_FACT for fact in known)
        more = assumed._replace(facts=known)
        if more != assumed and not is_costly and _can_hold(inputs, more):
            assumed = more
            continue
        first = first or watch
        multiples = watch.symbols()
        if assumed.multiples or not multiples:
            _blame_symbols(first, graph, params, inputs(Assumptions()), options)
            raise _one_error(graph, first)
        assumed = Assumptions(frozenset(), multiples)
    top, *subgraphs = watch.avals.items()
    found = {key: avals for key, avals in subgraphs if avals}
    return AvalsOfGraphs(top[1] or {}, found), assumed


def _can_hold(inputs: Callable[[Assumptions], Structs], assumed: Assumptions) -> bool:
    """False if JAX sees that no sizes are as assumed."""
    try:
        inputs(assumed)
    except ValueError:
        return False
    return True


class _Failure(NamedTuple):
    """A node that cannot be computed.

    Attributes:
      is_ours: False for an exception of JAX or Python.
      symbols: the names of symbolic sizes of its operands.
      fact: a comparison of sizes that the node depends on; "" if an operand is a guess.
    """

    node: Node
    error: Exception
    is_ours: bool = True
    symbols: frozenset[str] = frozenset()
    fact: str | None = None


class _Watch(Watch):
    """Collects failures, and the shapes of all tensors."""

    def __init__(self, graph: Graph, inputs: Structs) -> None:
        unknown = ((node, why_not(node)) for node in graph.all_nodes())
        self.failures = {
            id(node): _Failure(node, with_node(node, UnsupportedError(why)))
            for node, why in unknown
            if why
        }
        self.skipped: dict[int, Node] = {}
        self.avals: dict[int, Avals | None] = {id(graph): None}
        self._graph, self._inputs = graph, inputs
        self._ended: set[int] = set()

    def fail(
        self, node: Node, error: Exception, operands: Sequence[Any], guess: bool
    ) -> dict[str, Any]:
        """Notes an error, unless a guess may have caused it."""
        if not isinstance(error, NotComputedError):
            is_ours = isinstance(error, _OURS)
            sizes = undecided(error)
            fact = "" if guess else None if sizes is None else sizes.fact
            failure = _Failure(node, with_node(node, error), is_ours, _symbols(operands), fact)
            if guess and isinstance(failure.error, ModelError):
                self.skipped[id(node)] = node
            else:
                self.failures.setdefault(id(node), failure)
        return self._guess(node, operands)

    def _guess(self, node: Node, operands: Sequence[Any]) -> dict[str, Any]:
        """Values with the types that the file or ONNX's shape inference gives."""
        types = {name: self._graph.types.get(name) for name in node.outputs if name}
        found: dict[str, tuple[Any, Sequence[Any]]] = {
            name: (x.dtype, x.shape) for name, x in types.items() if x is not None
        }
        if len(found) < len(types):
            found = {**infer_types(node, operands), **found}
        if not found.keys() >= types.keys():
            return {}
        scope = next((s for x in self._inputs.values() if (s := _scope(x.shape))), None)
        try:
            return {name: _zeros(*found[name], scope) for name in types}
        except Exception:  # a size that JAX cannot parse, or a dtype that it does not have
            return {}

    def skip(self, node: Node) -> None:
        """Notes a node that was not checked."""
        self.skipped[id(node)] = node

    def end(self, graph: Graph, values: Mapping[str, Any]) -> None:
        """Notes the shapes of a graph's tensors, None for those of a second trace."""
        avals = {name: aval_of(x) for name, x in values.items() if hasattr(x, "shape")}
        key = id(graph)
        is_new = key not in self._ended or self.avals[key] == avals
        self.avals[key] = avals if is_new else None
        self._ended.add(key)

    def facts(self) -> set[str]:
        """The facts that the failing nodes depend on; none if a node fails for another reason."""
        facts = [failure.fact for failure in self.failures.values()]
        return set() if None in facts else {fact for fact in facts if fact}

    def symbols(self) -> frozenset[str]:
        """The sizes that failing nodes depend on, batches aside; none if one depends on none."""
        failures = [failure for failure in self.failures.values() if failure.fact != ""]
        batches = (_names(str(x.shape[0])) for x in self._inputs.values() if x.shape)
        found = frozenset().union(*(failure.symbols for failure in failures))
        return found.difference(*batches) if all(x.symbols for x in failures) else frozenset()

    def behind(self) -> list[Node]:
        """The nodes that were not checked."""
        return [node for key, node in self.skipped.items() if key not in self.failures]


def _trace(graph: Graph, params: Structs, inputs: Structs, options: Options) -> _Watch:
    watch = _Watch(graph, inputs)

    def compute(params: Any, inputs: Any) -> Any:
        found = evaluate(graph, {**params, **inputs}, options, watch)
        return [] if watch.failures else [to_device(found[name]) for name in graph.outputs]

    jax.eval_shape(compute, params, inputs)
    return watch


def _symbols(operands: Sequence[Any]) -> frozenset[str]:
    """The names of the symbolic sizes of operands, and in known operands."""
    sizes = [size for x in operands for size in getattr(x, "shape", ())]
    for x in operands:
        if isinstance(x, np.ndarray) and x.dtype == object:
            sizes += list(x.ravel())
    texts = (str(size) for size in sizes if not isinstance(size, int | np.integer))
    return frozenset(name for text in texts for name in _names(text))


def _names(size: str) -> set[str]:
    return {*re.findall(r"[A-Za-z_]\w*", size)} - _FUNCTIONS


def _scope(shape: Sequence[Any]) -> Any:
    return next((size.scope for size in shape if hasattr(size, "scope")), None)


def _zeros(dtype: Any, shape: Sequence[int | str], scope: Any) -> Any:
    text = ",".join(map(str, shape))
    sizes = jax.export.symbolic_shape(text, scope=scope) if shape else ()
    return jnp.zeros(sizes, jax.dtypes.canonicalize_dtype(dtype))


def _blame_symbols(
    watch: _Watch, graph: Graph, params: Structs, inputs: Structs, options: Options
) -> None:
    """Makes errors that static sizes do not raise into ones that say which size must be static."""
    suspects = {
        key: failure
        for key, failure in watch.failures.items()
        if failure.symbols and not failure.is_ours
    }
    if not suspects:
        return
    try:
        examples = {name: _example(x.shape) for name, x in inputs.items()}
    except jax.errors.InconclusiveDimensionOperation:  # JAX computes no mod of numbers
        return
    static = {name: jax.ShapeDtypeStruct(examples[name], x.dtype) for name, x in inputs.items()}
    try:
        left = _trace(graph, params, static, options).failures
    except Exception:  # the example's sizes do not fit
        left = {}
    for key, failure in suspects.items():
        if key in left and not left[key].is_ours:
            continue
        names = sorted(failure.symbols)
        shapes = {
            name: list(examples[name])
            for name, x in inputs.items()
            if any(_names(str(size)) & failure.symbols for size in x.shape)
        }
        size = "a size" if len(names) == 1 else "sizes"
        text = f"it needs {size} that {'is' if len(names) == 1 else 'are'} symbolic here, "
        text += f"{', '.join(names)}: give static sizes, as input_shapes={json.dumps(shapes)}"
        error = with_node(failure.node, UnsupportedError(text, "sizes", "input_shapes"))
        watch.failures[key] = failure._replace(error=error)


def _example(shape: Sequence[Any]) -> tuple[int, ...]:
    """A static shape for a symbolic one: one image of 224 pixels, one text of 128 tokens."""
    sizes = []
    for axis, size in enumerate(shape):
        number = 1 if axis == 0 else 224 if len(shape) == 4 and axis > 1 else 128
        if not isinstance(size, int):
            parts = re.split(r"([A-Za-z_]\w*)", str(size))
            names = {part: str(number) for part in parts[1::2] if part not in _FUNCTIONS}
            (size,) = jax.export.symbolic_shape("".join(names.get(x, x) for x in parts))
        sizes.append(int(size))
    return tuple(sizes)


def _one_error(graph: Graph, watch: _Watch) -> Exception:
    """The first error of a malformed file, or one that lists all."""
    failures = list(watch.failures.values())
    if all(isinstance(failure.error, ModelError) for failure in failures):
        return failures[0].error
    return UnsupportedError(_list(graph, failures, watch.behind()), "option", "model")


def _list(graph: Graph, failures: Sequence[_Failure], behind: Sequence[Node]) -> str:
    """Groups nodes by type and reason; then those that need their outputs, and the ways out."""
    groups: dict[str, list[str]] = {}
    for node, error, *_ in failures:
        reason = str(error).removeprefix(f"{node}: ")
        groups.setdefault(f"{node.type}: {reason}", []).append(node.name)
    lines = [f"  {reason} ({_some(names)})" for reason, names in groups.items()]
    if behind:
        lines.append(
            f"  not checked, as they need outputs of those: {_some(x.name for x in behind)}"
        )
    count = "1 node" if len(failures) == 1 else f"{len(failures)} nodes"
    first = f"{count} of the model cannot be computed:"
    others = [failure for failure in failures if _field(failure.error) != "input_shapes"]
    ways = [f"  {_ways_out(graph, others)}"] if others else []
    return "\n".join([first, *lines, *ways])


def _field(error: Exception) -> str | None:
    return error.field if isinstance(error, UnsupportedError) else None


def _ways_out(graph: Graph, failures: Sequence[_Failure]) -> str:
    """The options of `load` that help, with names of this file."""
    failed = {name for failure in failures for name in failure.node.outputs}
    top = {id(node) for node in graph.nodes}
    computed, bad = [], set(failed)
    for node in graph.nodes:
        if not bad.isdisjoint(node.inputs):
            bad.update(node.outputs)
    for failure in failures:
        if id(failure.node) in top:
            computed += [name for name in failure.node.inputs if name not in {*bad, *graph.inputs}]
    known = {*graph.constants, ""}
    names = [name for name in dict.fromkeys(computed) if name not in known][:4]
    types = [
        operator_name(failure.node.domain, failure.node.op)
        for failure in failures
        if failure.node.domain not in (OWN, GIVEN)
    ]
    shown = ", ".join(f'"{name}": f' for name in [*dict.fromkeys(types)][:3])
    outputs = json.dumps(names) if names else "[...]"
    ways = [f"load(..., outputs={outputs}) leaves nodes out"]
    if shown:
        ways.append(f"load(..., operators={{{shown}}}) computes them by functions of yours")
    return "; ".join(ways)


def _some(names: Iterable[str]) -> str:
    """Counts nodes, and shows the names of the first eight."""
    shown = list(names)
    count = "1 node" if len(shown) == 1 else f"{len(shown)} nodes"
    return f"{count}: {', '.join(shown[:_SHOWN])}{', ...' if shown[_SHOWN:] else ''}"
