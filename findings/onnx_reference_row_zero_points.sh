#!/usr/bin/env bash
# onnx, reference evaluator | 1.23.2 | MatMulInteger | a_zero_point with one value for each row is subtracted along the
# columns: [[5, 6], [7, 8]] less [5, 1] becomes [[0, 5], [2, 7]]. | ONNX says "per row", [[0, 1], [6, 7]], as OpenVINO
# and tract compute it; ONNX Runtime refuses the file.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 openvino==2026.4.1 numpy==2.4.6
python - <<'PY'
import numpy as np
import onnx
import openvino
from onnx.reference import ReferenceEvaluator

text = """<ir_version: 8, opset_import: ["": 13]>
g (uint8[2, 2] x) => (int32[2, 2] y) <int8[2, 2] w = {1, 0, 0, 1}, uint8[2] z = {5, 1}> {
    y = MatMulInteger (x, w, z) }"""
model, x = onnx.parser.parse_model(text), np.uint8([[5, 6], [7, 8]])
(found,) = ReferenceEvaluator(model).run(None, dict(x=x))
core = openvino.Core()
theirs = core.compile_model(core.read_model(model.SerializeToString()), "CPU")(dict(x=x))[0]
print(f"reference {found.tolist()}, OpenVINO {theirs.tolist()}")
assert theirs.tolist() == [[0, 1], [6, 7]]
assert found.tolist() == [[0, 5], [2, 7]]
PY
