"""Passes: short functions from a graph to a graph with the same bits of every tensor asked for.

Float normalizations are the exception: a fused one sums its row in another order.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.check import AvalsOfGraphs
from dmlax.onnx.evaluate import split_constants
from dmlax.onnx.graph import Graph, Node
from dmlax.onnx.passes.add import fuse_adds, fuse_gemm_adds
from dmlax.onnx.passes.attention import fuse_attention
from dmlax.onnx.passes.byte_functions import fuse_byte_functions
from dmlax.onnx.passes.cast_weights import gather_bytes
from dmlax.onnx.passes.clamp import drop_clamps
from dmlax.onnx.passes.constants import fold_constants
from dmlax.onnx.passes.dead_channels import revive_dead_channels
from dmlax.onnx.passes.dequantized_weights import fuse_dequantized_weights
from dmlax.onnx.passes.gemm_functions import fuse_gemm_functions
from dmlax.onnx.passes.identities import drop_identities
from dmlax.onnx.passes.joined_products import join_products
from dmlax.onnx.passes.layer_normalization import fuse_layer_normalizations
from dmlax.onnx.passes.layout import Avals, channels_last
from dmlax.onnx.passes.moves import move_bytes, quantize_before_moves
from dmlax.onnx.passes.normalizations import fuse_normalizations
from dmlax.onnx.passes.qdq import fuse_qdq, known_types
from dmlax.onnx.passes.rows import take_rows_first
from dmlax.onnx.passes.scaled_products import fuse_scaled_products
from dmlax.onnx.passes.self_attention import fuse_self_attention
from dmlax.onnx.passes.transposed_products import fuse_transposes

Pass = Callable[..., Graph]
PassOfShapes = Callable[[Graph, Avals], Graph]

PASSES: tuple[Pass, ...] = (
    drop_identities,
    gather_bytes,
    fold_constants,
    drop_clamps,
    fuse_normalizations,
    fuse_qdq,
    fuse_scaled_products,
    join_products,
    fuse_transposes,
    fuse_dequantized_weights,
    move_bytes,
    quantize_before_moves,
    fuse_layer_normalizations,
    fold_constants,
    revive_dead_channels,
)

_OF_ARITHMETIC = (fuse_qdq, fuse_scaled_products)

PASSES_OF_SHAPES: tuple[PassOfShapes, ...] = (
    fuse_byte_functions,
    fuse_gemm_functions,
    fuse_attention,
    fuse_self_attention,
    take_rows_first,
    fuse_adds,
    fuse_gemm_adds,
    channels_last,
)


def run_passes(graph: Graph, arithmetic: Arithmetic) -> Graph:
    """Runs every pass; each leaves what the outputs need."""
    *_, (_, last) = each_pass(graph, arithmetic)
    return last


def each_pass(graph: Graph, arithmetic: Arithmetic) -> Iterator[tuple[str, Graph]]:
    """The names of the passes, and the graph that each makes of the one before."""
    for each in PASSES:
        found = each(graph, arithmetic) if each in _OF_ARITHMETIC else each(graph)
        graph = found.prune()
        yield each.__name__, graph


def run_passes_of_shapes(graph: Graph, avals: AvalsOfGraphs) -> Graph:
    """Runs the passes that need the dtype and the shape of every tensor, in subgraphs first."""

    def run(subgraph: Graph) -> Graph:
        found = avals.of_subgraphs.get(id(subgraph))
        return subgraph if found is None else run_passes_of_shapes(subgraph, avals.within(found))

    def run_in(node: Node) -> Node:
        graphs = {name: run(subgraph) for name, subgraph in node.graphs.items()}
        return node.with_graphs(graphs) if graphs else node

    graph = graph.replace(nodes=tuple(map(run_in, graph.nodes)))
    for each in PASSES_OF_SHAPES:
        graph = each(graph, avals.of_graph)
    return graph


def lift_params(graph: Graph, arithmetic: Arithmetic) -> Graph:
    """Runs the passes in subgraphs, whose params become constants of the graph around them."""
    lifter = _Lifter(graph, arithmetic)
    nodes = tuple(lifter.lift(node) if node.graphs else node for node in graph.nodes)
    return graph.replace(nodes=nodes, constants=lifter.constants)


class _Lifter:
    """The constants of a graph, and those that nodes with subgraphs add."""

    def __init__(self, graph: Graph, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.constants = dict(graph.constants)
        self.names = {id(array): name for name, array in graph.constants.items()}
        self.taken = graph.tensors()
        self.types = known_types(graph)

    def lift(self, node: Node) -> Node:
        """Returns a node whose subgraphs capture their params."""
        graphs, params = {}, {}
        captured = dict(zip(node.captures, node.inputs[-len(node.captures) :], strict=False))
        types = {name: self.types[x] for name, x in captured.items() if x in self.types}
        for key, graph in node.graphs.items():
            graph = graph.replace(types=types)
            passed = run_passes(lift_params(graph, self.arithmetic), self.arithmetic)
            graphs[key], params[key] = split_constants(passed)
        inner: dict[int, str] = {}  # names in the subgraphs by array
        taken = {*captured}.union(*(graph.tensors() for graph in graphs.values()))
        for key, arrays in params.items():
            names = {}
            for name, array in arrays.items():
                if id(array) not in inner:
                    inner[id(array)] = _unused(name, taken)
                    captured[inner[id(array)]] = self._outer_name(node, name, array)
                names[name] = inner[id(array)]
            graphs[key] = _rename(graphs[key], names)
        used = {x for graph in graphs.values() for x in (*graph.consumers(), *graph.outputs)}
        captured = {name: outer for name, outer in captured.items() if name in used}
        for key, graph in graphs.items():
            formals = graph.parameters[: len(graph.parameters) - len(node.captures)]
            graphs[key] = graph.replace(parameters=(*formals, *captured))
        return node.with_graphs(graphs, captured)

    def _outer_name(self, node: Node, name: str, array: np.ndarray) -> str:
        """The name of a subgraph's param in the graph."""
        if id(array) not in self.names:
            wanted = f"{node.name}/{name}" if name in self.taken else name
            self.names[id(array)] = _unused(wanted, self.taken)
            self.constants[self.names[id(array)]] = array
        return self.names[id(array)]


def _unused(name: str, taken: set[str]) -> str:
    """A name that is not taken; it is from then on."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def _rename(graph: Graph, names: Mapping[str, str]) -> Graph:
    """A subgraph that reads tensors under other names."""
    nodes = [
        node.replace(inputs=tuple(names.get(name, name) for name in node.inputs))
        for node in graph.nodes
    ]
    outputs = tuple(names.get(name, name) for name in graph.outputs)
    return graph.replace(nodes=tuple(nodes), outputs=outputs)
