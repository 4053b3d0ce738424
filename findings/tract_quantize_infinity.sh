#!/usr/bin/env bash
# tract | 0.23.9, x86-64 | QuantizeLinear | Infinity becomes 0, the lowest byte, and so does 3e9. | ONNX saturates:
# both are 255, which ONNX Runtime gives.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 tract==0.23.9 numpy==2.4.6
python - "$folder/model.onnx" <<'PY'
import sys

import numpy as np
import onnx
import tract
from one_model import run

text = """<ir_version: 8, opset_import: ["": 13]>
g (float[4] x) => (uint8[4] y) <float s = {1}, uint8 z = {3}> { y = QuantizeLinear (x, s, z) }"""
x = np.float32([300, 3e9, np.inf, -np.inf])
onnx.save(onnx.parser.parse_model(text), sys.argv[1])
found = tract.onnx().load(sys.argv[1]).into_model().into_runnable().run([x])[0].to_numpy()
theirs = run(text, dict(x=x))
print(f"{x} quantized: tract {found}, ONNX Runtime {theirs}")
assert theirs.tolist() == [255, 255, 255, 0]
assert found.tolist() == [255, 0, 0, 0]
PY
