#!/usr/bin/env bash
# ncnn | 1.0.20261020, x86-64 | Quantize | 3e9 becomes -127, the lowest value. Halves are rounded away from zero, and
# -128 never comes. | A float above the range saturates at 127, as 2.1e9 does.
. "$(dirname "$0")/environment.sh"
install ncnn==1.0.20261020 numpy==2.4.6
python - "$folder" <<'PY'
import sys
from pathlib import Path

import ncnn
import numpy as np

param, weights = (str(Path(sys.argv[1], name)) for name in ("net.param", "net.bin"))
Path(param).write_text("7767517\n2 2\nInput x 0 1 x\nQuantize q 1 1 x y 0=1\n")
Path(weights).write_bytes(np.float32(1).tobytes())  # the scale
net = ncnn.Net()
net.load_param(param)
net.load_model(weights)
extractor = net.create_extractor()
x = np.float32([0.5, 2.5, -128, 300, 2.1e9, 3e9, np.inf])
extractor.input("x", ncnn.Mat(x))
found = np.array(extractor.extract("y")[1]).astype(int)
print(f"{x.tolist()} quantized by 1: {found}")
assert found.tolist() == [1, 3, -127, 127, 127, -127, -127]
PY
