"""Models without their float islands, so that what is left has ONNX Runtime's bits.

An island computes in float32 in an order that each library chooses: its last bits are its own.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

_ISLANDS = {
    *("Conv", "Einsum", "Erf", "FusedMatMul", "Gelu", "Gemm", "LayerNormalization", "MatMul"),
    *("ReduceL2", "ReduceMean", "SkipLayerNormalization", "Softmax", "Tanh"),
}
Tensors = Mapping[str, np.ndarray]


def cut(
    model: onnx.ModelProto, inputs: Tensors, tensors: Tensors
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Make inputs of what islands compute.

    Args:
      model: as ONNX Runtime's quantizer writes it.
      inputs: those of the model.
      tensors: what ONNX Runtime computes of them, by name.

    Returns:
      The model without islands, whose outputs are the tensors that it still computes; its inputs.
    """
    islands = [node for node in model.graph.node if node.op_type in _ISLANDS]
    islands = [node for node in islands if node.output[0] in tensors]  # the others are fused
    held = {**inputs, **{name: tensors[name] for node in islands for name in node.output if name}}
    kept = [node for node in model.graph.node if node not in islands]
    computed = {name for node in kept for name in node.output}
    graph = helper.make_graph(
        kept,
        model.graph.name,
        [_info(name, array) for name, array in held.items()],
        [_info(name, array) for name, array in tensors.items() if name in computed],
        initializer=list(model.graph.initializer),
    )
    opsets = model.opset_import
    return helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version), held


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
    )
