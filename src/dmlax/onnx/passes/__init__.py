"""Passes: functions from a graph to a graph that computes the same bits with fewer nodes.

Float normalizations are the exception: a fused one sums its row in another order.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.check import Avals
from dmlax.onnx.evaluate import split_constants
from dmlax.onnx.graph import Graph, Node
from dmlax.onnx.identity import IdentityMap
from dmlax.onnx.operators import why_no_pass
from dmlax.onnx.passes.attention import fuse_attention, fuse_self_attention
from dmlax.onnx.passes.byte_functions import fuse_byte_functions
from dmlax.onnx.passes.byte_moves import move_bytes, quantize_before_moves
from dmlax.onnx.passes.constants import fold_constants, gather_bytes
from dmlax.onnx.passes.dead_channels import revive_dead_channels
from dmlax.onnx.passes.epilogues import fuse_adds, fuse_gemm_adds, fuse_gemm_functions
from dmlax.onnx.passes.float_products import (
    fold_channels,
    fuse_float_functions,
    fuse_float_silus,
    fuse_float_sums,
    fuse_float_swishes,
    use_float_kernels,
)
from dmlax.onnx.passes.joined_products import join_products
from dmlax.onnx.passes.layout import channels_last
from dmlax.onnx.passes.normalizations import fuse_layer_normalizations, fuse_normalizations
from dmlax.onnx.passes.products import (
    fuse_dequantized_weights,
    fuse_scaled_products,
    fuse_transposes,
)
from dmlax.onnx.passes.qdq import fuse_qdq, known_types
from dmlax.onnx.passes.redundant_nodes import drop_clamps, drop_identities, drop_unread_outputs
from dmlax.onnx.passes.row_selection import take_rows_first
from dmlax.onnx.passes.signed_bytes import shift_signed_bytes

Pass = Callable[..., Graph]

PASSES: tuple[Pass, ...] = (
    drop_unread_outputs,
    drop_identities,
    gather_bytes,
    fold_constants,
    drop_clamps,
    fuse_normalizations,
    shift_signed_bytes,
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
    use_float_kernels,
    fold_channels,
)

_OF_FLOATS = (fuse_normalizations, use_float_kernels, fold_channels)
"""Passes that change the last bits of floats, which "exact" does not run."""
_OF_ARITHMETIC = (fold_constants, fuse_qdq, fuse_scaled_products, fuse_dequantized_weights)

PASSES_OF_SHAPES: tuple[Callable[[Graph, Avals], Graph], ...] = (
    fuse_byte_functions,
    fuse_gemm_functions,
    fuse_attention,
    fuse_self_attention,
    take_rows_first,
    fuse_adds,
    fuse_gemm_adds,
    fuse_float_silus,
    fuse_float_sums,
    fuse_float_sums,
    fuse_float_silus,
    fuse_float_swishes,
    fuse_float_functions,
    channels_last,
)


def run_passes(graph: Graph, arithmetic: Arithmetic) -> Graph:
    """Runs every pass, and drops nodes that the outputs do not need."""
    *_, (_, last) = each_pass(graph, arithmetic)
    return last


def each_pass(graph: Graph, arithmetic: Arithmetic) -> Iterator[tuple[str, Graph]]:
    """Runs the passes one by one; yields their names and the graphs that they return."""
    for run in PASSES:
        if arithmetic == "exact" and run in _OF_FLOATS:
            continue
        options = (arithmetic,) if run in _OF_ARITHMETIC else ()
        graph = run(graph, *options).prune()
        yield run.__name__, graph


def run_passes_of_shapes(graph: Graph) -> Graph:
    """Runs the passes that need the dtype and the shape of every tensor, in subgraphs first."""
    if graph.avals is None:
        return graph
    fused = graph.map_subgraphs(run_passes_of_shapes)
    for fuse in PASSES_OF_SHAPES:
        fused = fuse(fused, graph.avals)
    return fused


def lift_params(graph: Graph, arithmetic: Arithmetic) -> Graph:
    """Runs the passes in subgraphs, whose params become constants of the graph around them.

    Subgraphs get the constants that they capture.
    """
    lifter = _Lifter(graph, arithmetic)
    nodes = tuple(lifter.lift(node) if node.graphs else node for node in graph.nodes)
    return graph.replace(nodes=nodes, constants=lifter.constants)


class _Lifter:
    """The constants of a graph, and those that nodes with subgraphs add."""

    def __init__(self, graph: Graph, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.constants = dict(graph.constants)
        self.names = IdentityMap((array, name) for name, array in graph.constants.items())
        self.taken = set(graph.tensors)
        self.types = known_types(graph)

    def lift(self, node: Node) -> Node:
        """Returns a node whose subgraphs capture their params."""
        graphs, params, formals, captured = {}, {}, {}, node.captured
        types = {name: self.types[x] for name, x in captured.items() if x in self.types}
        shared = {name: self.constants[x] for name, x in captured.items() if x in self.constants}
        captured = {name: x for name, x in captured.items() if name not in shared}
        for key, graph in node.graphs.items():
            formals[key] = graph.parameters[: len(graph.parameters) - len(node.captured)]
            constants, parameters = {**graph.constants, **shared}, (*formals[key], *captured)
            graph = graph.replace(constants=constants, parameters=parameters, types=types)
            if not any(map(why_no_pass, graph.run_nodes())):  # perhaps of a branch that never runs
                graph = run_passes(lift_params(graph, self.arithmetic), self.arithmetic)
            graphs[key], params[key] = split_constants(graph)
        inner = IdentityMap[str]()  # names in the subgraphs
        taken = {*captured}.union(*(graph.tensors for graph in graphs.values()))
        for key, arrays in params.items():
            for name, array in arrays.items():
                if array not in inner:
                    inner[array] = _take_name(name, taken)
                    captured[inner[array]] = self._outer_name(node, name, array)
            graphs[key] = _rename(graphs[key], {name: inner[x] for name, x in arrays.items()})
        used = {x for graph in graphs.values() for x in (*graph.consumers, *graph.outputs)}
        captured = {name: outer for name, outer in captured.items() if name in used}
        for key, graph in graphs.items():
            graphs[key] = graph.replace(parameters=(*formals[key], *captured))
        return node.with_graphs(graphs, captured)

    def _outer_name(self, node: Node, name: str, array: np.ndarray) -> str:
        """The name of a subgraph's param in the graph."""
        if array not in self.names:
            wanted = f"{node.name}/{name}" if name in self.taken else name
            self.names[array] = _take_name(wanted, self.taken)
            self.constants[self.names[array]] = array
        return self.names[array]


def _take_name(wanted: str, taken: set[str]) -> str:
    """A name that is not taken; it is from then on."""
    while wanted in taken:
        wanted += "'"
    taken.add(wanted)
    return wanted


def _rename(graph: Graph, names: Mapping[str, str]) -> Graph:
    """A subgraph that reads tensors under other names."""
    nodes = tuple(node.rename_inputs(names) for node in graph.nodes)
    outputs = tuple(names.get(name, name) for name in graph.outputs)
    return graph.replace(nodes=nodes, outputs=outputs)
