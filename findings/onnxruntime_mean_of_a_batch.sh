#!/usr/bin/env bash
# ONNX Runtime | 1.32.0, x86-64 | ReduceMean | A mean over a middle axis depends on the batch: [25, 16, 64] at once and
# its 25 images one by one have other last bits. | The same bits for the same image.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": 13]>
g (float[n, 16, 64] x) => (float[n, 64] y) { y = ReduceMean <axes = [1], keepdims = 0> (x) }"""
x = np.random.default_rng(0).normal(size=(25, 16, 64)).astype(np.float32)
single = np.concatenate([run(text, dict(x=image[None])) for image in x])
differ = int((run(text, dict(x=x)) != single).sum())
print(f"{differ} of {single.size} means differ between a batch of 25 and 25 batches of 1")
assert differ > 0
PY
