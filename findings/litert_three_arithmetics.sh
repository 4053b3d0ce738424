#!/usr/bin/env bash
# LiteRT | 2.3.0, x86-64 | FULLY_CONNECTED | One int8 file has three answers, by the resolver. Halves go to the even
# number (XNNPACK), up (built-in kernels) or away from zero (reference). | One answer for one file. ONNX's rule, and
# XNNPACK's answer, is the even number.
. "$(dirname "$0")/environment.sh"
install ai-edge-litert==2.3.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_tflite import one_operator, run, schema

x = np.int8([[-5], [-3], [-1], [1], [3], [5]])  # halved: -2.5 to 2.5
tensors = [((6, 1), "int8", 0.5, 0, None), ((1, 1), "int8", 1, 0, [[1]])]
tensors += [((1,), "int32", 0.5, 0, [0]), ((6, 1), "int8", 1, 0, None)]
found = run(one_operator("FULLY_CONNECTED", tensors, schema.FullyConnectedOptionsT()), x)
for name, y in found.items():
    print(f"{name}: {(x.ravel() / 2).tolist()} are {y.ravel()}")
assert {name: y.ravel().tolist() for name, y in found.items()} == dict(
    XNNPACK=[-2, -2, 0, 0, 2, 2], builtin=[-2, -1, 0, 1, 2, 3], reference=[-3, -2, -1, 1, 2, 3]
)
PY
