#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | BatchNormalization | A node of opset 9 with five outputs normalizes by the statistics of the
# batch, even if the graph uses the first output only. Exporters leave such nodes in files for inference. | The stored
# mean and variance.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 9]>
g (float[2, 1] x) => (float[2, 1] y)
<float[1] one = {1}, float[1] zero = {0}, float[1] mean = {5}, float[1] variance = {4}>
{ OUTPUTS = BatchNormalization (x, one, zero, mean, variance) }"""
x = np.float32([[1], [3]])
one, five = (
    run(text.replace("OUTPUTS", names), dict(x=x)).ravel().round(3).tolist()
    for names in ("y", "y, m, v, sm, sv")
)
print(f"one output {one}, five outputs {five}")
assert one == [-2, -1]
assert five == [-1, 1]
PY
