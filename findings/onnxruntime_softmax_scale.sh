#!/usr/bin/env bash
# ONNX Runtime | 1.32.0, x86-64 | QLinearSoftmax | uint8 is multiplied by the whole part of 1 / y_scale: two equal
# logits are 64 with y_scale 1 / 129.9. | 65: the probability 0.5 is 64.95 steps.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>
g (uint8[1, 2] x, float xs, uint8 xz, float ys, uint8 yz) => (uint8[1, 2] y) {
    y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (x, xs, xz, ys, yz) }"""
zero = np.array(0, np.uint8)
feeds = dict(x=np.uint8([[7, 7]]), xs=np.array(0.1, np.float32), xz=zero, ys=np.array(1 / 129.9, np.float32), yz=zero)
found = run(text, feeds).tolist()
print(f"0.5 in steps of 1 / 129.9: {found}, right is [[65, 65]]")
assert found == [[64, 64]]
PY
