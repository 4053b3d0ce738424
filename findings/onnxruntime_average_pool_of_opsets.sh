#!/usr/bin/env bash
# ONNX Runtime | 1.32.0, x86-64 | AveragePool | The same float pool has other last bits in opset 19 than in opset 18:
# one kernel adds the rows of a window first, the other one element after another. | One order of additions.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_model import run

text = """<ir_version: 8, opset_import: ["": {}]>
g (float[1, 8, 33, 33] x) => (float[1, 8, 32, 32] y) {{ y = AveragePool <kernel_shape = [2, 2]> (x) }}"""
feeds = dict(x=np.random.default_rng(0).normal(size=(1, 8, 33, 33)).astype(np.float32))
old, new = (run(text.format(opset), feeds) for opset in (18, 19))
print(f"{(old != new).sum():,} of {old.size:,} differ, by at most {np.abs(old - new).max():.1e}")
assert (old != new).sum() > old.size // 10
PY
