#!/usr/bin/env bash
# OpenVINO | 2026.4.1, x86-64 | QuantizeLinear | The zero point is added before the rounding, so every half is one off
# if the zero point is odd: 0.5 with the zero point 3 is 4. DynamicQuantizeLinear rounds up to 255 where ONNX has 254.
# | ONNX rounds half to even first, then adds: 3.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 numpy==2.4.6
python - <<'PY'
import numpy as np
import onnx
import openvino
from one_model import run


def both(text, x):
    core = openvino.Core()
    model = core.read_model(onnx.parser.parse_model(text).SerializeToString())
    return run(text, dict(x=x)).tolist(), core.compile_model(model, "CPU")(dict(x=x))[0].tolist()


text = """<ir_version: 8, opset_import: ["": 13]>
g (float[4] x) => (uint8[4] y) <float s = {1}, uint8 z = {3}> { y = QuantizeLinear (x, s, z) }"""
theirs, found = both(text, np.float32([0.5, 1.5, 2.5, 3.5]))
print(f"[0.5 1.5 2.5 3.5], zero point 3: ONNX Runtime {theirs}, OpenVINO {found}")
assert (theirs, found) == ([3, 5, 5, 7], [4, 4, 6, 6])
text = """<ir_version: 8, opset_import: ["": 13]>
g (float[4] x) => (uint8[4] y) { y, s, z = DynamicQuantizeLinear (x) }"""
theirs, found = both(text, np.float32([-0.5, 0, 1, 254.5]))
print(f"[-0.5 0 1 254.5], dynamic: ONNX Runtime {theirs}, OpenVINO {found}")
assert (theirs, found) == ([0, 0, 1, 254], [0, 0, 1, 255])
PY
