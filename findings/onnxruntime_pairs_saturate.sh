#!/usr/bin/env bash
# ONNX Runtime | 1.32.0, x86-64 with AVX2 and without VNNI | MatMulInteger | 64 products of 255 and 127 add up to
# 1,048,544: each pair of products saturates at 16 bits. No message says so. | 2,072,640, an int32 sum, which
# onnxruntime-web 1.30.0 gives for the same file.
. "$(dirname "$0")/environment.sh"
if grep --quiet vnni /proc/cpuinfo; then echo "this processor has VNNI, and adds no pairs" && exit 2; fi
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
npm install --silent --prefix "$folder" onnxruntime-web@1.30.0 # needs Node.js
cat >"$folder/web.js" <<'JS'
const ort = require('onnxruntime-web');
(async () => {
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(require('fs').readFileSync(process.argv[2]));
  const x = new ort.Tensor('uint8', new Uint8Array(64).fill(255), [1, 64]);
  console.log((await session.run({x})).y.data[0]);
})();
JS
python - "$folder" <<'PY'
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from one_model import run

folder = Path(sys.argv[1])
text = f"""<ir_version: 8, opset_import: ["": 13]>
g (uint8[1, 64] x) => (int32[1, 1] y) <int8[64, 1] w = {{{", ".join(["127"] * 64)}}}> {{
    y = MatMulInteger (x, w) }}"""
onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
command = ["node", folder / "web.js", folder / "model.onnx"]
web = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
native = run(text, dict(x=np.full((1, 64), 255, np.uint8))).item()
print(f"64 * 255 * 127 is {64 * 255 * 127}: ONNX Runtime {native}, onnxruntime-web {web}")
assert web == 64 * 255 * 127
assert native == 32 * 32767
PY
