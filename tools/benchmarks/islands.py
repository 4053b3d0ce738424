"""Models without their float islands, so that the rest has ONNX Runtime's bits.

An island computes in float32. Every library chooses its order of sums, so the last bits differ.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from tools.benchmarks.onnx_peer import value_info

_ISLANDS = {
    *("Conv", "Einsum", "Erf", "FusedMatMul", "Gelu", "Gemm", "LayerNormalization", "MatMul"),
    *("ReduceL2", "ReduceMean", "SkipLayerNormalization", "Softmax", "Tanh"),
}
Tensors = Mapping[str, np.ndarray]


def cut(
    model: onnx.ModelProto, inputs: Tensors, tensors: Tensors
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Turn the outputs of islands into inputs of the model.

    Args:
      model: a file of ONNX Runtime's quantizer.
      inputs: the model's inputs.
      tensors: the tensors that ONNX Runtime computes from the inputs, by name.

    Returns:
      The model without islands, whose outputs are the tensors that it still computes; its inputs.
    """
    islands = [node for node in model.graph.node if node.op_type in _ISLANDS]
    islands = [node for node in islands if node.output[0] in tensors]  # the others are fused
    computed_by_islands = (name for node in islands for name in node.output if name)
    fed = {**inputs, **{name: tensors[name] for name in computed_by_islands}}
    kept = [node for node in model.graph.node if node not in islands]
    computed = {name for node in kept for name in node.output}
    graph = helper.make_graph(
        kept,
        model.graph.name,
        [value_info(name, array) for name, array in fed.items()],
        [value_info(name, array) for name, array in tensors.items() if name in computed],
        initializer=list(model.graph.initializer),
    )
    opsets = model.opset_import
    return helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version), fed
