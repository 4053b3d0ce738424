#!/usr/bin/env bash
# ONNX Runtime 1.32.0: a pool has floor((size - kernel) / stride) + 1 outputs. For a
# window that is longer than the image that is 0, but the quotient is truncated towards 0: one output.
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
