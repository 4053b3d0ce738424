#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | Hardmax | A row with a NaN may have no 1. | Exactly one 1 in each row.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = '<ir_version: 8, opset_import: ["": 13]> g (float[2,3] x) => (float[2,3] y) { y = Hardmax (x) }'
x = np.float32([[1, np.nan, 2], [np.nan, 1, 2]])
y = run(text, dict(x=x))
print(y.tolist(), "NumPy's argmax", x.argmax(1).tolist())
assert y.tolist() == [[0, 0, 1], [0, 0, 0]]
PY
