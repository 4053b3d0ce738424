#!/usr/bin/env bash
# onnx, reference evaluator | 1.23.2 | QLinearMatMul, QLinearConv | The zero point is added before the rounding, so
# ties with an odd zero point are one off. | ONNX rounds first, as its own QuantizeLinear does.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
import onnx
from one_model import run
from onnx.reference import ReferenceEvaluator

text = """<ir_version: 8, opset_import: ["": 13]>
g (uint8[4, 1] x) => (uint8[4, 1] y)
<float h = {0.5}, float s = {1}, uint8 o = {0}, uint8 z = {3}, uint8[1, 1] w = {1}> {
    y = QLinearMatMul (x, h, o, w, s, o, s, z) }"""
feeds = dict(x=np.uint8([[1], [3], [5], [7]]))  # 0.5, 1.5, 2.5 and 3.5
(found,) = ReferenceEvaluator(onnx.parser.parse_model(text)).run(None, feeds)
theirs = run(text, feeds)
print(f"reference {found.ravel()}, ONNX Runtime {theirs.ravel()}, right [3 5 5 7]")
assert theirs.ravel().tolist() == [3, 5, 5, 7]
assert found.ravel().tolist() != [3, 5, 5, 7]
PY
