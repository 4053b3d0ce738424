#!/usr/bin/env bash
# OpenVINO | 2026.4.1, x86-64 | QLinearConv, QLinearAdd | A QLinearConv with a scale for each filter is wrong nearly
# everywhere, as if the scales belonged to the input's channels; a com.microsoft QLinearAdd wraps modulo 256. No
# message says so. | The scales belong to the filters; sums saturate.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 numpy==2.4.6
python - <<'PY'
import numpy as np
import onnx
import onnxruntime
import openvino


def run_both(text, feeds):
    data = onnx.parser.parse_model(text).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(data), "CPU")
    return session.run(None, feeds)[0].astype(int), compiled(feeds)[0].astype(int)


random = np.random.default_rng(0)
weights = ", ".join(map(str, random.integers(-127, 128, 64)))
scales = ", ".join(f"{x:.4f}" for x in random.uniform(0.001, 0.02, 8))
convolution = f"""<ir_version: 8, opset_import: ["": 13]>
g (uint8[1, 8, 6, 6] x) => (uint8[1, 8, 6, 6] y)
<float sx = {{0.1}}, uint8 zx = {{128}}, int8[8, 8, 1, 1] w = {{{weights}}}, float[8] sw = {{{scales}}},
 int8[8] zw = {{0, 0, 0, 0, 0, 0, 0, 0}}, float sy = {{0.5}}, uint8 zy = {{128}}>
{{ y = QLinearConv (x, sx, zx, w, sw, zw, sy, zy) }}"""
theirs, found = run_both(convolution, dict(x=random.integers(0, 256, (1, 8, 6, 6)).astype(np.uint8)))
wrong = int((np.abs(theirs - found) > 1).sum())
print(f"QLinearConv: {wrong} of {found.size} bytes differ from ONNX Runtime's by more than 1")
assert wrong > found.size // 4

addition = """<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>
g (uint8[3] a, uint8[3] b) => (uint8[3] y) <float s = {0.1}, uint8 z = {0}>
{ y = com.microsoft.QLinearAdd (a, s, z, b, s, z, s, z) }"""
theirs, found = run_both(addition, dict(a=np.uint8([1, 200, 255]), b=np.uint8([2, 100, 255])))
print(f"QLinearAdd of [1, 200, 255] and [2, 100, 255]: OpenVINO {found}, ONNX Runtime {theirs}")
assert theirs.tolist() == [3, 255, 255]
assert found.tolist() != theirs.tolist()
PY
