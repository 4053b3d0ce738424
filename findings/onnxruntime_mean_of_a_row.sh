#!/usr/bin/env bash
# ONNX Runtime | 1.32.0, x86-64 | ReduceMean | Sixteen equal rows of 33 floats have several means: the order of the
# additions depends on the address at which a row begins. | Equal rows have equal means.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 13]>
g (float[16, 33] x) => (float[16] y) { y = ReduceMean <axes = [1], keepdims = 0> (x) }"""
generator = np.random.default_rng(0)
rows = (np.tile(generator.normal(size=33).astype(np.float32), (16, 1)) for _ in range(50))
several = sum(len({*run(text, dict(x=x)).tolist()}) > 1 for x in rows)
print(f"16 equal rows have more than one mean in {several} of 50 tensors")
assert several > 0
PY
