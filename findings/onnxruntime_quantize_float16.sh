#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | QuantizeLinear | The float16 9.2421875 by the scale 0.0999 is 93 in opset 21, 92 in opset 23,
# and 93 in opset 23 with precision=1; no other attribute or input differs. | 92: ONNX divides in float16 unless
# `precision` says otherwise.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

found = []
for opset, precision in (21, ""), (23, ""), (23, "precision = 1"):
    text = f"""<ir_version: 10, opset_import: ["": {opset}]>
    g (float16[1] x, float16 s) => (uint8[1] y) {{ y = QuantizeLinear <{precision}> (x, s) }}"""
    text = text.replace("<> ", "")
    feeds = dict(x=np.float16([9.2421875]), s=np.array(0.0999, np.float16))
    found += run(text, feeds).tolist()
print(f"opset 21, opset 23, opset 23 with precision=1: {found}")
assert found == [93, 92, 93]
PY
