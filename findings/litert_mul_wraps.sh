#!/usr/bin/env bash
# LiteRT | 2.3.0, x86-64, the built-in kernels without XNNPACK | MUL, QUANTIZE | MUL of 127 and 127 with the output
# scale 1/4 and the zero point 1 is -128: it saturates at 16 bits, then wraps as it adds the zero point. QUANTIZE of
# 3e9 is -128, too. | 127 in both, which XNNPACK gives.
. "$(dirname "$0")/environment.sh"
install ai-edge-litert==2.3.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_tflite import one_operator, run, schema

x = np.full(40, 127, np.int8)
tensors = [((40,), "int8", 1, 0, None)] * 2 + [((40,), "int8", 0.25, 1, None)]
products = run(one_operator("MUL", tensors, schema.MulOptionsT()), x, x)
tensors = [((2,), "float32", None, None, None), ((2,), "int8", 1, 0, None)]
bytes_of = run(one_operator("QUANTIZE", tensors), np.float32([300, 3e9]))
for name in products:
    print(f"{name}: 127 * 127 is {products[name][0]}; 300 and 3e9 are {bytes_of[name]}")
assert {name: int(y[0]) for name, y in products.items()} == dict(
    XNNPACK=127, builtin=-128, reference=127
)
assert {name: y.tolist() for name, y in bytes_of.items()} == dict(
    XNNPACK=[127, 127], builtin=[127, -128], reference=[127, -128]
)
PY
