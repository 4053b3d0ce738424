#!/usr/bin/env bash
# JAX 0.10.2 on a CPU (0.12.0.1 too): `x / s` in float32 is not the IEEE quotient, although the processor has one.
# XLA multiplies by a reciprocal: a third of random quotients differ in the last bit, which moves a
# quantized value where the quotient is near a tie.
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
