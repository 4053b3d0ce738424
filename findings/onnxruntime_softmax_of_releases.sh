#!/usr/bin/env bash
# ONNX Runtime | 1.31.1 and 1.32.0, x86-64 | QLinearSoftmax | Near ties of one file are one step apart between the
# releases: 1.31 computes in float32, 1.32 in float64. | The nearest byte of the real number.
. "$(dirname "$0")/environment.sh"
found() {
  python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>
g (uint8[1, 3] x, float xs, uint8 xz, float ys, uint8 yz) => (uint8[1, 3] y) {
    y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (x, xs, xz, ys, yz) }"""
zero, feeds = np.array(0, np.uint8), dict(x=np.uint8([[255, 15, 10]]))
feeds |= dict(xs=np.array(0.01, np.float32), xz=zero, ys=np.array(1 / 256, np.float32), yz=zero)
print(run(text, feeds)[0].tolist())
PY
}
install onnx==1.23.2 onnxruntime==1.31.1 numpy==2.4.6
old="$(found)"
install onnxruntime==1.32.0
new="$(found)"
echo "1.31.1 $old, 1.32.0 $new"
[ "$new" = "[217, 20, 19]" ]
[ "$old" != "$new" ]
