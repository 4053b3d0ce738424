#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | MultiHeadAttention | Output 3 has the scaled products. | The schema says "normalized Q * K":
# a row would add up to 1.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
g (float[1,3,8] q, float[1,3,8] k, float[1,3,8] v) => (float[1,1,3,3] scores, float[1,3,8] y)
{ y, a, b, scores = com.microsoft.MultiHeadAttention <num_heads=1> (q, k, v) }"""
rng = np.random.default_rng(0)
feeds = {name: rng.standard_normal((1, 3, 8)).astype(np.float32) for name in "qkv"}
scores = run(text, feeds)[0, 0]
wanted = feeds["q"][0] @ feeds["k"][0].T / np.sqrt(8)
print("sums of rows", scores.sum(1))
assert np.allclose(scores, wanted, atol=1e-5)
assert np.abs(scores.sum(1) - 1).max() > 0.1
PY
