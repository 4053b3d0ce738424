#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | Slice | [1, 2, 3] from -1 to INT_MAX by steps of -1 is [3, 2, 1]: the kernel takes INT_MAX
# for "to the first element". | Nothing: the end lies beyond the start, as the reference evaluator and ONNX Runtime's
# own shape inference say.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
import onnx
from one_model import run

from onnx.reference import ReferenceEvaluator

text = """<ir_version: 8, opset_import: ["": 13]>
g (float[3] x) => (float[k] y)
<int64[1] s = {-1}, int64[1] e = {2147483647}, int64[1] axes = {0}, int64[1] steps = {-1}>
{ y = Slice (x, s, e, axes, steps) }"""
x = np.float32([1, 2, 3])
found = run(text, dict(x=x)).tolist()
(reference,) = ReferenceEvaluator(onnx.parser.parse_model(text)).run(None, dict(x=x))
print(f"ONNX Runtime {found}, ONNX's reference evaluator {reference.tolist()}")
assert (found, reference.tolist()) == ([3, 2, 1], [])
PY
