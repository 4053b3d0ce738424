#!/usr/bin/env bash
# ONNX Runtime 1.32.0: int32 `Pow` has two arithmetics. 46341 ** 2 exceeds int32: an exponent that all
# elements share wraps to -2147479015, an exponent of the base's shape gives -2147483648.
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
