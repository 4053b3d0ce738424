#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | Resize | `tf_crop_and_resize` to as many elements as the input has copies the input. | The
# cropped part is stretched, whatever its size.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 18]>
g (float[1, 6] x) => (float[1, {0}] y) <float[4] roi = {{0, 0.2, 1, 1}}, int64[2] sizes = {{1, {0}}}> {{
    y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"> (x, roi, , sizes) }}"""
x = np.float32([[1, 2, 3, 4, 5, 6]])
for size in (5, 6):
    found, right = run(text.format(size), dict(x=x))[0], np.linspace(2, 6, size)
    print(f"{size} elements: {found.tolist()}, right is {right.round(2).tolist()}")
    assert np.allclose(found, right) == (size == 5)
assert (found == x).all()
PY
