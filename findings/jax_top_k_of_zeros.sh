#!/usr/bin/env bash
# JAX (XLA) | 0.10.2 | top_k | -0 is ordered below 0. | They are equal, and the first one comes first, as in NumPy and
# ONNX.
. "$(dirname "$0")/environment.sh"
install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python - <<'PY'
import jax
import numpy as np

x = np.float32([-0.0, 0.0])
index = int(jax.lax.top_k(x, 1)[1][0])
print(f"top_k {index}, argmax {int(jax.numpy.argmax(x))}, NumPy's argmax {x.argmax()}")
assert index == 1
assert x.argmax() == int(jax.numpy.argmax(x)) == 0
PY
