#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | ArgMax | A NaN is found at index 0 and passed over elsewhere. | The first NaN wherever it is,
# as in NumPy and JAX.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 17]>
g (float[3] x) => (int64 y) { y = ArgMax <axis = 0, keepdims = 0> (x) }"""
rows = np.float32([[np.nan, 1, 2], [1, np.nan, 2], [1, 2, np.nan]])
found = [int(run(text, dict(x=row))) for row in rows]
print(f"ONNX Runtime {found}, NumPy {rows.argmax(1).tolist()}")
assert found == [0, 2, 1]
PY
