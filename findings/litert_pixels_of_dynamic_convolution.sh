#!/usr/bin/env bash
# LiteRT | 2.3.0, x86-64, XNNPACK, the default | CONV_2D of floats by int8 weights | The range by which floats are
# rounded to bytes is that of a pixel for a 1x1 filter of stride 1, and that of the image for any other filter or
# stride, or one channel on both sides. Pixels 0.1 and 100, copied to two channels, are 0.1 and 100 with stride 1, and 0
# and 100 with stride 2. | One rule: the built-in and the reference kernels take the image's range, and give 0 and 100.
. "$(dirname "$0")/environment.sh"
install ai-edge-litert==2.3.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from one_tflite import one_operator, run, schema


def convolve(x, stride):
    options = schema.Conv2DOptionsT()
    options.strideH = options.strideW = stride
    options.padding = schema.Padding.VALID
    width = len(x) // stride
    tensors = [
        ((1, 1, len(x), 1), "float32", None, None, None),
        ((2, 1, 1, 1), "int8", 1 / 127, 0, [127, 127]),
        ((2,), "float32", None, None, [0, 0]),
        ((1, 1, width, 2), "float32", None, None, None),
    ]
    found = run(one_operator("CONV_2D", tensors, options), np.float32(x).reshape(1, 1, -1, 1))
    return {name: np.round(y[0, 0, :, 0], 2).tolist() for name, y in found.items()}


near, apart = convolve([0.1, 100], 1), convolve([0.1, 0.1, 100, 100], 2)
for name in near:
    print(f"{name}: stride 1 gives {near[name]}, stride 2 {apart[name]}")
assert np.allclose(near["XNNPACK"], [0.1, 100])
assert {*map(tuple, [*apart.values(), near["builtin"], near["reference"]])} == {(0, 100)}
PY
