#!/usr/bin/env bash
# JAX (XLA) | 0.10.2 (0.12.0.1 too), CPU | x / s | XLA multiplies by a reciprocal: a third of random float32 quotients
# differ in the last bit, which moves quantized values near ties. | The IEEE quotient, for which the processor has an
# instruction.
. "$(dirname "$0")/environment.sh"
install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python - <<'PY'
import jax
import numpy as np

x = np.random.default_rng(0).normal(size=1 << 20).astype(np.float32)
s = np.float32(0.0137)
differ = int((np.asarray(jax.jit(lambda x, s: x / s)(x, s)) != x / s).sum())
print(f"{differ:,} of {x.size:,} quotients by 0.0137 differ from IEEE's")
assert differ > x.size // 5
PY
