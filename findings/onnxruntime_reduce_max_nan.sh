#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | ReduceMax | Three floats have the maximum NaN if the NaN is the first, and another one if it
# is the second. | NaN, wherever it is.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 13]>
g (float[1, 3] x) => (float[1, 1] y) { y = ReduceMax <axes = [1]> (x) }"""
first, second = (run(text, dict(x=np.float32([row]))).item() for row in ([np.nan, 1, 2], [1, np.nan, 2]))
print(f"[nan, 1, 2]: {first}, [1, nan, 2]: {second}")
assert np.isnan(first)
assert second == 2
PY
