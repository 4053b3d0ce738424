#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | Clip | Without limits it changes infinities into the largest finite number. | Infinities
# stay.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = '<ir_version: 8, opset_import: ["": 13]> g ({0}[2] x) => ({0}[2] y) {{ y = Clip (x) }}'
for name, dtype in {"float": np.float32, "float16": np.float16}.items():
    y = run(text.format(name), dict(x=np.array([-np.inf, np.inf], dtype)))
    print(name, y)
    assert y.tolist() == [np.finfo(dtype).min, np.finfo(dtype).max]
PY
