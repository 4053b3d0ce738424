#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | MatMulNBits | At accuracy level 4 an input with blocks of 512 is rounded in blocks of 256. |
# "The same block_size" as the weights, says the schema.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

K, N, BLOCK = 2048, 8, 512
rng = np.random.default_rng(0)
a = (rng.standard_normal((1, K)) * np.repeat(2.0 ** np.arange(8), 256)).astype(np.float32)
packed = rng.integers(0, 256, (N, K // BLOCK, BLOCK // 2), np.uint8)
scales = rng.uniform(0.5, 1, N * K // BLOCK).astype(np.float32)
options = dict(K=K, N=N, bits=4, block_size=BLOCK, accuracy_level=4, domain="com.microsoft")
graph = helper.make_graph(
    [helper.make_node("MatMulNBits", ["a", "b", "s"], ["y"], **options)],
    "g",
    [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, K])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, N])],
    [numpy_helper.from_array(packed, "b"), numpy_helper.from_array(scales, "s")],
)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
y = onnxruntime.InferenceSession(model).run(None, {"a": a})[0]
w = np.stack([packed & 15, packed >> 4], -1).reshape(N, -1, BLOCK) - 8.0
w = (w * scales.reshape(N, -1, 1)).reshape(N, K)


def rounded(block):
    rows = a.reshape(-1, block).astype(np.float64)
    most = np.abs(rows).max(1, keepdims=True)
    return (np.rint(rows * 127 / most) * most / 127).reshape(1, K) @ w.T


errors = {block: np.abs(y - rounded(block)).max() / np.abs(y).max() for block in (256, 512)}
print({block: f"{error:.1e}" for block, error in errors.items()})
assert errors[256] < 1e-6
assert errors[512] > 1e-4
PY
