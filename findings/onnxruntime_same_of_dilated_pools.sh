#!/usr/bin/env bash
# ONNX Runtime | 1.32.0 | MaxPool | auto_pad SAME_LOWER with dilations gives fewer outputs than size / stride: the
# padding is computed without the dilation, the outputs with it. | size / stride outputs, which ONNX promises.
. "$(dirname "$0")/environment.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PY'
import numpy as np
import onnx
from one_model import run

text = """<ir_version: 10, opset_import: ["": 22]>
g (float[1, 1, 4, 5] x) => (float[1, 1, h, w] y) {
    y = AveragePool <auto_pad = "SAME_LOWER", kernel_shape = [2, 3], strides = [2, 3], dilations = [2, 2]> (x) }"""
x = np.zeros((1, 1, 4, 5), np.float32)
found = list(run(text, dict(x=x)).shape)
inferred = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)).graph.output[0]
wanted = [size.dim_value for size in inferred.type.tensor_type.shape.dim]
print(f"ONNX Runtime {found}, ONNX's shape inference {wanted}")
assert (found, wanted) == ([1, 1, 1, 1], [1, 1, 2, 2])
PY
