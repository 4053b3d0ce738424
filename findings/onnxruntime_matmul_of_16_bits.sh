#!/usr/bin/env bash
# ONNX Runtime | 1.32.0, x86-64 | DequantizeLinear, MatMul | A QDQ MatMul of int16 activations by int8 weights loses
# half of the activations' bits with the default optimisations: they make it a MatMulNBits, which quantizes the floats
# to 8 bits again. Half of the results differ by several steps, without a message. | The results without optimisations.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
import onnxruntime
from one_model import run

from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(0)
arrays = {
    "w": random.integers(-128, 128, (40, 3)).astype(np.int8),
    "sx": np.float32(0.1), "zx": np.int16(0), "sw": np.float32(0.25), "zw": np.int8(0),
    "sy": np.float32(1.0), "zy": np.int16(0),
}
nodes = [
    helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["a"]),
    helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["b"]),
    helper.make_node("MatMul", ["a", "b"], ["c"]),
    helper.make_node("QuantizeLinear", ["c", "sy", "zy"], ["y"]),
]
info = helper.make_tensor_value_info
graph = helper.make_graph(
    nodes, "g", [info("x", TensorProto.INT16, [2, 4, 40])], [info("y", TensorProto.INT16, None)],
    [numpy_helper.from_array(np.asarray(value), name) for name, value in arrays.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
x = random.integers(-3000, 3000, (2, 4, 40)).astype(np.int16)
results = []
for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results.append(session.run(None, {"x": x})[0].astype(int))
apart = np.abs(results[0] - results[1])
print(f"{(apart > 0).sum()} of {apart.size} results differ, by up to {apart.max()} steps")
assert (apart > 0).any()
PY
