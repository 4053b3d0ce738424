#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | Resize | With keep_aspect_ratio_policy and the axes [-2, -1] the output has the input's size,
# whatever sizes the file asks for. | As with the axes [2, 3], which are the same.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 18]>
g (float[1, 3, 8, 7] x) => (float[1, 3, h, w] y) <int64[2] sizes = {5, 1}> {
    y = Resize <mode = "linear", axes = AXES, keep_aspect_ratio_policy = "not_smaller"> (x, , , sizes) }"""
x = np.zeros((1, 3, 8, 7), np.float32)
negative, positive = (
    list(run(text.replace("AXES", axes), dict(x=x)).shape) for axes in ("[-2, -1]", "[2, 3]")
)
print(f"axes [-2, -1]: {negative}, axes [2, 3]: {positive}")
assert negative == [1, 3, 8, 7]
assert positive == [1, 3, 5, 4]
PY
