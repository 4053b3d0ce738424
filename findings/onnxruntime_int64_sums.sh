#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | ReduceSum | int64 is added in float64: 2^59 + 7 and 5 sum to 2^59. | 2^59 + 12, as `Add` and
# `CumSum` of int64 have it.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 13]>
g (int64[2] x) => (int64 y) { y = ReduceSum <keepdims = 0> (x) }"""
x = np.int64([2**59 + 7, 5])
found, right = int(run(text, dict(x=x))), int(x.sum())
print(f"ReduceSum {found}, right is {right}")
assert (found, right) == (2**59, 2**59 + 12)
PY
