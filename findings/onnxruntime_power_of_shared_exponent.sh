#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | Pow | int32 has two arithmetics: 46341 ** 2 wraps to -2147479015 if all elements share the
# exponent, and is -2147483648 if the exponent has the base's shape. | One answer; 46341 ** 2 exceeds int32.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 15]>
g (int32[2] x, int32[n] e) => (int32[2] y) { y = Pow (x, e) }"""
x = np.int32([46341, 46341])
shared, each = (run(text, dict(x=x, e=np.full(n, 2, np.int32))).tolist() for n in (1, 2))
print(f"a shared exponent {shared}, one for each element {each}")
assert shared == [-2147479015] * 2
assert each == [-2147483648] * 2
PY
