#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | DequantizeLinear | The zero point of an int32 is subtracted in int32, which wraps: the least
# integer with zero point 3 becomes a large positive float. | The difference of the real numbers.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 10, opset_import: ["": 21]>
g (int32[1] x, float s, int32 z) => (float[1] y) { y = DequantizeLinear (x, s, z) }"""
feeds = dict(x=np.int32([-(2**31)]), s=np.array(1, np.float32), z=np.array(3, np.int32))
(found,) = run(text, feeds).tolist()
print(f"(-2147483648 - 3) * 1.0: {found}")
assert found > 0
PY
