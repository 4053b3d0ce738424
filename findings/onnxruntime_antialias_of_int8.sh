#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | Resize | antialias=1 gives 0 for every negative average of an int8 image. | -70 in the
# example, as for the same image in float.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 18]>
g (KIND[1, 1, 1, 4] x) => (KIND[1, 1, 1, n] y) <int64[4] sizes = {1, 1, 1, 2}>
{ y = Resize <mode = "linear", antialias = 1> (x, , , sizes) }"""
x = np.array([[[[-128, -50, 100, 127]]]])
bytes_, floats = (
    run(text.replace("KIND", kind), dict(x=x.astype(dtype))).ravel().tolist()
    for kind, dtype in (("int8", np.int8), ("float", np.float32))
)
print(f"int8 {bytes_}, float {floats}")
assert bytes_[0] == 0
assert floats[0] < -50
PY
