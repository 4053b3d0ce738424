"""Passes: short functions from a graph to a graph that changes no bit of any tensor asked for."""

from collections.abc import Callable, Iterator

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.graph import Graph
from dmlax.onnx.passes.add import fuse_adds, fuse_gemm_adds
from dmlax.onnx.passes.attention import fuse_attention
from dmlax.onnx.passes.byte_functions import fuse_byte_functions
from dmlax.onnx.passes.clamp import drop_clamps
from dmlax.onnx.passes.constants import fold_constants
from dmlax.onnx.passes.dead_channels import revive_dead_channels
from dmlax.onnx.passes.dequantized_weights import fuse_dequantized_weights
from dmlax.onnx.passes.gemm_functions import fuse_gemm_functions
from dmlax.onnx.passes.identities import drop_identities
from dmlax.onnx.passes.layer_normalization import fuse_layer_normalizations
from dmlax.onnx.passes.layout import Avals, channels_last
from dmlax.onnx.passes.moves import move_bytes, quantize_before_moves
from dmlax.onnx.passes.normalizations import fuse_normalizations
from dmlax.onnx.passes.qdq import fuse_qdq
from dmlax.onnx.passes.rows import take_rows_first
from dmlax.onnx.passes.scaled_products import fuse_scaled_products
from dmlax.onnx.passes.self_attention import fuse_self_attention

Pass = Callable[..., Graph]
PassOfShapes = Callable[[Graph, Avals], Graph]

PASSES: tuple[Pass, ...] = (
    drop_identities,
    fold_constants,
    drop_clamps,
    fuse_normalizations,
    fuse_qdq,
    fuse_scaled_products,
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


def run_passes_of_shapes(graph: Graph, avals: Avals) -> Graph:
    """Runs the passes that need the dtype and the shape of every tensor."""
    for each in PASSES_OF_SHAPES:
        graph = each(graph, avals)
    return graph
