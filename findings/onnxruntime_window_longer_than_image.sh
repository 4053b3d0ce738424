#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | MaxPool, AveragePool | A window longer than the image has one output: the quotient of
# floor((size - kernel) / stride) + 1 is truncated towards 0. | No output.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 13]> g (float[1,1,3] x) => (float[1,1,m] y)
{ y = MaxPool <kernel_shape=[5], strides=[3]> (x) }"""
y = run(text, dict(x=np.float32([[[1, 2, 3]]])))
print("ran", y.tolist(), "floor", (3 - 5) // 3 + 1)
assert y.tolist() == [[[3]]]
PY
