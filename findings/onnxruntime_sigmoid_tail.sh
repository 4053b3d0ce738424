#!/usr/bin/env bash
# ONNX Runtime | 1.32.0, x86-64 | Sigmoid | Sigmoid(-20) is 0, so the logarithm of a sigmoid is minus infinity. |
# 2.06e-9, which float32 holds.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 13]>
g (float[2] x) => (float[2] y) { y = Sigmoid (x) }"""
x = np.float32([-20, -10])
found, right = run(text, dict(x=x)), 1 / (1 + np.exp(-x.astype(np.float64)))
print(f"Sigmoid of [-20, -10]: {found.tolist()}, right is {right.tolist()}")
assert found[0] == 0
PY
