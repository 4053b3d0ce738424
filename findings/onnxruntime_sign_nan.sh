#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | Sign | NaN has the sign NaN in float32 and 0 in float16. | One answer for both dtypes.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = '<ir_version: 8, opset_import: ["": 13]> g ({0}[1] x) => ({0}[1] y) {{ y = Sign (x) }}'
wide = run(text.format("float"), dict(x=np.float32([np.nan])))
narrow = run(text.format("float16"), dict(x=np.float16([np.nan])))
print(f"float32 {wide}, float16 {narrow}")
assert np.isnan(wide).all()
assert narrow.tolist() == [0]
PY
