#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | DequantizeLinear, Transpose | A valid file of DequantizeLinear(int32) and Transpose does not
# load with the default optimisations: one of them inserts a QuantizeLinear to int32, which does not exist. | It runs,
# as without optimisations.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 17]>
g (int32[2, 3] x) => (float[3, 2] y) <float s = {0.5}, int32 z = {0}>
{ f = DequantizeLinear (x, s, z)
  y = Transpose (f) }"""
x = np.arange(6, dtype=np.int32).reshape(2, 3)
print("without optimisations:", run(text, dict(x=x), optimize=False).tolist())
try:
    run(text, dict(x=x))
except Exception as error:
    print("with the default optimisations:", str(error)[:150])
else:
    raise SystemExit("it loads now")
PY
