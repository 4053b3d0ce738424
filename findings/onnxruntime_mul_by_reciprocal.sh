#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | Mul, Reciprocal | With the default optimisations `a * (1 / b)` becomes `a / b`: a quarter of
# random results differ. | Two roundings, as with the optimisations off.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 17]>
g (float[n] a, float[n] b) => (float[n] y)
<float one = {1}> { r = Div (one, b)
    y = Mul (a, r) }"""
a, b = np.random.default_rng(0).normal(size=(2, 100_000)).astype(np.float32)
plain, fused = (run(text, dict(a=a, b=b), optimize) for optimize in (False, True))
print(f"{(plain != fused).sum():,} of {a.size:,} elements differ between both levels")
assert (plain == a * (np.float32(1) / b)).all()
assert (fused == a / b).all()
PY
